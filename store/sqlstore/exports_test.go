package sqlstore_test

import (
	"strings"
	"testing"

	"github.com/slimwire/swp/store/sqlstore"
)

func TestAnExportSortsNothing(t *testing.T) {
	s := open(t, sqlstore.Options{})
	defer func() { _ = s.Close() }()
	for _, statement := range sqlstore.Exports {
		steps, err := s.Plan(t.Context(), statement)
		if err != nil || len(steps) == 0 {
			t.Fatalf("%s: %q, %v", statement, steps, err)
		}
		if all := strings.Join(steps, "; "); strings.Contains(all, "TEMP B-TREE") {
			t.Errorf("%s\nsorts: %s", statement, all)
		}
	}
}
