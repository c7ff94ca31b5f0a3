package conformance_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/slimwire/swp/conformance"
)

// spy is a target that looks at inputs and plays nothing.
type spy func(in *conformance.Input)

func (f spy) Play(_ context.Context, in *conformance.Input) (*conformance.Observation, error) {
	f(in)
	return nil, conformance.ErrNotPlayed
}

// memo plays each input once and gives the same observation again: whatever
// changes in a descriptor but is not told to the target cannot change it.
type memo struct {
	mu   sync.Mutex
	seen map[string]*conformance.Observation
}

func newMemo() *memo { return &memo{seen: make(map[string]*conformance.Observation)} }

func (m *memo) Play(ctx context.Context, in *conformance.Input) (*conformance.Observation, error) {
	key, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if o := m.seen[string(key)]; o != nil {
		return o, nil
	}
	o, err := conformance.Local{}.Play(ctx, in)
	if err == nil {
		m.seen[string(key)] = o
	}
	return o, err
}

// module is a directory with vectors of its own, and the documents they name.
type module struct{ root, dir string }

// newModule copies one vector of ours with its fixtures.
func newModule(t *testing.T, id string) module {
	t.Helper()
	root := t.TempDir()
	m := module{root, filepath.Join(root, "vectors")}
	m.write(t, filepath.Join(root, "go.mod"), []byte("module example.invalid\n"))
	for _, doc := range []string{"versioning-compatibility.md", "conformance.md"} {
		m.copy(t, filepath.Join("..", "docs", doc), filepath.Join(root, "docs", doc))
	}
	files, err := vectorFiles()
	if err != nil || len(files[id]) < 2 {
		t.Fatalf("vector %q: %q, %v", id, files[id], err)
	}
	for _, name := range files[id] {
		m.copy(t, filepath.Join(vectorDir, name), filepath.Join(m.dir, name))
	}
	return m
}

// vectorFiles are the names of the files of each vector of ours, by its id.
var vectorFiles = sync.OnceValues(func() (map[string][]string, error) {
	entries, err := os.ReadDir(vectorDir)
	files := make(map[string][]string)
	for _, e := range entries {
		id, _, _ := strings.Cut(e.Name(), ".")
		files[id] = append(files[id], e.Name())
	}
	return files, err
})

// eachVector calls f for the descriptor of each vector of ours and its number, several at
// once, and returns when all have.
func eachVector(t *testing.T, f func(t *testing.T, path string, number int)) {
	t.Helper()
	t.Run("vectors", func(t *testing.T) {
		for i, path := range descriptors(t) {
			t.Run(idOf(path), func(t *testing.T) {
				t.Parallel()
				f(t, path, i)
			})
		}
	})
}

func (m module) copy(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	m.write(t, to, b)
}

func (m module) write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (m module) path(id string) string { return filepath.Join(m.dir, id+".json") }

// put writes a descriptor.
func (m module) put(t *testing.T, id string, d any) {
	t.Helper()
	m.write(t, m.path(id), textOf(t, d))
}

func textOf(t *testing.T, d any) []byte {
	t.Helper()
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// parsed reads a descriptor of ours as plain JSON.
func parsed(t *testing.T, path string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber() // flags of 2^64-1 are no float64
	var v map[string]any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func idOf(path string) string { return strings.TrimSuffix(filepath.Base(path), ".json") }

// silent is a target that saw nothing: as many steps as there are, all empty,
// or what it was given.
type silent struct{ o *conformance.Observation }

func (s silent) Play(_ context.Context, in *conformance.Input) (*conformance.Observation, error) {
	if s.o != nil {
		return s.o, nil
	}
	return &conformance.Observation{Steps: make([]conformance.Seen, len(in.Steps))}, nil
}
