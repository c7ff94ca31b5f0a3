package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/internal/sdlaudit"
	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
)

// chainOf verifies the audit chain of a daemon, whose entries are all signed.
func (r *running) chainOf(t *testing.T, k *sdlKeys) sdlaudit.Result {
	t.Helper()
	result, err := sdlaudit.Verify(t.Context(), sdlaudit.Verification{
		Path: filepath.Join(r.dir, "data", "sdl-audit.jsonl"), Keys: []sdlaudit.Key{{Public: publicOf(t, k.server), Kid: k.server.Kid}}, Signed: true,
		Found: func(f sdlaudit.Finding) { t.Errorf("line %d: %s", f.Line, f.Text) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// receiptIn returns the receipt of an answer, which is signed with its entry_hash.
func receiptIn(t *testing.T, e *sdl.Envelope) canonical.Value {
	t.Helper()
	receipt := e.Value.Get("trace").Get("audit")
	if !strings.HasPrefix(text(receipt, "entry_hash"), "sha256:") || text(receipt, "sig", "value") == "" || !receipt.Has("prev_hash") {
		t.Errorf("receipt %s", receipt.AppendJSON(nil))
	}
	return receipt
}

// Row 69 of A2A-SDL §15, without SWP and over SWP, and after a process was killed in an entry.
func TestSDLAnswersCarryTheReceiptsOfAChain(t *testing.T) {
	t.Parallel()
	ways := map[string]func(*testing.T, *running) func(v canonical.Value) *sdl.Envelope{
		"swp": func(t *testing.T, r *running) func(canonical.Value) *sdl.Envelope {
			s := r.speak(t)
			return func(v canonical.Value) *sdl.Envelope { return s.ask(t, sdl.CBOR, v) }
		},
	}
	for name, open := range sdlWays {
		ways[name] = func(t *testing.T, r *running) func(canonical.Value) *sdl.Envelope {
			w := open(t, r)
			return func(v canonical.Value) *sdl.Envelope { return askOver(t, w, sdl.JSON, v) }
		}
	}
	for name, open := range ways {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := devpki.Create(filepath.Join(dir, "pki"), devpki.Options{}); err != nil {
				t.Fatal(err)
			}
			k := newSDLKeys(t, dir)
			yaml := withSocket(sdlSecure) + "  audit: {enabled: true}\n" + sdlFronts + sdlAccess
			r := startIn(t, dir, yaml)
			ask := open(t, r)
			v := k.secure(t, sdlToolCall("sys.ping"), "nonce 1")
			e := ask(v)
			if p := k.opened(t, e.Value); text(p, "call_id") != "c1" {
				t.Errorf("%s", p.AppendJSON(nil))
			}
			first := receiptIn(t, e)
			if !first.Get("prev_hash").IsNull() || text(first, "sig", "kid") != k.server.Kid {
				t.Errorf("the first receipt is %s", first.AppendJSON(nil))
			}
			again := ask(v)
			if text(again.Payload, "details", "reason") != sdl.ReplayDetected {
				t.Errorf("again: %s", again.Value.AppendJSON(nil))
			}
			second := receiptIn(t, again)
			if !second.Get("prev_hash").Equal(first.Get("entry_hash")) {
				t.Errorf("the second receipt is %s, after %s", second.AppendJSON(nil), first.AppendJSON(nil))
			}
			if got := r.chainOf(t, k); got.Entries != 2 || got.Verified != 2 || got.Last != text(second, "entry_hash") {
				t.Errorf("%+v, want 2 entries up to %s", got, second.AppendJSON(nil))
			}
			if err := r.end(); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "data", "sdl-audit.jsonl")
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteString(`{"entry_hash":"sha2`); err != nil {
				t.Fatal(err)
			}
			_ = f.Close()

			r = startIn(t, dir, yaml)
			third := receiptIn(t, open(t, r)(k.secure(t, sdlToolCall("sys.ping"), "nonce 2")))
			if !third.Get("prev_hash").Equal(second.Get("entry_hash")) {
				t.Errorf("the third receipt is %s, after %s", third.AppendJSON(nil), second.AppendJSON(nil))
			}
			if got := r.chainOf(t, k); got.Entries != 3 || got.Torn != 0 {
				t.Errorf("%+v, want 3 entries", got)
			}
		})
	}
}

func TestSDLAnswersHaveNoReceiptsByDefault(t *testing.T) {
	r := start(t, sdlOpen+sdlAccess)
	e := r.speak(t).ask(t, sdl.JSON, sdlToolCall("sys.ping"))
	if e.CT != sdl.CTToolResult || e.Value.Get("trace").Has("audit") {
		t.Errorf("%s", e.Value.AppendJSON(nil))
	}
	if _, err := os.Stat(filepath.Join(r.dir, "data", "sdl-audit.jsonl")); !os.IsNotExist(err) {
		t.Errorf("a chain: %v", err)
	}
}

// A full chain refuses requests, or leaves answers without a receipt.
func TestAFullSDLAuditChainFailsAsConfigured(t *testing.T) {
	for fail, want := range map[string]string{"closed": sdl.CTError, "open": sdl.CTToolResult} {
		t.Run(fail, func(t *testing.T) {
			yaml := strings.Replace(sdlOpen, "sdl: {", "sdl: {audit: {enabled: true, size: 1MiB, fail: "+fail+"}, ", 1) + sdlAccess
			r := start(t, yaml)
			path := filepath.Join(r.dir, "data", "sdl-audit.jsonl")
			s := r.speak(t)
			if e := s.ask(t, sdl.JSON, sdlToolCall("sys.ping")); !e.Value.Get("trace").Has("audit") {
				t.Errorf("no receipt: %s", e.Value.AppendJSON(nil))
			}
			if err := r.end(); err != nil {
				t.Fatal(err)
			}
			fill(t, path)
			r = startIn(t, r.dir, yaml)
			s = r.speak(t)
			e := s.ask(t, sdl.JSON, sdlToolCall("sys.ping"))
			if e.CT != want || e.Value.Get("trace").Has("audit") {
				t.Errorf("full: %s", e.Value.AppendJSON(nil))
			}
			if retryable, _ := e.Payload.Get("retryable").Bool(); fail == "closed" && (codeOf(e) != "INTERNAL" || !retryable) {
				t.Errorf("full: %s", e.Payload.AppendJSON(nil))
			}
			if err := os.Rename(path, path+".1"); err != nil {
				t.Fatal(err)
			}
			if e := s.ask(t, sdl.JSON, sdlToolCall("sys.ping")); e.CT != sdl.CTToolResult || !e.Value.Get("trace").Has("audit") {
				t.Errorf("after the file was moved away: %s", e.Value.AppendJSON(nil))
			}
		})
	}
}

// An identity without a right to any agent_id asks until it has its share of the chain. The
// requests of another one are answered, with receipts.
func TestOP28DeniedRequestsDoNotFillTheAuditChain(t *testing.T) {
	r := start(t, strings.Replace(sdlOpen, "sdl: {", "sdl: {audit: {enabled: true, size: 1MiB}, ", 1)+
		"access: {rules: [{identity: 'spiffe://localhost/**'}], agents: [{identity: spiffe://localhost/swp-client, agent_ids: '**'}]}\nlimits: {error_budget: 100000}\n")
	authority, err := devpki.Open(filepath.Join(r.dir, "pki"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := authority.Issue(filepath.Join(t.TempDir(), "other"), devpki.Request{Name: "spiffe://localhost/other"})
	if err != nil {
		t.Fatal(err)
	}
	flood, other := r.speakAs(t, files), r.speak(t)
	long := canonical.String(strings.Repeat("x", 512))
	ask := sdlToolCall("sys.ping").With("id", long)
	ask = ask.With("from", ask.Get("from").With("agent_id", long))
	code := ""
	for n := 0; code != "INTERNAL"; n++ {
		e := flood.ask(t, sdl.JSON, ask)
		if code = codeOf(e); code != "INTERNAL" && code != "SECURITY_UNSUPPORTED" || n > 1000 {
			t.Fatalf("%d requests, then %s", n, e.Value.AppendJSON(nil))
		}
	}
	for range 3 {
		if e := other.ask(t, sdl.JSON, sdlToolCall("sys.ping")); e.CT != sdl.CTToolResult || !e.Value.Get("trace").Has("audit") {
			t.Errorf("another identity: %s", e.Value.AppendJSON(nil))
		}
	}
	if _, body := r.get("/readyz"); body != "ready\n" {
		t.Errorf("/readyz says %q", body)
	}
}

// fill adds entries to a chain of a megabyte until it is full.
func fill(t *testing.T, path string) {
	t.Helper()
	c, err := sdlaudit.Open(sdlaudit.Options{Path: path, Size: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	long := canonical.String(strings.Repeat("x", 30<<10))
	for n := 0; c.Ready(fmt.Sprint(n)) == nil; n++ {
		if _, err := c.Add(fmt.Sprint(n), long, sdlaudit.Signer{}); err != nil {
			t.Fatal(err)
		}
	}
}
