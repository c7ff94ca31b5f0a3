package client

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/internal/jsonobject"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
	"github.com/slimwire/swp/transport/endpoint"
)

// Frame is the description of one frame by Dump.
type Frame struct {
	Offset int64 `json:"offset"` // of the length prefix in the input
	Size   int   `json:"size"`   // of the frame, prefix included

	// Fault is set if a rule is broken. The fields after it then have the values that were
	// read before the fault.
	Fault *Fault `json:"fault,omitempty"`

	Version    uint64      `json:"version"`
	ProfileID  uint64      `json:"profile_id"`
	Profile    string      `json:"profile,omitempty"` // if known here
	MsgType    uint64      `json:"msg_type"`
	Type       string      `json:"type,omitempty"` // if known here
	Flags      uint64      `json:"flags"`
	Timestamp  uint64      `json:"ts_unix_ms"`
	MsgID      string      `json:"msg_id"` // hex
	Extensions []Extension `json:"extensions"`

	// The payload is decoded if its profile is known here. Otherwise it is JSON or text if
	// it is valid as such, else hexadecimal.
	PayloadLen int             `json:"payload_len"`
	Message    any             `json:"payload,omitempty"`
	JSON       json.RawMessage `json:"payload_json,omitempty"`
	Text       string          `json:"payload_text,omitempty"`
	Hex        string          `json:"payload_hex,omitempty"`
}

// Extension is an entry of an extension block.
type Extension struct {
	Type uint64 `json:"type"`
	Text string `json:"text,omitempty"`
	Hex  string `json:"hex,omitempty"`
}

// Fault is a broken rule.
type Fault struct {
	Offset int64  `json:"offset"` // position in the input where reading stopped
	Code   string `json:"code"`
	Detail string `json:"detail,omitempty"`
	Text   string `json:"text"`
}

// DumpOptions configure Dump. The zero value is usable.
type DumpOptions struct {
	// Registry has the known profiles: their names, types and payloads. Nil knows none.
	Registry *profiles.Registry
}

// Dump reads frames from src and passes each to show, including broken ones. A broken
// envelope does not end it, because the prefix says where the next frame begins. It returns
// the number of broken frames. The error is one of src or show.
func Dump(src io.Reader, show func(*Frame) error, o DumpOptions) (faults int, err error) {
	in := &counted{src: src}
	rd := frame.NewReader(in, frame.Options{})
	defer rd.Close()
	limits := e1.Limits{}.WithDefaults()
	var offset int64
	for {
		body, err := rd.Next()
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return faults, nil
		}
		if err != nil {
			fault := endpoint.CodeOf(err)
			if fault.Code == profiles.Internal {
				return faults, fmt.Errorf("client: dump: %w", err)
			}
			at := offset // the prefix itself
			if errors.Is(err, frame.ErrTruncated) {
				at = in.n // the end of the input
			}
			have, _ := rd.Partial()
			return faults + 1, show(&Frame{Offset: offset, Size: have, Extensions: []Extension{}, Fault: faultOf(fault, at, err)})
		}
		f := describe(body, offset, &limits, &o)
		if f.Fault != nil {
			faults++
		}
		if err := show(f); err != nil {
			return faults, err
		}
		offset += int64(f.Size)
	}
}

func describe(body []byte, offset int64, limits *e1.Limits, o *DumpOptions) *Frame {
	f := &Frame{Offset: offset, Size: frame.HeaderSize + len(body), Extensions: []Extension{}}
	var env e1.Envelope
	err := env.Decode(body, limits)
	if err == nil {
		err = env.Validate(limits)
	}
	if err != nil {
		f.Fault = faultOf(endpoint.CodeOf(err), offset+frame.HeaderSize+int64(fieldAt(body, err)), err)
	}
	f.Version, f.ProfileID, f.MsgType, f.Flags, f.Timestamp = env.Version, env.ProfileID, env.MsgType, env.Flags, env.Timestamp
	f.MsgID = hex.EncodeToString(env.MsgID)
	for typ, value := range env.Extensions.All() {
		f.Extensions = append(f.Extensions, extension(typ, value))
	}
	f.PayloadLen = len(env.Payload)
	var known *profiles.Profile
	if o.Registry != nil {
		known, _ = o.Registry.Lookup(f.ProfileID)
	}
	if known != nil && known.Show != nil && f.Fault == nil {
		f.Message = known.Show(&env)
	}
	switch {
	case len(env.Payload) == 0, f.Message != nil:
	case jsonobject.Valid(env.Payload):
		f.JSON = json.RawMessage(env.Payload)
	case p1.Readable(env.Payload):
		f.Text = string(env.Payload)
	default:
		f.Hex = hex.EncodeToString(env.Payload)
	}
	if known != nil {
		f.Profile = known.Name
		if t, ok := known.Type(f.MsgType); ok {
			f.Type = t.Name
		}
	}
	return f
}

// fieldAt returns the position in a body of the field with the fault.
func fieldAt(body []byte, err error) int {
	fault := (*e1.Error)(nil)
	if !errors.As(err, &fault) {
		return 0
	}
	rest := body
	for f := e1.FieldVersion; f < fault.Field; f++ {
		v, n, err := e1.Uvarint(rest)
		if f >= e1.FieldMsgID {
			n += int(min(v, uint64(len(rest)-n)))
		}
		if err != nil || n > len(rest) {
			break
		}
		rest = rest[n:]
	}
	return len(body) - len(rest)
}

func faultOf(e *profiles.Error, offset int64, err error) *Fault {
	return &Fault{Offset: offset, Code: e.Code.String(), Detail: e.Detail, Text: err.Error()}
}

func extension(typ uint64, value []byte) Extension {
	if len(value) > 0 && p1.Readable(value) {
		return Extension{Type: typ, Text: string(value)}
	}
	return Extension{Type: typ, Hex: hex.EncodeToString(value)}
}

// counted counts the octets that were read.
type counted struct {
	src io.Reader
	n   int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.src.Read(p)
	c.n += int64(n)
	return n, err
}
