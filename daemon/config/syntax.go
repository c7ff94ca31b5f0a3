package config

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"sort"
	"strings"

	"go.yaml.in/yaml/v3"
)

// syntaxProblem returns the line at which a file is not YAML, and the reason. The library
// reports the line at which the surrounding block begins, the line before it, or no line.
// syntaxProblem therefore searches the shortest beginning of the file that fails in the
// same way; its last line is the result.
func syntaxProblem(file string, text []byte, err error) Problem {
	p := Problem{Where: file, Text: syntaxText(err)}
	lines := bytes.SplitAfter(text, []byte("\n"))
	last := lastRead(lines, err)
	fails := func(n int) bool { return sameFault(decodeLines(lines[:n]), err) }
	if !fails(last) {
		return p // the fault needs later lines, so the problem names the whole file
	}
	if strings.Contains(err.Error(), "end of stream") {
		// An unclosed quote or bracket fails from its line to the end.
		last = 1 + sort.Search(last-1, func(n int) bool { return fails(n + 1) })
	}
	for last > 1 && fails(last-1) {
		last--
	}
	p.Where, p.line = placeAt(file, last), last
	return p
}

// lastRead returns how many lines the library reads before it fails.
func lastRead(lines [][]byte, err error) int {
	r := &lineReader{lines: lines}
	if sameFault(decode(r), err) {
		return r.read
	}
	return len(lines)
}

func decodeLines(lines [][]byte) error { return decode(bytes.NewReader(bytes.Join(lines, nil))) }

// decode returns the error of the documents in r.
func decode(r io.Reader) error {
	dec := yaml.NewDecoder(r)
	for {
		var doc yaml.Node
		if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// lineReader returns one line with each call and counts lines.
type lineReader struct {
	lines [][]byte
	at    int // octets of the current line already returned
	read  int
}

func (r *lineReader) Read(p []byte) (int, error) {
	if r.at == 0 && r.read == len(r.lines) {
		return 0, io.EOF
	}
	if r.at == 0 {
		r.read++
	}
	line := r.lines[r.read-1]
	n := copy(p, line[r.at:])
	if r.at += n; r.at == len(line) {
		r.at = 0
	}
	return n, nil
}

var yamlPlace = regexp.MustCompile(`^yaml: (line \d+: )?`)

// sameFault compares errors of the library without their lines: an unclosed quote or
// bracket ends with the text.
func sameFault(err, other error) bool {
	if err == nil || other == nil {
		return err == other
	}
	return yamlPlace.ReplaceAllString(err.Error(), "") == yamlPlace.ReplaceAllString(other.Error(), "")
}

// syntaxAdvice is the usual cause of an error of the library.
var syntaxAdvice = []struct{ words, advice string }{
	{"did not find expected key", "is this line indented like the keys beside it?"},
	{"did not find expected '-' indicator", "is this line indented like the elements beside it?"},
	{"found character that cannot start any token", "indent with spaces instead of tabs, and quote text that begins with @, ` or %"},
	{"found a tab character", "indent with spaces instead of tabs"},
	{"could not find expected ':'", "a key ends with a colon, and what follows it is indented deeper"},
	{"mapping values are not allowed in this context", "is the line indented like its neighbours? Text with a colon and a space needs quotes"},
	{"did not find expected ',' or ']'", "the list that [ began needs a comma here, or its ]"},
	{"did not find expected ',' or '}'", "the mapping that { began needs a comma here, or its }"},
	{"found unexpected end of stream", "a quote that is opened here is never closed"},
	{"unknown anchor", "an alias needs its anchor above it; quote text that begins with *"},
	{"control characters are not allowed", "remove them"},
	{"UTF-8", "save the file as UTF-8"},
}

func syntaxText(err error) string {
	text := yamlPlace.ReplaceAllString(err.Error(), "")
	for _, a := range syntaxAdvice {
		if strings.Contains(text, a.words) {
			return "not YAML: " + text + "; " + a.advice
		}
	}
	return "not YAML: " + text
}
