package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/p1"
)

// answer makes of the lines of a worker what they mean.
type answer struct {
	event    func(message string, payload []byte) error
	output   []byte
	finished bool // the line with the output has come
}

// take handles the next line, without its end. The error is that of a refused Event, or a
// *Failure.
func (a *answer) take(line []byte) error {
	object, output, times := outputOf(line)
	switch {
	case len(bytes.TrimSpace(line)) == 0:
		return nil
	case times > 1 || times == 1 && a.finished:
		return &a2a.Failure{Reason: "the worker wrote two outputs"}
	case times == 1:
		a.output, a.finished = output, true
		return nil
	case object || !utf8.Valid(line):
		return a.event("", line)
	}
	return a.event(string(line), nil)
}

func lineTooLong(limit int) error {
	return &a2a.Failure{Reason: fmt.Sprintf("the worker wrote a line of more than %d octets", limit)}
}

// outputOf says whether a line is a JSON object, and returns the octets of its
// member "output" and how often it is there. Other than encoding/json it tells
// "output" from "Output".
func outputOf(line []byte) (object bool, output []byte, times int) {
	dec := json.NewDecoder(bytes.NewReader(line))
	if start, err := dec.Token(); err != nil || start != json.Delim('{') {
		return false, nil, 0
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return false, nil, 0
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return false, nil, 0
		}
		if name == "output" {
			output, times = value, times+1
		}
	}
	if _, err := dec.Token(); err != nil {
		return false, nil, 0
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return false, nil, 0
	}
	return true, output, times
}

// maxReason bounds the reason of a failure, in octets.
const maxReason = 1024

// reason makes what a program said the text of a failure: valid UTF-8, without
// control characters, at most maxReason octets.
func reason(said []byte) string {
	text := strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(string(said), "\uFFFD"))
	return p1.Clip(strings.TrimSpace(text), maxReason)
}
