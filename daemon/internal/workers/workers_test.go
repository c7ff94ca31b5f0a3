package workers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
)

func TestSchemaThatCannotBeUsedIsFoundBeforeAnythingIsServed(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON": `{`, "no schema": `{"type":7}`, "elsewhere": `{"$ref":"http://127.0.0.1:1/x"}`,
	} {
		file := filepath.Join(t.TempDir(), "schema.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c := config.Default()
		c.A2A.Workers = map[string]config.A2AWorker{"one": {Kinds: config.List{"k"}, Command: "sh", Schema: file, Tasks: 1}}
		if _, err := New(Options{Config: c, Log: zap.NewNop()}); err == nil || !strings.Contains(err.Error(), "a2a.workers.one.schema: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
