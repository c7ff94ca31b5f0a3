// Command gen writes the golden vectors of this repository: descriptors and
// fixtures, from the catalogue: a file for each namespace. It is run from the
// root of the repository and writes nothing that it wrote before in the same
// form.
//
//	go run ./vectors/gen [-dir vectors]
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

func main() {
	dir := flag.String("dir", "vectors", "where to write")
	flag.Parse()
	for name, content := range catalogue() {
		path := filepath.Join(*dir, name)
		if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, content) {
			continue
		}
		if err := os.WriteFile(path, content, 0o644); err != nil { //nolint:gosec // as in a source tree
			fmt.Fprintln(os.Stderr, "gen:", err)
			os.Exit(1)
		}
	}
}

// namespaces are the official vectors.
var namespaces = [][]vector{core, e1, s1, mcp, a2as, agdiscs, tooldiscs, rpcs, eventss, artifacts, creds, policyhints, states, obss, relays}

// provisional are vectors of profiles with provisional numbers. Nothing plays them
// unasked.
var provisional = [][]vector{sdls, slips}

// catalogue returns every file by name.
func catalogue() map[string][]byte {
	files := make(map[string][]byte)
	for _, v := range slices.Concat(slices.Concat(namespaces, provisional)...) {
		w := writer{id: v.id, files: files}
		w.put(v.id+".json", marshal(w.descriptor(&v)))
	}
	for _, v := range poc {
		w := writer{id: v.id, files: files}
		w.put(v.id+".bin", v.bin)
		w.put(v.id+".json", marshal(v.descriptor()))
	}
	return files
}

func marshal(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		panic(err) // plain structs
	}
	return b.Bytes()
}
