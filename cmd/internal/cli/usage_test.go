package cli

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestUsageLinesDeclareArguments(t *testing.T) {
	one := func(name string) argument { return argument{name: name} }
	for line, want := range map[string]usage{
		"version":                        {dash: -1},
		"get ADDR ID FILE|-":             {args: []argument{one("ADDR"), one("ID"), one("FILE|-")}, dash: -1},
		"list ADDR[/SERVER]":             {args: []argument{one("ADDR[/SERVER]")}, dash: -1},
		"resume [ADDR[/AGENT]] TASK_ID":  {args: []argument{{name: "ADDR[/AGENT]", optional: true}, one("TASK_ID")}, dash: -1},
		"set ADDR KEY=VALUE...":          {args: []argument{one("ADDR"), {name: "KEY=VALUE", repeated: true}}, dash: -1},
		"check [--keys FILE] [FILE]...":  {args: []argument{{name: "FILE", optional: true, repeated: true}}, dash: -1},
		"send ADDR --kind KIND":          {args: []argument{one("ADDR")}, flags: []string{"--kind KIND"}, dash: -1},
		"work ADDR -- COMMAND [ARG]...":  {args: []argument{one("ADDR"), one("COMMAND"), {name: "ARG", optional: true, repeated: true}}, dash: 1},
		"call ADDR [NAME=VALUE|N:=J]...": {args: []argument{one("ADDR"), {name: "NAME=VALUE|N:=J", optional: true, repeated: true}}, dash: -1},
	} {
		if diff := cmp.Diff(want, parseUsage(line), cmp.AllowUnexported(usage{}, argument{})); diff != "" {
			t.Errorf("%q: %s", line, diff)
		}
	}
}

func TestValuesGoToTheArgumentsTheyAreFor(t *testing.T) {
	for _, c := range []struct {
		line   string
		values []string
		want   []string
	}{
		{"resume [ADDR] TASK", []string{"t"}, []string{"TASK=t"}},
		{"resume [ADDR] TASK", []string{"a", "t"}, []string{"ADDR=a", "TASK=t"}},
		{"set ADDR PAIR...", []string{"a", "1", "2", "3"}, []string{"ADDR=a", "PAIR=1", "PAIR=2", "PAIR=3"}},
		{"call ADDR TOOL [ARG]...", []string{"a", "t"}, []string{"ADDR=a", "TOOL=t"}},
		{"call ADDR TOOL [ARG]...", []string{"a", "t", "1", "2"}, []string{"ADDR=a", "TOOL=t", "ARG=1", "ARG=2"}},
	} {
		u := parseUsage(c.line)
		var got []string
		u.named(c.values, func(a argument, value string) bool {
			got = append(got, a.name+"="+value)
			return true
		})
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%q with %q: %s", c.line, c.values, diff)
		}
	}
}
