package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/vectors"
)

// compareFrame compares a frame that the endpoint sent, or a message of
// JSON-RPC.
func (sc *scene) compareFrame(i int, x *vectors.Expect, s *Seen) string {
	st := &sc.input.Steps[i]
	switch {
	case s.Frame == nil && st.Dir == vectors.Told:
		return "the application was told nothing"
	case s.Frame == nil:
		return "nothing was sent"
	case st.Conn == vectors.JSONConn:
		return sc.compareJSON(i, x, s.Frame)
	}
	got, err := decode(s.Frame)
	if err != nil {
		return "what was sent is no frame: " + err.Error()
	}
	if want := sc.frames[i]; want != nil {
		w, err := decode(want)
		if err != nil {
			return "octets of an out step: " + err.Error()
		}
		switch {
		case w.ProfileID != got.ProfileID || w.MsgType != got.MsgType || w.Flags != got.Flags:
			return fmt.Sprintf("profile %d msg_type %d flags %#x was sent, want profile %d msg_type %d flags %#x",
				got.ProfileID, got.MsgType, got.Flags, w.ProfileID, w.MsgType, w.Flags)
		case len(w.Extensions) > 0 && !bytes.Equal(w.Extensions, got.Extensions) && !bytes.Equal(w.Extensions, withoutWindow(got)):
			return fmt.Sprintf("extensions %q were sent, want %q", got.Extensions, w.Extensions)
		case len(x.FreeMembers) > 0:
			if fault := compareMembers(x.FreeMembers, w, got); fault != "" {
				return fault
			}
		case len(x.Free) > 0:
			if fault := compareFields(x.Free, w, got); fault != "" {
				return fault
			}
		case !bytes.Equal(w.Payload, got.Payload):
			return fmt.Sprintf("payload %q was sent, want %q", got.Payload, w.Payload)
		}
	}
	if fault := first(
		func() string { return equal("profile_id", x.ProfileID, got.ProfileID) },
		func() string { return equal("msg_type", x.MsgType, got.MsgType) },
		func() string { return sc.compareMsgID(i, x, got.MsgID) },
	); fault != "" || x.ErrorCode == "" && x.Code == "" {
		return fault
	}
	return compareErrorFrame(x, got.Payload)
}

// compareMsgID compares with the msg_id of the last frame that the peer sent on
// the same connection.
func (sc *scene) compareMsgID(i int, x *vectors.Expect, got []byte) string {
	if x.SameMsgID == nil {
		return ""
	}
	for j := i - 1; j >= 0; j-- {
		st := &sc.input.Steps[j]
		if st.Dir != vectors.In || st.Conn != sc.input.Steps[i].Conn {
			continue
		}
		asked, err := decode(st.Octets)
		switch {
		case err != nil && *x.SameMsgID:
			return "the frame before it has no msg_id to compare with"
		case err == nil && bytes.Equal(asked.MsgID, got) != *x.SameMsgID:
			return fmt.Sprintf("msg_id %x was sent after %x", got, asked.MsgID)
		}
		return ""
	}
	return "no frame before it has a msg_id to compare with"
}

// compareFresh looks for the msg_id of a frame that the endpoint sent in all that
// was sent before on its connection, by either side.
func (sc *scene) compareFresh(i int, x *vectors.Expect, seen *Observation) string {
	if x.FreshMsgID == nil {
		return ""
	}
	got, err := decode(seen.Steps[i].Frame)
	if err != nil {
		return "what was sent is no frame: " + err.Error()
	}
	fresh := true
	for j := range i {
		st := &sc.input.Steps[j]
		octets := seen.Steps[j].Frame
		if st.Dir == vectors.In {
			octets = st.Octets
		}
		if st.Conn == sc.input.Steps[i].Conn && (st.Dir == vectors.In || st.Dir == vectors.Out) {
			before, err := decode(octets)
			fresh = fresh && (err != nil || !bytes.Equal(before.MsgID, got.MsgID))
		}
	}
	if fresh != *x.FreshMsgID {
		return fmt.Sprintf("msg_id %x: not sent before on this connection is %t", got.MsgID, fresh)
	}
	return ""
}

