package check

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/vectors/datatest"
)

// expectations are the members that say what must be, by one that tells the kind of
// the object which they are in.
var expectations = []struct {
	kind    string
	members []string
}{
	{"body_file", []string{"expected", "canonical_json", "signature", "decrypted_payload"}},
	{"input", []string{"canonical_json", "sha256", "canonical_cbor_hex"}},
	{"sec_enc", []string{"plaintext_json", "sec_enc", "content_key_hex", "content_nonce_hex", "ephemeral_private_hex", "ephemeral_public_hex", "shared_secret_hex", "wrap_key_hex", "wrap_nonce_hex"}},
	{"bodies", []string{"recommended"}},
	{"request", []string{"response", "binding_doc_canonical", "request_passes_validation"}}, // of a step
	{"deliver", []string{"deliver"}},                                                        // of server
	{"signed_doc_canonical", []string{"signed_doc_canonical"}},                              // of config
}

// rowsOf returns the rows of a file as they are.
func rowsOf(t *testing.T, file string) (rows []canonical.Value) {
	t.Helper()
	octets, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(octets))
	for {
		var raw json.RawMessage
		err := d.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return rows
		}
		if err != nil {
			t.Fatal(err)
		}
		row, err := canonical.ParseJSON(raw)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
}

// changed yields v with one thing in it changed, each thing once, and where that is:
// every value, a member or an element more, an element less.
func changed(v canonical.Value, path string) iter.Seq2[string, canonical.Value] {
	return func(yield func(string, canonical.Value) bool) {
		switch v.Kind() {
		case canonical.KindObject:
			if !yield(path+" with another member", v.With("unheard_of", canonical.Bool(true))) {
				return
			}
			for name, m := range v.Members() {
				for where, c := range changed(m, path+"."+name) {
					if !yield(where, v.With(name, c)) {
						return
					}
				}
			}
		case canonical.KindArray:
			list := slices.Collect(v.All())
			if !yield(path+" with another element", canonical.Array(append(slices.Clone(list), canonical.String("unheard of"))...)) {
				return
			}
			if len(list) > 0 && !yield(path+" without the last element", canonical.Array(list[:len(list)-1]...)) {
				return
			}
			for i := range list {
				for where, c := range changed(list[i], path+"["+strconv.Itoa(i)+"]") {
					other := slices.Clone(list)
					other[i] = c
					if !yield(where, canonical.Array(other...)) {
						return
					}
				}
			}
		default:
			yield(path, other(v))
		}
	}
}

// other returns a value of the same kind that is not v.
func other(v canonical.Value) canonical.Value {
	switch v.Kind() {
	case canonical.KindBool:
		b, _ := v.Bool()
		return canonical.Bool(!b)
	case canonical.KindInteger:
		i, _ := v.Int64()
		return canonical.Int(i + 1)
	case canonical.KindFloat:
		f, _ := v.Float64()
		return canonical.Float(f + 1)
	case canonical.KindString:
		s, _ := v.Text()
		return canonical.String(s + "x")
	}
	return canonical.Bool(false)
}

// changes yields a row, or an object in it, with one thing changed in what it expects.
func changes(row canonical.Value) iter.Seq2[string, canonical.Value] {
	return func(yield func(string, canonical.Value) bool) {
		if !yield("another member", row.With("unheard_of", canonical.Int(1))) {
			return
		}
		for _, e := range expectations {
			if !row.Has(e.kind) {
				continue
			}
			for _, name := range e.members {
				if !row.Has(name) {
					continue
				}
				for where, c := range changed(row.Get(name), name) {
					if !yield(where, row.With(name, c)) {
						return
					}
				}
			}
		}
		for i := range row.Get("steps").Len() {
			for where, step := range changes(row.Get("steps").At(i)) {
				steps := slices.Collect(row.Get("steps").All())
				steps[i] = step
				if !yield("steps["+strconv.Itoa(i)+"]."+where, row.With("steps", canonical.Array(steps...))) {
					return
				}
			}
		}
		for _, name := range []string{"server", "config"} {
			if !row.Has(name) {
				continue
			}
			for where, o := range changes(row.Get(name)) {
				if !yield(name+"."+where, row.With(name, o)) {
					return
				}
			}
		}
	}
}

// failEvery wants every changed case of a directory to fail.
func failEvery(t *testing.T, dir string) {
	t.Helper()
	keys, err := LoadKeys(filepath.Join(dir, "keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, file := range files(t, dir) {
		for _, row := range rowsOf(t, file) {
			for where, row := range changes(row) {
				tried++
				c, err := load(row.AppendJSON(nil), dir, keys)
				if err != nil {
					continue // exit status 2
				}
				if r := c.Play(t.Context()); r.Pass {
					t.Errorf("%s: passes with a change in %s", r.Case, where)
				}
			}
		}
	}
	t.Logf("%d changes", tried)
	if tried < 300 {
		t.Errorf("only %d changes were tried", tried)
	}
}

func TestChangedExpectationFails(t *testing.T) { failEvery(t, "testdata") }

func TestChangedDataOfTheSpecificationFails(t *testing.T) {
	failEvery(t, datatest.Path(t, "sdl"))
}
