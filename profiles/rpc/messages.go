package rpc

import (
	"github.com/slimwire/swp/profiles/p1"
)

// The message types, which are also the numbers of the members of the wrapper.
const (
	TypeReq        = 1
	TypeResp       = 2
	TypeErr        = 3
	TypeStreamItem = 4
	TypeCancel     = 5

	members = TypeCancel
)

// The messages below are views. Decode reads a payload, wrapper included, and
// the slices alias it; the error is an *profiles.Error of InvalidProfilePayload
// for what is malformed and for a required field that is absent. Append appends
// a payload of Size octets and checks nothing.

// Req asks for one run of a method.
type Req struct {
	RPCID          []byte // required
	Method         []byte // required, UTF-8
	Params         []byte
	IdempotencyKey []byte // UTF-8
}

// Decode reads m from a payload.
func (m *Req) Decode(payload []byte) error {
	*m = Req{}
	body, err := p1.Body(payload, TypeReq, members)
	if err != nil {
		return err
	}
	f := p1.Read(body)
	for f.Next() {
		switch f.Num() {
		case 1:
			f.Bytes(&m.RPCID)
		case 2:
			f.Text(&m.Method)
		case 3:
			f.Bytes(&m.Params)
		case 4:
			f.Text(&m.IdempotencyKey)
		}
	}
	switch {
	case f.Err() != nil:
		return f.Err()
	case len(m.RPCID) == 0:
		return p1.Missing("rpc_id")
	case len(m.Method) == 0:
		return p1.Missing("method")
	}
	return nil
}

func (m *Req) size() int {
	return p1.SizeBytes(1, m.RPCID) + p1.SizeBytes(2, m.Method) + p1.SizeBytes(3, m.Params) + p1.SizeBytes(4, m.IdempotencyKey)
}

// Size returns how many octets Append will add.
func (m *Req) Size() int { return p1.SizeHeader(TypeReq, m.size()) }

// Append appends the payload to dst.
func (m *Req) Append(dst []byte) []byte {
	dst = p1.AppendHeader(dst, TypeReq, m.size())
	dst = p1.AppendBytes(dst, 1, m.RPCID)
	dst = p1.AppendBytes(dst, 2, m.Method)
	dst = p1.AppendBytes(dst, 3, m.Params)
	return p1.AppendBytes(dst, 4, m.IdempotencyKey)
}

// Resp ends a call with success.
type Resp struct {
	RPCID  []byte // required
	Result []byte
}

// Decode reads m from a payload.
func (m *Resp) Decode(payload []byte) error {
	*m = Resp{}
	body, err := p1.Body(payload, TypeResp, members)
	if err != nil {
		return err
	}
	f := p1.Read(body)
	for f.Next() {
		switch f.Num() {
		case 1:
			f.Bytes(&m.RPCID)
		case 2:
			f.Bytes(&m.Result)
		}
	}
	switch {
	case f.Err() != nil:
		return f.Err()
	case len(m.RPCID) == 0:
		return p1.Missing("rpc_id")
	}
	return nil
}

func (m *Resp) size() int { return p1.SizeBytes(1, m.RPCID) + p1.SizeBytes(2, m.Result) }

// Size returns how many octets Append will add.
func (m *Resp) Size() int { return p1.SizeHeader(TypeResp, m.size()) }

// Append appends the payload to dst.
func (m *Resp) Append(dst []byte) []byte {
	dst = p1.AppendHeader(dst, TypeResp, m.size())
	dst = p1.AppendBytes(dst, 1, m.RPCID)
	return p1.AppendBytes(dst, 2, m.Result)
}

// AppendHead appends all of the payload but the octets of Result, which are
// its last.
func (m *Resp) AppendHead(dst []byte) []byte {
	dst = p1.AppendHeader(dst, TypeResp, m.size())
	dst = p1.AppendBytes(dst, 1, m.RPCID)
	return p1.AppendHeader(dst, 2, len(m.Result))
}

// Err ends a call with failure.
type Err struct {
	RPCID        []byte // required
	ErrorCode    []byte // required, UTF-8; see the Code constants
	Retryable    bool   // always written
	ErrorMessage []byte // required, UTF-8
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
			f.Bytes(&m.RPCID)
		case 2:
			f.Text(&m.ErrorCode)
		case 3:
			f.Bool(&m.Retryable)
		case 4:
			f.Text(&m.ErrorMessage)
		}
	}
	switch {
	case f.Err() != nil:
		return f.Err()
	case len(m.RPCID) == 0:
		return p1.Missing("rpc_id")
	case len(m.ErrorCode) == 0:
		return p1.Missing("error_code")
	case len(m.ErrorMessage) == 0:
		return p1.Missing("error_message")
	}
	return nil
}

