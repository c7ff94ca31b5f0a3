// Command p1gen writes the code of the profiles that reads and writes their
// messages, from the schemas in proto/:
//
//	go run ./tools/p1gen
//
// For a schema proto/x.proto it writes profiles/x/messages.gen.go: the message
// types, the bounds, a view for each message with Decode, Size and Append, and
// Messages, the same as data; and the table of its fields in docs/wire.md. What the options in proto/options.proto do not
// say is left to a method that is written by hand (option check).
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	root := flag.String("root", ".", "the directory of go.mod")
	flag.Parse()
	if err := run(*root); err != nil {
		fmt.Fprintln(os.Stderr, "p1gen:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	files, err := generate(root)
	if err != nil {
		return err
	}
	for name, source := range files {
		if err := os.WriteFile(filepath.Join(root, filepath.FromSlash(name)), source, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// generate returns the generated files, and docs/wire.md with its generated tables, by their
// paths below the root.
func generate(root string) (map[string][]byte, error) {
	schemas, err := load()
	if err != nil {
		return nil, err
	}
	written, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(wire)))
	if err != nil {
		return nil, err
	}
	text, err := document(string(written), schemas)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", wire, err)
	}
	files := map[string][]byte{wire: []byte(text)}
	for _, s := range schemas {
		source, err := s.source()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.path, err)
		}
		files["profiles/"+s.profile+"/messages.gen.go"] = source
	}
	return files, nil
}
