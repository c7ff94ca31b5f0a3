package a2a_test

import (
	"bytes"
	"runtime"
	"strings"
	"testing"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/proto/prototest"
)

func TestMessagesAreThoseOfTheSchema(t *testing.T) {
	id, text, opaque := []byte{0, 0xff}, []byte("é"), []byte{0xfe}
	prototest.Agree(t, "a2a", map[string]prototest.Message{
		`handshake {agent_id: "é" capabilities: ["é", "", "b"]}`:         &a2a.HandshakeBody{AgentID: text, Capabilities: [][]byte{text, nil, []byte("b")}},
		`handshake {agent_id: "é"}`:                                      &a2a.HandshakeBody{AgentID: text},
		`task {task_id: "\000\377" kind: "é" input: "\376"}`:             &a2a.TaskBody{TaskID: id, Kind: text, Input: opaque},
		`event {task_id: "\000\377" message: "é" event_payload: "\376"}`: &a2a.EventBody{TaskID: id, Message: text, Payload: opaque},
		`event {task_id: "\000\377" event_payload: "\376"}`:              &a2a.EventBody{TaskID: id, Payload: opaque},
		`result {task_id: "\000\377" ok: true output: "\376"}`:           &a2a.ResultBody{TaskID: id, OK: true, Output: opaque},
		`result {task_id: "\000\377" output: "\376" error_message: "é"}`: &a2a.ResultBody{TaskID: id, Output: opaque, ErrorMessage: text},
	})
}

func TestRequiredFieldsAndLimits(t *testing.T) {
	long, longer := []byte(strings.Repeat("x", a2a.MaxText)), []byte(strings.Repeat("x", a2a.MaxText+1))
	many := make([][]byte, a2a.MaxCapabilities)
	id, x := []byte("i"), []byte("x")
	for _, test := range []struct {
		name    string
		payload []byte
		ok      bool
		into    interface{ Decode([]byte) error }
	}{
		{"agent_id", (&a2a.HandshakeBody{AgentID: long}).Append(nil), true, &a2a.HandshakeBody{}},
		{"long agent_id", (&a2a.HandshakeBody{AgentID: longer}).Append(nil), false, &a2a.HandshakeBody{}},
		{"blank agent_id", (&a2a.HandshakeBody{AgentID: []byte(" \t\u00a0")}).Append(nil), false, &a2a.HandshakeBody{}},
		{"capability", (&a2a.HandshakeBody{AgentID: x, Capabilities: [][]byte{long}}).Append(nil), true, &a2a.HandshakeBody{}},
		{"long capability", (&a2a.HandshakeBody{AgentID: x, Capabilities: [][]byte{longer}}).Append(nil), false, &a2a.HandshakeBody{}},
		{"capabilities", (&a2a.HandshakeBody{AgentID: x, Capabilities: many}).Append(nil), true, &a2a.HandshakeBody{}},
		{"too many capabilities", (&a2a.HandshakeBody{AgentID: x, Capabilities: make([][]byte, a2a.MaxCapabilities+1)}).Append(nil), false, &a2a.HandshakeBody{}},
		{"agent_id that is not UTF-8", (&a2a.HandshakeBody{AgentID: []byte{0xff}}).Append(nil), false, &a2a.HandshakeBody{}},
		{"task_id", (&a2a.TaskBody{TaskID: long, Kind: long}).Append(nil), true, &a2a.TaskBody{}},
		{"long task_id", (&a2a.TaskBody{TaskID: longer, Kind: x}).Append(nil), false, &a2a.TaskBody{}},
		{"no task_id", (&a2a.TaskBody{Kind: x}).Append(nil), false, &a2a.TaskBody{}},
		{"no kind", (&a2a.TaskBody{TaskID: id}).Append(nil), false, &a2a.TaskBody{}},
		{"blank kind", (&a2a.TaskBody{TaskID: id, Kind: []byte(" ")}).Append(nil), false, &a2a.TaskBody{}},
		{"long kind", (&a2a.TaskBody{TaskID: id, Kind: longer}).Append(nil), false, &a2a.TaskBody{}},
		{"event without task_id", (&a2a.EventBody{Message: x}).Append(nil), false, &a2a.EventBody{}},
		{"event without anything", (&a2a.EventBody{TaskID: id}).Append(nil), false, &a2a.EventBody{}},
		{"event with long task_id", (&a2a.EventBody{TaskID: longer, Message: x}).Append(nil), false, &a2a.EventBody{}},
		{"result without task_id", (&a2a.ResultBody{OK: true}).Append(nil), false, &a2a.ResultBody{}},
		{"result with long task_id", (&a2a.ResultBody{TaskID: longer, OK: true}).Append(nil), false, &a2a.ResultBody{}},
		{"failure without a reason", (&a2a.ResultBody{TaskID: id}).Append(nil), false, &a2a.ResultBody{}},
		{"success without an output", (&a2a.ResultBody{TaskID: id, OK: true}).Append(nil), true, &a2a.ResultBody{}},
		{"body of another type", (&a2a.TaskBody{TaskID: id, Kind: x}).Append(nil), false, &a2a.EventBody{}},
	} {
		err := test.into.Decode(test.payload)
		if (err == nil) != test.ok || err != nil && profiles.AsError(err).Code != profiles.InvalidProfilePayload {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

func TestRS06CapabilityBombIsRefusedBeforeItIsDecoded(t *testing.T) {
	bomb := append([]byte{0x0a, 0x83, 0x80, 0x80, 0x04, 0x0a, 0x01, 'a'}, bytes.Repeat([]byte{0x12, 0x00}, 4<<20)...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var m a2a.HandshakeBody
	err := m.Decode(bomb)
	runtime.ReadMemStats(&after)
	if err == nil || profiles.AsError(err).Code != profiles.InvalidProfilePayload {
		t.Errorf("error %v, want %v", err, profiles.InvalidProfilePayload)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 64<<10 {
		t.Errorf("%d octets allocated to refuse %d", n, len(bomb))
	}
}
