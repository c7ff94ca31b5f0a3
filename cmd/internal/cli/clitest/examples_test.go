package clitest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCommandsAreFoundInScripts(t *testing.T) {
	const script = `
p run --config a.yaml 2>log &     # in the background
cat >>a.yaml <<'YAML'
p: not a command
YAML
until p status; do sleep 1; done
id=$(p put $edge @note | tr a b)
echo x | p call "$edge" add 'a b' n=2 >out && p end \
  --now
X=1 p get $id; q get
`
	want := [][]string{
		{"put", "swp+tls://127.0.0.1:7777", "@note"},
		{"run", "--config", "a.yaml"},
		{"status"},
		{"call", "swp+tls://127.0.0.1:7777", "add", "a b", "n=2"},
		{"end", "--now"},
		{"get", digest},
	}
	if diff := cmp.Diff(want, commands(script, "p")); diff != "" {
		t.Error(diff)
	}
}
