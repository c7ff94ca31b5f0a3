package cred

import (
	"github.com/slimwire/swp/profiles/p1"
)

// The message types, which are also the numbers of the members of the wrapper.
const (
	TypePresent  = 1
	TypeDelegate = 2
	TypeRevoke   = 3
	TypeErr      = 4

	members = TypeErr
)

// The messages below are views. Decode reads a payload, wrapper included, and
// the slices alias it; the error is an *profiles.Error of InvalidProfilePayload
// for what is malformed. Append appends a payload of Size octets and checks
// nothing.

// Present shows a credential.
type Present struct {
	Type       []byte // cred_type; required, UTF-8
	Credential []byte // required, opaque
	ChainID    []byte // opaque; empty starts no chain
}

// Decode reads m from a payload.
func (m *Present) Decode(payload []byte) error {
	*m = Present{}
	body, err := p1.Body(payload, TypePresent, members)
	if err != nil {
		return err
	}
	f := p1.Read(body)
	for f.Next() {
		switch f.Num() {
		case 1:
			f.Text(&m.Type)
		case 2:
			f.Bytes(&m.Credential)
		case 3:
			f.Bytes(&m.ChainID)
		}
	}
	switch {
	case f.Err() != nil:
		return f.Err()
	case len(m.Type) == 0:
		return p1.Missing("cred_type")
	case len(m.Credential) == 0:
		return p1.Missing("credential")
	}
	return nil
}

func (m *Present) size() int {
	return p1.SizeBytes(1, m.Type) + p1.SizeBytes(2, m.Credential) + p1.SizeBytes(3, m.ChainID)
}

// Size returns how many octets Append will add.
func (m *Present) Size() int { return p1.SizeHeader(TypePresent, m.size()) }

// Append appends the payload to dst.
func (m *Present) Append(dst []byte) []byte {
	dst = p1.AppendHeader(dst, TypePresent, m.size())
	dst = p1.AppendBytes(dst, 1, m.Type)
	dst = p1.AppendBytes(dst, 2, m.Credential)
	return p1.AppendBytes(dst, 3, m.ChainID)
}

// Delegate adds a delegation to a chain.
type Delegate struct {
	ChainID    []byte // required, opaque
	Delegation []byte // required, opaque
	Expires    uint64 // expires_at_unix_ms; required
}

// Decode reads m from a payload.
func (m *Delegate) Decode(payload []byte) error {
	*m = Delegate{}
	body, err := p1.Body(payload, TypeDelegate, members)
	if err != nil {
		return err
	}
	f := p1.Read(body)
	for f.Next() {
		switch f.Num() {
		case 1:
			f.Bytes(&m.ChainID)
		case 2:
			f.Bytes(&m.Delegation)
		case 3:
			f.Uint64(&m.Expires)
		}
	}
	switch {
	case f.Err() != nil:
		return f.Err()
	case len(m.ChainID) == 0:
		return p1.Missing("chain_id")
	case len(m.Delegation) == 0:
		return p1.Missing("delegation")
	case m.Expires == 0:
		return p1.Missing("expires_at_unix_ms")
	}
	return nil
}

func (m *Delegate) size() int {
	return p1.SizeBytes(1, m.ChainID) + p1.SizeBytes(2, m.Delegation) + p1.SizeUint(3, m.Expires)
}

// Size returns how many octets Append will add.
func (m *Delegate) Size() int { return p1.SizeHeader(TypeDelegate, m.size()) }

// Append appends the payload to dst.
func (m *Delegate) Append(dst []byte) []byte {
	dst = p1.AppendHeader(dst, TypeDelegate, m.size())
	dst = p1.AppendBytes(dst, 1, m.ChainID)
	dst = p1.AppendBytes(dst, 2, m.Delegation)
	return p1.AppendUint(dst, 3, m.Expires)
}

// Revoke ends a chain for good.
type Revoke struct {
	ChainID []byte // required, opaque
	Reason  []byte // UTF-8
}

// Decode reads m from a payload.
func (m *Revoke) Decode(payload []byte) error {
	*m = Revoke{}
	body, err := p1.Body(payload, TypeRevoke, members)
	if err != nil {
		return err
	}
	f := p1.Read(body)
	for f.Next() {
		switch f.Num() {
		case 1:
			f.Bytes(&m.ChainID)
		case 2:
			f.Text(&m.Reason)
		}
	}
	if f.Err() == nil && len(m.ChainID) == 0 {
		return p1.Missing("chain_id")
	}
	return f.Err()
}

func (m *Revoke) size() int { return p1.SizeBytes(1, m.ChainID) + p1.SizeBytes(2, m.Reason) }

// Size returns how many octets Append will add.
func (m *Revoke) Size() int { return p1.SizeHeader(TypeRevoke, m.size()) }

// Append appends the payload to dst.
func (m *Revoke) Append(dst []byte) []byte {
	dst = p1.AppendHeader(dst, TypeRevoke, m.size())
	return p1.AppendBytes(p1.AppendBytes(dst, 1, m.ChainID), 2, m.Reason)
}

// Err says why a message was refused.
type Err struct {
	Code    []byte // required, UTF-8; see the Code constants
	Message []byte // UTF-8
}

// Decode reads m from a payload.
func (m *Err) Decode(payload []byte) error {
	*m = Err{}
	body, err := p1.Body(payload, TypeErr, members)
	if err != nil {
		return err
	}
	f := p1.Read(body)
	for f.Next() {
		switch f.Num() {
		case 1:
			f.Text(&m.Code)
		case 2:
			f.Text(&m.Message)
		}
	}
	if f.Err() == nil && len(m.Code) == 0 {
		return p1.Missing("code")
	}
	return f.Err()
}

func (m *Err) size() int { return p1.SizeBytes(1, m.Code) + p1.SizeBytes(2, m.Message) }

// Size returns how many octets Append will add.
func (m *Err) Size() int { return p1.SizeHeader(TypeErr, m.size()) }

// Append appends the payload to dst.
func (m *Err) Append(dst []byte) []byte {
	dst = p1.AppendHeader(dst, TypeErr, m.size())
	return p1.AppendBytes(p1.AppendBytes(dst, 1, m.Code), 2, m.Message)
}
