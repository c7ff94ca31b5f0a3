package sdl_test

import (
	"testing"

	"github.com/slimwire/swp/sdl"
)

func TestTheHeadOfAnEnvelopeIsReadWithoutTheRest(t *testing.T) {
	whole := sdl.Head{From: "a", To: "b"}
	for body, want := range map[string]sdl.Head{
		`{"from":{"agent_id":"a"},"to":{"agent_id":"b"}}`: whole,
		" \n{\"to\":{\"x\":{\"agent_id\":\"no\"},\"agent_\\u0069d\":\"b\"},\"from\":{\"agent_id\":\"a\"},\"payload\":{\"from\":1}}": whole,
		"\xa2\x64from\xa1\x68agent_id\x61a\x62to\xbf\x68agent_id\x7f\x61b\xff\xff":                                                  whole,
	} {
		form, refused := sdl.FormOf([]byte(body))
		if refused != nil {
			t.Fatal(refused)
		}
		if got, refused := sdl.ReadHead([]byte(body), form, sdl.Limits{}); refused != nil || got != want {
			t.Errorf("%q: %+v, %v", body, got, refused)
		}
	}
	for body, want := range map[string]string{
		`{"from":{"agent_id":"a"}}`: "BAD_REQUEST", `{"from":{"agent_id":""},"to":{"agent_id":"b"}}`: "BAD_REQUEST",
		`{"from":{"agent_id":1},"to":{"agent_id":"b"}}`: "BAD_REQUEST", `{"from":"a","to":{"agent_id":"b"}}`: "BAD_REQUEST",
		`{"from":{"agent_id":"a","agent_id":"c"},"to":{"agent_id":"b"}}`: "BAD_REQUEST",
		`{"from":{"agent_id":"a"},"to":{"agent_id":"b"},"to":{}}`:        "BAD_REQUEST",
		`{"from":[{"agent_id":"a"}],"to":{"agent_id":"b"}}`:              "BAD_REQUEST",
		`{"from":{"agent_id":"\ud800"},"to":{"agent_id":"b"}}`:           "BAD_REQUEST",
		`{"from":{"agent_id":"a"},"to":{"agent_id":"b"}`:                 "UNSUPPORTED_ENCODING",
		`[]`: "UNSUPPORTED_ENCODING", "": "UNSUPPORTED_ENCODING",
	} {
		form, _ := sdl.FormOf([]byte(body))
		if got, refused := sdl.ReadHead([]byte(body), form, sdl.Limits{}); refused == nil || string(refused.Code) != want {
			t.Errorf("%q: %+v, %v, want %s", body, got, refused, want)
		}
	}
	body := []byte(`{"from":{"agent_id":"a"},"to":{"agent_id":"b"}}`)
	for limit, ok := range map[int]bool{len(body): true, len(body) - 1: false} {
		if _, refused := sdl.ReadHead(body, sdl.JSON, sdl.Limits{MaxBytes: limit}); (refused == nil) != ok {
			t.Errorf("limit %d: %v", limit, refused)
		}
	}
}
