package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Regenerating changes nothing: the files are those of the catalogue, all of
// them and no others.
func TestRegeneratingChangesNothing(t *testing.T) {
	files := catalogue()
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Error(err)
		} else if !bytes.Equal(got, want) {
			t.Errorf("%s is not what the catalogue says; run go run ./vectors/gen", name)
		}
	}
	for _, kind := range []string{"*.json", "*.bin"} {
		there, err := filepath.Glob(filepath.Join("..", kind))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range there {
			if _, ok := files[filepath.Base(path)]; !ok {
				t.Errorf("%s is not in the catalogue", filepath.Base(path))
			}
		}
	}
}

func TestCatalogueIsDeterministic(t *testing.T) {
	a, b := catalogue(), catalogue()
	for name, content := range a {
		if !bytes.Equal(content, b[name]) {
			t.Errorf("%s differs from one run to the next", name)
		}
	}
}

// The numbers of the official vectors have no gaps and no repetitions.
func TestCatalogueIsComplete(t *testing.T) {
	for _, list := range namespaces {
		ns := list[0].namespace()
		want := map[string]int{"core": 33, "e1": 8, "s1": 6, "mcp": 15, "a2a": 15, "agdisc": 6, "tooldisc": 6, "rpc": 7, "events": 6, "artifact": 7, "cred": 6, "policyhint": 6, "state": 6, "obs": 5, "relay": 6}[ns]
		if len(list) != want {
			t.Errorf("%d vectors in %s, want %d", len(list), ns, want)
		}
		for i, v := range list {
			number := string([]byte{'0', '0', byte('0' + (i+1)/10), byte('0' + (i+1)%10)})
			if !strings.HasPrefix(v.id, ns+"_"+number+"_") {
				t.Errorf("%s is number %s of %s", v.id, number, ns)
			}
		}
	}
}

// The worked example of the specification, octet for octet.
func TestEncoderWritesTheExampleOfTheSpecification(t *testing.T) {
	got := typical.withTime(0).withID("0123456789abcdef").withPayload("").frame()
	want := append(octets("00000018 01 01 01 00 00 10"), "0123456789abcdef\x00\x00"...)
	if !bytes.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
}
