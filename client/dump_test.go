package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/cred"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/vectors"
)

func framed(env e1.Envelope) []byte {
	return env.Append(frame.AppendHeader(nil, env.Size()))
}

func dumpAll(t *testing.T, src io.Reader) ([]*Frame, int, error) {
	t.Helper()
	set, err := all.New(all.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	var list []*Frame
	faults, err := Dump(src, func(f *Frame) error {
		if _, err := json.Marshal(f); err != nil {
			t.Errorf("frame at %d: %v", f.Offset, err)
		}
		list = append(list, f)
		return nil
	}, DumpOptions{Registry: set.Registry})
	return list, faults, err
}

func TestDumpShowsEnvelopeAndPayload(t *testing.T) {
	id := []byte("12345678")
	call := rpc.Req{RPCID: []byte{1, 2}, Method: []byte("swp.echo"), Params: []byte{0xff}}
	in := framed(e1.Envelope{
		Version: 1, ProfileID: 1, MsgType: 3, Flags: 5, Timestamp: 1700000000000, MsgID: id,
		Extensions: e1.AppendExtension(e1.AppendExtension(nil, 16, []byte("files")), 48, []byte{1}),
		Payload:    []byte(`{"jsonrpc":"2.0"}`),
	})
	in = append(in, framed(e1.Envelope{Version: 1, ProfileID: 12, MsgType: 1, MsgID: id, Payload: call.Append(nil)})...)
	in = append(in, framed(e1.Envelope{Version: 1, ProfileID: 99, MsgType: 1, MsgID: id, Payload: []byte{0, 1}})...)
	in = append(in, framed(e1.Envelope{Version: 1, ProfileID: 99, MsgType: 1, MsgID: id, Payload: []byte("text")})...)
	got, faults, err := dumpAll(t, bytes.NewReader(in))
	if err != nil || faults != 0 {
		t.Fatalf("%d faults, error %v", faults, err)
	}
	const hexID = "3132333435363738"
	none := []Extension{}
	want := []*Frame{
		{
			Offset: 0, Size: 52, Version: 1, ProfileID: 1, Profile: "mcp", MsgType: 3, Type: got[0].Type, Flags: 5, Timestamp: 1700000000000, MsgID: hexID,
			Extensions: []Extension{{Type: 16, Text: "files"}, {Type: 48, Hex: "01"}}, PayloadLen: 17, JSON: json.RawMessage(`{"jsonrpc":"2.0"}`),
		},
		{
			Offset: 52, Size: 39, Version: 1, ProfileID: 12, Profile: "rpc", MsgType: 1, Type: "RPC_REQ", MsgID: hexID, Extensions: none, PayloadLen: 19,
			Message: map[string]any{"rpc_id": "0102", "method": "swp.echo", "params": "hex:ff"},
		},
		{Offset: 91, Size: 22, Version: 1, ProfileID: 99, MsgType: 1, MsgID: hexID, Extensions: none, PayloadLen: 2, Hex: "0001"},
		{Offset: 113, Size: 24, Version: 1, ProfileID: 99, MsgType: 1, MsgID: hexID, Extensions: none, PayloadLen: 4, Text: "text"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got[0].Type == "" {
		t.Error("the notification has no type name")
	}
}

func TestDumpShowsTheMessagesOfEverySchema(t *testing.T) {
	schemas, err := filepath.Glob("../proto/*.proto")
	shown := 0
	for _, p := range all.Tables() {
		if p.Show != nil {
			shown++
		}
	}
	if err != nil || len(schemas) != shown+1 { // and the options
		t.Errorf("messages of %d profiles are shown, of %d files in proto/, error %v", shown, len(schemas), err)
	}
}

// decodePayload returns the message in a payload as Dump shows it.
func decodePayload(env *e1.Envelope) any {
	for _, p := range all.Tables() {
		if p.ID == env.ProfileID {
			return p.Show(env)
		}
	}
	return nil
}

func TestDumpDoesNotShowCredentials(t *testing.T) {
	for _, test := range []struct {
		typ     uint64
		payload []byte
		want    any
	}{
		{cred.TypePresent, (&cred.Present{Type: []byte("jwt"), Credential: []byte("secret"), ChainID: []byte{0xff}}).Append(nil),
			map[string]any{"cred_type": "jwt", "credential_octets": 6, "chain_id": "hex:ff"}},
		{cred.TypeDelegate, (&cred.Delegate{ChainID: []byte("c"), Delegation: []byte("secret"), Expires: 7}).Append(nil),
			map[string]any{"chain_id": "c", "delegation_octets": 6, "expires_at_unix_ms": uint64(7)}},
	} {
		got := decodePayload(&e1.Envelope{ProfileID: cred.ProfileID, MsgType: test.typ, Payload: test.payload})
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("type %d:\n%s", test.typ, diff)
		}
	}
}

func TestDumpShowsMessagesWithinMessages(t *testing.T) {
	event := events.Record{EventID: []byte("i"), EventType: []byte("t"), Severity: []byte("info"), Timestamp: 7, TaskID: []byte{0xff}}
	shown := map[string]any{"event_id": "i", "event_type": "t", "severity": "info", "ts_unix_ms": uint64(7), "task_id": "ff", "body": ""}
	for _, test := range []struct {
		typ     uint64
		payload []byte
		want    any
	}{
		{events.TypePublish, (&events.Publish{Event: event}).Append(nil), map[string]any{"event": shown}},
		{events.TypeBatch, (&events.Batch{Events: []events.Record{event, event}}).Append(nil), map[string]any{"events": []any{shown, shown}}},
		{events.TypeBatch, (&events.Batch{}).Append(nil), map[string]any{"events": []any{}}},
	} {
		got := decodePayload(&e1.Envelope{ProfileID: events.ProfileID, MsgType: test.typ, Payload: test.payload})
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("type %d:\n%s", test.typ, diff)
		}
	}
}

func TestDumpSaysOffsetAndRule(t *testing.T) {
	good := framed(e1.Envelope{Version: 1, ProfileID: 12, MsgType: 1, MsgID: []byte("12345678")})
	at := int64(len(good))
	for name, tt := range map[string]struct {
		octets []byte
		offset int64 // of the fault, after a good frame
		code   string
		detail string
		after  int // frames that are still shown
	}{
		"zero length":      {[]byte{0, 0, 0, 0}, at, "ERR_INVALID_FRAME", "", 0},
		"too large":        {[]byte{0xff, 0, 0, 0, 1}, at, "ERR_INVALID_FRAME", "ERR_FRAME_TOO_LARGE", 0},
		"cut prefix":       {[]byte{0, 0}, at + 2, "ERR_INVALID_FRAME", "", 0},
		"cut body":         {good[:10], at + 10, "ERR_INVALID_FRAME", "", 0},
		"version":          {append([]byte{0, 0, 0, 1, 2}, good...), at + 4, "ERR_UNSUPPORTED_VERSION", "", 1},
		"long uvarint":     {append([]byte{0, 0, 0, 12, 1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1}, good...), at + 5, "ERR_INVALID_FRAME", "ERR_INVALID_UVARINT", 1},
		"length overruns":  {append([]byte{0, 0, 0, 6, 1, 12, 1, 0, 0, 9}, good...), at + 9, "ERR_INVALID_FRAME", "", 1},
		"msg_id too short": {append([]byte{0, 0, 0, 9, 1, 12, 1, 0, 0, 1, 'x', 0, 0}, good...), at + 9, "ERR_INVALID_ENVELOPE", "ERR_MSG_ID_INVALID", 1},
		"msg_type 0":       {framed(e1.Envelope{Version: 1, ProfileID: 12, MsgID: []byte("12345678")}), at + 6, "ERR_INVALID_ENVELOPE", "", 0},
	} {
		got, faults, err := dumpAll(t, io.MultiReader(bytes.NewReader(good), bytes.NewReader(tt.octets)))
		if err != nil || faults != 1 || len(got) != 2+tt.after {
			t.Errorf("%s: %d frames, %d faults, error %v", name, len(got), faults, err)
			continue
		}
		f := got[1].Fault
		if f == nil || f.Offset != tt.offset || f.Code != tt.code || f.Detail != tt.detail || f.Text == "" || got[1].Offset != at {
			t.Errorf("%s: frame at %d, fault %+v; want offset %d, %s %s", name, got[1].Offset, f, tt.offset, tt.code, tt.detail)
		}
	}
}

func TestDumpReportsAReaderThatFails(t *testing.T) {
	broken := errors.New("disk on fire")
	_, _, err := dumpAll(t, io.MultiReader(bytes.NewReader([]byte{0, 0}), readerFunc(func([]byte) (int, error) { return 0, broken })))
	if !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func FuzzDump(f *testing.F) {
	n := 0
	for _, octets := range vectors.Frames() {
		if n++; effort.Due(n, 20) {
			f.Add(octets)
		}
	}
	f.Add([]byte(strings.Repeat("\x00\x00\x00\x01\x01", 3)))
	f.Fuzz(func(t *testing.T, in []byte) {
		list, faults, err := dumpAll(t, bytes.NewReader(in))
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, f := range list {
			if f.Fault == nil {
				continue
			}
			n++
			if f.Fault.Offset < f.Offset || f.Fault.Offset > int64(len(in)) {
				t.Errorf("fault at %d in the frame at %d of %d octets", f.Fault.Offset, f.Offset, len(in))
			}
		}
		if n != faults {
			t.Errorf("%d faults counted, %d shown", faults, n)
		}
	})
}

// JSON has strings in UTF-8 only; encoding/json takes others.
func TestDumpIsAlwaysJSONInUTF8(t *testing.T) {
	for _, payload := range []string{`{"a":"` + "\xff" + `"}`, `"` + "\xed\xa0\x80" + `"`, "\xff", `{"a":"é"}`} {
		env := e1.Envelope{Version: 1, ProfileID: 5000, MsgType: 1, MsgID: make([]byte, 16), Payload: []byte(payload)}
		env.Extensions = e1.AppendExtension(nil, 16, []byte("\xff"))
		list, _, err := dumpAll(t, bytes.NewReader(frame.Append(nil, env.Append(nil))))
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		octets, err := json.Marshal(list[0])
		if err != nil || !utf8.Valid(octets) || !json.Valid(octets) {
			t.Errorf("%q: %q, %v", payload, octets, err)
		}
	}
}
