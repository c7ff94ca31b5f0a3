package main

import (
	"os"
	"path/filepath"
	"testing"
)

const root = "../.."

func TestMessagesAreThoseThatTheSchemasGenerate(t *testing.T) {
	files, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		if got, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name))); err != nil || string(got) != string(want) {
			t.Errorf("%s is not what its schema generates: run make generate (%v)", name, err)
		}
	}
	generated, err := filepath.Glob(filepath.Join(root, "profiles/*/messages.gen.go"))
	if err != nil || len(generated) != len(files) {
		t.Errorf("%d generated files, %d schemas, error %v", len(generated), len(files), err)
	}
}
