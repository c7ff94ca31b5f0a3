package command

import "testing"

func TestACommandLineWithoutItsProgramIsRefused(t *testing.T) {
	for _, line := range []string{"no-such-program", " no-such-program --flag; true", "./no-such-program || exit 65", "/no/such/program <x", "no-such-program|cat"} {
		if err := checkLine(line); err == nil {
			t.Errorf("%q is accepted", line)
		}
	}
	for _, line := range []string{"", "cat", "cat; exit 1", "/bin/sh -c true", "cd /tmp && pwd", "while read line; do echo; done", "A=1 no-such-program", `"$PROGRAM" x`, "(cat)", "f() { cat; }; f", ": nothing", "{ cat; }", "! cat"} {
		if err := checkLine(line); err != nil {
			t.Errorf("%q: %v", line, err)
		}
	}
}
