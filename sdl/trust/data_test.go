package trust

import (
	"bytes"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
	"github.com/slimwire/swp/vectors/datatest"
)

func textOf(v canonical.Value, names ...string) string {
	for _, name := range names {
		v = v.Get(name)
	}
	text, _ := v.Text()
	return text
}

// dataPolicy makes the policy that a case configures.
func dataPolicy(t *testing.T, server canonical.Value, at time.Time) *Policy {
	t.Helper()
	v := server.Get("policy")
	registry, decrypt, err := ReadKeyFile(v)
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewRegistry(registry, at, RegistryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p := &Policy{
		Mode: textOf(v, "require_mode"), Registry: r, DecryptKeys: decrypt,
		Local:  textOf(server, "local_agent_id"),
		Replay: &Replay{Nonces: NewMemory(MemoryOptions{Now: func() time.Time { return at }})},
	}
	p.RequireReplay, _ = v.Get("require_replay").Bool()
	p.RequireSession, _ = v.Get("require_session_binding").Bool()
	for agent := range v.Get("allowed_agents").All() {
		p.Agents = append(p.Agents, textOf(agent))
	}
	p.Sessions = NewSessions(SessionOptions{})
	for s := range server.Get("session_bindings").All() {
		end, ok := sdl.ParseTime(textOf(s, "expires"))
		if !ok {
			t.Fatal("no time")
		}
		if err := p.Sessions.Register(Session{textOf(s, "binding_id"), textOf(s, "from_agent"), textOf(s, "to_agent"), end}, at); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// resultOf is a result as the files have it.
func resultOf(refused *sdl.Error) canonical.Value {
	if refused == nil {
		return canonical.Object().With("outcome", canonical.String("accept"))
	}
	v := canonical.Object().With("outcome", canonical.String("error")).
		With("code", canonical.String(string(refused.Code))).
		With("retryable", canonical.Bool(refused.Retryable))
	if refused.Details.Len() > 0 {
		v = v.With("details", refused.Details)
	}
	return v
}

// deliver checks a body as a receiver with a policy does.
func deliver(t *testing.T, p *Policy, body []byte, cbor bool, at time.Time) (canonical.Value, *sdl.Error) {
	t.Helper()
	form := sdl.JSON
	if cbor {
		form = sdl.CBOR
	}
	v, refused := sdl.Decode(body, form, sdl.Limits{})
	if refused != nil {
		return v, refused
	}
	e, refused := sdl.Validate(v, sdl.Options{Now: func() time.Time { return at }})
	if refused != nil {
		return v, refused
	}
	return p.Admit(t.Context(), e, at)
}

func timeOf(t *testing.T, v canonical.Value, name string) time.Time {
	t.Helper()
	at, ok := sdl.ParseTime(textOf(v, name))
	if !ok {
		t.Fatalf("%s is no time", name)
	}
	return at
}

func TestDataCasesWithAPolicy(t *testing.T) {
	files := datatest.Glob(t, "sdl", "*.expect.json")
	played := 0
	for _, file := range files {
		expect := mustParse(t, string(datatest.Read(t, "sdl/"+filepath.Base(file))))
		if !expect.Get("server").Has("policy") {
			continue
		}
		played++
		at := timeOf(t, expect, "now")
		p := dataPolicy(t, expect.Get("server"), at)
		body := datatest.Read(t, "sdl/"+textOf(expect, "body_file"))
		cbor := textOf(expect, "content_type") == "application/cbor"
		if cbor {
			var err error
			if body, err = seal.DecodeB64(textOf(mustParse(t, string(body)), "body_base64url")); err != nil {
				t.Fatal(err)
			}
		}
		for want := range expect.Get("expected").All() {
			payload, refused := deliver(t, p, body, cbor, at)
			got, want := resultOf(refused).AppendJSON(nil), want.Without("dispatch").Without("response_trace").AppendJSON(nil)
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", textOf(expect, "case"), diff)
			}
			if opened := expect.Get("decrypted_payload"); refused == nil && !opened.IsNull() && !payload.Equal(opened) {
				t.Errorf("%s: payload %s", textOf(expect, "case"), payload.AppendJSON(nil))
			}
		}
	}
	if played == 0 {
		t.Error("nothing was played")
	}
	t.Logf("%d cases", played)
}

func TestDataDivergencesWithAPolicy(t *testing.T) {
	played := 0
	for line := range bytes.Lines(datatest.Read(t, "sdl/divergence.jsonl")) {
		row := mustParse(t, string(line))
		if !row.Get("server").Has("policy") {
			continue
		}
		played++
		at := timeOf(t, row, "now")
		p := dataPolicy(t, row.Get("server"), at)
		i := 0
		for body := range row.Get("bodies").All() {
			octets := []byte(textOf(body))
			if textOf(row, "bodies_encoding") == "base64url" {
				var err error
				if octets, err = seal.DecodeB64(textOf(body)); err != nil {
					t.Fatal(err)
				}
			}
			_, refused := deliver(t, p, octets, textOf(row, "content_type") == "application/cbor", at)
			got := resultOf(refused)
			for name, want := range row.Get("recommended").At(i).Members() {
				if !got.Get(name).Equal(want) {
					t.Errorf("%s: delivery %d: %s is %s, want %s (%v)", textOf(row, "id"), i, name, got.Get(name).AppendJSON(nil), want.AppendJSON(nil), refused)
				}
			}
			i++
		}
	}
	if played == 0 {
		t.Error("nothing was played")
	}
	t.Logf("%d rows", played)
}

// The flows show what registries and proposals come to; the answers are not made here.
func TestDataRegistriesAndProposals(t *testing.T) {
	keys := mustParse(t, string(datatest.Read(t, "sdl/keys.json"))).Get("keys")
	key := func(name string) []byte {
		k, err := seal.ParseVerifyKey(textOf(keys, name, "public_key_b64"))
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	var snapshots, proposals, bindings int
	for line := range bytes.Lines(datatest.Read(t, "sdl/flows.jsonl")) {
		row := mustParse(t, string(line))
		config, at := row.Get("config"), timeOf(t, row, "now")
		var registry *Registry
		if v := config.Get("registry"); !v.IsNull() {
			var err error
			if registry, err = NewRegistry(v, at, RegistryOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		var verifier Verifier
		if name := textOf(config, "verify_key"); name != "" {
			verifier = &SingleKey{Key: key(name), RegistryOnly: true}
		}
		if approvers := config.Get("approvers"); !approvers.IsNull() {
			keyFile := canonical.Object()
			for name, k := range approvers.Members() {
				keyFile = keyFile.With(name, keys.Get(textOf(k)).Get("public_key_b64"))
			}
			var err error
			verifier, err = ReadQuorumFile(canonical.Object().With("approver_keys", keyFile).With("threshold", config.Get("threshold")))
			if err != nil {
				t.Fatal(err)
			}
		}
		for step := range row.Get("steps").All() {
			name, reason := textOf(row, "id"), textOf(step, "reason")
			payload, want := step.Get("request").Get("payload"), step.Get("response").Get("payload")
			if document := textOf(step, "binding_doc_canonical"); document != "" {
				bindings++
				made := BindingDocument(textOf(step, "request", "from", "agent_id"), textOf(step, "request", "to", "agent_id"),
					payload.Get("profile"), textOf(payload, "nonce"), textOf(want, "expires"))
				if diff := cmp.Diff(document, string(made.AppendJSON(nil))); diff != "" {
					t.Errorf("%s (-want +got):\n%s", name, diff)
				}
				if id := textOf(want, "binding_id"); id != "" && id != BindingID(made) {
					t.Errorf("%s: binding_id %s, want %s", name, BindingID(made), id)
				}
			}
			if textOf(step, "request", "ct") != sdl.CTTrustSync || registry == nil {
				continue
			}
			if textOf(payload, "op") == "propose" && verifier != nil {
				proposals++
				p, err := ReadProposal(payload)
				if (err != nil) != (reason == "registry_missing") {
					t.Errorf("%s: %s: %v", name, reason, err)
				}
				if err != nil {
					continue
				}
				if id := textOf(want, "proposal_id"); id != p.ID {
					t.Errorf("%s: %s: id %q, want %q", name, reason, p.ID, id)
				}
				by, err := verifier.Verify(p)
				if err == nil {
					_, err = registry.Apply(p, at)
				}
				if accepted := textOf(want, "status") == "accepted"; accepted != (err == nil) {
					t.Errorf("%s: %s: %v", name, reason, err)
				}
				if list := want.Get("approved_by"); !list.IsNull() && !list.Equal(canonical.Strings(by...)) {
					t.Errorf("%s: %s: approved by %v", name, reason, by)
				}
			}
			if hash := textOf(want, "registry_hash"); hash != "" {
				snapshots++
				got := registry.Snapshot()
				if got.Hash != hash || !got.Value.Equal(want.Get("snapshot")) {
					t.Errorf("%s: %s: snapshot %s", name, reason, got.Value.AppendJSON(nil))
				}
			}
		}
	}
	if snapshots == 0 || proposals == 0 || bindings == 0 {
		t.Error("nothing was played")
	}
	t.Logf("%d snapshots, %d proposals, %d bindings", snapshots, proposals, bindings)
}
