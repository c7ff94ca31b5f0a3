package a2afront_test

import (
	"context"
	"testing"

	"github.com/slimwire/swp/internal/bridge/a2afront"
	"github.com/slimwire/swp/profiles/a2a"
)

// odd are JSON objects as no encoder would write them.
var odd = []string{
	`{}`,
	"{ \"n\" :\t9007199254740993 , \"f\":1.0,\"e\":1e400, \"z\":-0 }",
	`{"a":1,"a":2,"\u0061":3,"A":4}`,
	"{\"deep\":[[[{\"x\":[ ]}]]],\"text\":\"\\u2028 \\ud83d\\ude00 \u00e9 \\/\" }",
	"\t{\n\"lines\":\n1}",
	`{"unknown":{"extension":true},"":null}`,
}

func TestRequestsAndAnswersKeepTheirOctets(t *testing.T) {
	echo := func(_ context.Context, t *a2a.Task, _ func(string, []byte) error) ([]byte, error) {
		return t.Input, nil
	}
	b := newBench(t, "", a2a.Options{}, a2afront.Options{}, echo)
	for _, octets := range odd {
		for _, id := range []string{`1`, `9007199254740993`, `1.50`, `"a\u0062"`, `-0`, `1e2`} {
			got := b.do("POST", "/a2a/weather", " {\"id\" : "+id+", \"params\":"+octets+",\n\"method\":\"SendMessag\\u0065\",\"jsonrpc\":\"2.0\", \"other\":1}\n")
			task := b.given()
			params := trim(octets)
			if string(task.Input) != params || task.Kind != "a2a/1.0/SendMessage" {
				t.Errorf("%s %q, want %q", task.Kind, task.Input, params)
			}
			if want := `{"jsonrpc":"2.0","id":` + id + `,"result":` + params + `}`; got.body != want || got.status != 200 {
				t.Errorf("%d %q, want %q", got.status, got.body, want)
			}
		}
		got := b.do("POST", "/a2a/weather/message:send", octets)
		if task := b.given(); string(task.Input) != octets || got.body != octets {
			t.Errorf("REST: %q, back %q; want %q", task.Input, got.body, octets)
		}
	}
}

// trim removes the white space around a value, which belongs to what it stands in.
func trim(octets string) string {
	for octets[0] == '\t' {
		octets = octets[1:]
	}
	return octets
}