// decode reads one frame with the limits of the wire and none of ours, and
// without a look at the version.
func decode(octets []byte) (*e1.Envelope, error) {
	body, err := frame.NewReader(bytes.NewReader(octets), frame.Options{Limit: frame.MaxLimit}).Next()
	if err != nil {
		return nil, err
	}
	var env e1.Envelope
	err = env.Decode(body, &e1.Limits{MaxPayload: frame.MaxLimit, MaxExtensions: frame.MaxLimit})
	return &env, err
}

// compareFields compares the bodies of two payloads of encoding P1, but for the
// content of free fields.
func compareFields(free []uint64, want, got *e1.Envelope) string {
	w, err := fieldsOfBody(want.Payload, want.MsgType)
	if err != nil {
		return "octets that are expected: " + err.Error()
	}
	g, err := fieldsOfBody(got.Payload, got.MsgType)
	if err != nil {
		return err.Error()
	}
	if len(w) != len(g) {
		return fmt.Sprintf("%d fields were sent, want %d: %q, want %q", len(g), len(w), got.Payload, want.Payload)
	}
	for i := range w {
		switch {
		case w[i].number != g[i].number:
			return fmt.Sprintf("field %d was sent, want %d", g[i].number, w[i].number)
		case slices.Contains(free, w[i].number):
			if g[i].value == "" {
				return fmt.Sprintf("field %d is empty", g[i].number)
			}
		case w[i].value != g[i].value:
			return fmt.Sprintf("field %d is %q, want %q", g[i].number, g[i].value, w[i].value)
		}
	}
	return ""
}

// compareErrorFrame reads a frame of the error path by itself, as any peer
// would: code and alias are strings 1 and 2 of message 1.
func compareErrorFrame(x *vectors.Expect, payload []byte) string {
	code, alias, err := readErrorFrame(payload)
	switch {
	case err != nil:
		return "error frame: " + err.Error()
	case x.Code != "" && x.Code != alias:
		return fmt.Sprintf("code mismatch: expected=%s observed=%s", x.Code, alias)
	case x.ErrorCode != "" && x.ErrorCode != code:
		return fmt.Sprintf("canonical code mismatch: expected=%s observed=%s", x.ErrorCode, code)
	}
	return ""
}

func (sc *scene) compareJSON(i int, x *vectors.Expect, got []byte) string {
	if want := sc.frames[i]; want != nil && !bytes.Equal(want, got) {
		return fmt.Sprintf("%q was sent, want %q", got, want)
	}
	var m struct {
		ID    json.RawMessage `json:"id"`
		Error *struct {
			Code int `json:"code"`
		} `json:"error"`
	}
	if err := json.Unmarshal(got, &m); err != nil {
		return fmt.Sprintf("%q was sent, which is no JSON-RPC: %v", got, err)
	}
	if x.JSONErrorCode != nil {
		if m.Error == nil {
			return fmt.Sprintf("%q was sent, want an error %d", got, *x.JSONErrorCode)
		}
		if fault := equal("JSON-RPC error code", x.JSONErrorCode, m.Error.Code); fault != "" {
			return fault
		}
	}
	if x.JSONID != "" && strings.TrimSpace(string(m.ID)) != x.JSONID {
		return fmt.Sprintf("JSON-RPC id %s was sent, want %s", m.ID, x.JSONID)
	}
	return ""
}

// withoutWindow returns the extensions of a request without the window that this implementation adds.
func withoutWindow(e *e1.Envelope) e1.Extensions {
	window := map[uint64]uint64{mcpmap.ProfileID: mcpmap.ExtWindow, rpc.ProfileID: rpc.ExtWindow}[e.ProfileID]
	var rest e1.Extensions
	for typ, value := range e.Extensions.All() {
		if typ != window || window == 0 {
			rest = e1.AppendExtension(rest, typ, value)
		}
	}
	return rest
}