func (m *Err) size() int {
	return p1.SizeBytes(1, m.RPCID) + p1.SizeBytes(2, m.ErrorCode) + p1.SizeVarint(3, 0) + p1.SizeBytes(4, m.ErrorMessage)
}

// Size returns how many octets Append will add.
func (m *Err) Size() int { return p1.SizeHeader(TypeErr, m.size()) }

// Append appends the payload to dst.
func (m *Err) Append(dst []byte) []byte {
	var retryable uint64
	if m.Retryable {
		retryable = 1
	}
	dst = p1.AppendHeader(dst, TypeErr, m.size())
	dst = p1.AppendBytes(dst, 1, m.RPCID)
	dst = p1.AppendBytes(dst, 2, m.ErrorCode)
	dst = p1.AppendVarint(dst, 3, retryable)
	return p1.AppendBytes(dst, 4, m.ErrorMessage)
}

// StreamItem is one of a stream of partial results.
type StreamItem struct {
	RPCID      []byte // required
	SeqNo      uint64 // required: strictly increasing within a call, from 1
	Item       []byte
	IsTerminal bool // no item follows; a Resp or Err still does
}

// Decode reads m from a payload.
func (m *StreamItem) Decode(payload []byte) error {
	*m = StreamItem{}
	body, err := p1.Body(payload, TypeStreamItem, members)
	if err != nil {
		return err
	}
	f := p1.Read(body)
	for f.Next() {
		switch f.Num() {
		case 1:
			f.Bytes(&m.RPCID)
		case 2:
			f.Uint64(&m.SeqNo)
		case 3:
			f.Bytes(&m.Item)
		case 4:
			f.Bool(&m.IsTerminal)
		}
	}
	switch {
	case f.Err() != nil:
		return f.Err()
	case len(m.RPCID) == 0:
		return p1.Missing("rpc_id")
	}
	return nil
}

func (m *StreamItem) size() int {
	return p1.SizeBytes(1, m.RPCID) + p1.SizeUint(2, m.SeqNo) + p1.SizeBytes(3, m.Item) + p1.SizeBool(4, m.IsTerminal)
}

// Size returns how many octets Append will add.
func (m *StreamItem) Size() int { return p1.SizeHeader(TypeStreamItem, m.size()) }

// Append appends the payload to dst.
func (m *StreamItem) Append(dst []byte) []byte {
	dst = p1.AppendHeader(dst, TypeStreamItem, m.size())
	dst = p1.AppendBytes(dst, 1, m.RPCID)
	dst = p1.AppendUint(dst, 2, m.SeqNo)
	dst = p1.AppendBytes(dst, 3, m.Item)
	return p1.AppendBool(dst, 4, m.IsTerminal)
}

// Cancel asks to end a call early.
type Cancel struct {
	RPCID  []byte // required
	Reason []byte // UTF-8
}

// Decode reads m from a payload.
func (m *Cancel) Decode(payload []byte) error {
	*m = Cancel{}
	body, err := p1.Body(payload, TypeCancel, members)
	if err != nil {
		return err
	}
	f := p1.Read(body)
	for f.Next() {
		switch f.Num() {
		case 1:
			f.Bytes(&m.RPCID)
		case 2:
			f.Text(&m.Reason)
		}
	}
	switch {
	case f.Err() != nil:
		return f.Err()
	case len(m.RPCID) == 0:
		return p1.Missing("rpc_id")
	}
	return nil
}

func (m *Cancel) size() int { return p1.SizeBytes(1, m.RPCID) + p1.SizeBytes(2, m.Reason) }

// Size returns how many octets Append will add.
func (m *Cancel) Size() int { return p1.SizeHeader(TypeCancel, m.size()) }

// Append appends the payload to dst.
func (m *Cancel) Append(dst []byte) []byte {
	dst = p1.AppendHeader(dst, TypeCancel, m.size())
	dst = p1.AppendBytes(dst, 1, m.RPCID)
	return p1.AppendBytes(dst, 2, m.Reason)
}
