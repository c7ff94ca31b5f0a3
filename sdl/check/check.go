// Package check plays data files of A2A-SDL against this implementation: bodies with the
// expected outcome, canonical forms, wrapped keys, exchanges with the built-in handlers,
// and inputs on which implementations differ.
//
// An incomplete comparison counts as a difference: a missing required member of a row does,
// and so does a member that no comparison uses.
package check

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/slimwire/swp/sdl/canonical"
)

// Report is the result of a case. Its JSON form is one line.
type Report struct {
	Case    string   `json:"case"`
	Pass    bool     `json:"pass"`    // there is no difference
	Results []Result `json:"results"` // one per delivery
	Diff    []string `json:"diff"`    // the differences and their places
}

// Result is the result of one delivery.
type Result struct {
	Outcome string `json:"outcome"` // accept or error

	// Of an error; null else.
	Code      *string         `json:"code"`
	Retryable *bool           `json:"retryable"`
	Details   json.RawMessage `json:"details"`

	// Dispatch is the answer of the handler, if one was called.
	Dispatch *Dispatch `json:"dispatch,omitempty"`
}

// Dispatch is the answer of a handler.
type Dispatch struct {
	CT   string `json:"ct"`
	Type string `json:"type"`

	// Of an error envelope.
	Code      string `json:"code,omitempty"`
	Retryable *bool  `json:"retryable,omitempty"`
}

// Outcomes.
const (
	accepted = "accept"
	refused  = "error"
)

// Case is one case of a file. Each play starts with fresh state.
type Case struct {
	Name string
	play func(ctx context.Context) ([]Result, []string)
}

// Play plays the case.
func (c *Case) Play(ctx context.Context) Report {
	results, diff := c.play(ctx)
	if len(results) == 0 && len(diff) == 0 {
		diff = []string{"nothing was delivered"}
	}
	r := Report{Case: c.Name, Pass: len(diff) == 0, Results: results, Diff: diff}
	if r.Results == nil {
		r.Results = []Result{}
	}
	if r.Diff == nil {
		r.Diff = []string{}
	}
	return r
}

// kinds are the kinds of rows. Each kind has a member that no other kind has.
var kinds = []struct {
	members []string
	load    func(row canonical.Value, dir string, keys *Keys) (Case, error)
}{
	{[]string{"body_file", "expected"}, loadExpect},
	{[]string{"input", "canonical_json"}, loadCanonical},
	{[]string{"input", "error"}, loadCanonical},
	{[]string{"sec_enc", "plaintext_json"}, loadKeywrap},
	{[]string{"steps", "config"}, loadFlow},
	{[]string{"bodies", "recommended"}, loadDivergence},
}

// Load reads the cases of a file: a sequence of JSON objects, whose members identify their
// kind. Bodies are read from the directory of the file. keys has the keys that cases name;
// nil reads keys.json from that directory, if it exists.
//
// The errors name the file: it cannot be read or has no case, a row has an unknown kind, or
// a body cannot be read. The other cases are returned as well, as far as the file is valid
// JSON. Files are trusted and read as a whole.
func Load(file string, keys *Keys) ([]Case, error) {
	octets, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(file)
	if keys == nil {
		keys, err = LoadKeys(filepath.Join(dir, "keys.json"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	var cases []Case
	var faults []error
	rows := json.NewDecoder(bytes.NewReader(octets))
	for n := 1; ; n++ {
		var raw json.RawMessage
		err := rows.Decode(&raw)
		switch {
		case errors.Is(err, io.EOF) && n == 1:
			return nil, fmt.Errorf("check: %s: no case in it", file)
		case errors.Is(err, io.EOF):
			return cases, errors.Join(faults...)
		case err != nil:
			return cases, errors.Join(append(faults, fmt.Errorf("check: %s: case %d: not JSON: %w", file, n, err))...)
		}
		c, err := load(raw, dir, keys)
		if err != nil {
			faults = append(faults, fmt.Errorf("check: %s: case %d: %w", file, n, err))
			continue
		}
		cases = append(cases, c)
	}
}

var errKind = errors.New("not recognised as an expectation, canonical form, wrapped key, flow or divergence")

func load(raw []byte, dir string, keys *Keys) (Case, error) {
	row, err := canonical.ParseJSON(raw)
	if err != nil {
		return Case{}, err
	}
next:
	for _, kind := range kinds {
		for _, name := range kind.members {
			if !row.Has(name) {
				continue next
			}
		}
		return kind.load(row, dir, keys)
	}
	return Case{}, errKind
}
