package conformance_test

import (
	"path/filepath"
	"testing"

	"github.com/slimwire/swp/conformance"
)

func TestClassesHaveTheTotalsOfTheSpecification(t *testing.T) {
	vectors, total := make(map[string]int), 0
	for _, ns := range conformance.Namespaces() {
		vectors[ns.Name] = ns.Vectors
		total += ns.Vectors
	}
	if len(vectors) != 15 || total != 138 {
		t.Errorf("%d namespaces with %d vectors", len(vectors), total)
	}
	want := map[string]int{"C0": 47, "C1": 62, "C2": 62, "C3": 65, "C4": 78, "C5": 108}
	for _, c := range conformance.Classes() {
		sum := 0
		for _, name := range c.Namespaces {
			sum += vectors[name]
		}
		if sum == 0 || sum != want[c.Name] {
			t.Errorf("%s has %d vectors, want %d", c.Name, sum, want[c.Name])
		}
		delete(want, c.Name)
	}
	if len(want) != 0 {
		t.Errorf("no classes %v", want)
	}
}

// A namespace is there with all its vectors, or not at all.
func TestNamespacesAreComplete(t *testing.T) {
	for _, ns := range conformance.Namespaces() {
		there, err := filepath.Glob(filepath.Join(vectorDir, ns.Name+"_*.json"))
		if err != nil || len(there) != 0 && len(there) != ns.Vectors {
			t.Errorf("%s: %d vectors, want %d, %v", ns.Name, len(there), ns.Vectors, err)
		}
	}
}
