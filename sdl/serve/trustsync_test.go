package serve_test

import (
	"crypto/ed25519"
	"strings"
	"testing"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
	"github.com/slimwire/swp/sdl/serve"
	"github.com/slimwire/swp/sdl/trust"
)

// propose sends a signed proposal with the approvals of some, and returns the answer.
func propose(t *testing.T, s *serve.Server, proposal string, approvers ...string) canonical.Value {
	t.Helper()
	v := parse(t, proposal).With("op", canonical.String("propose"))
	p, err := trust.ReadProposal(v)
	if err != nil {
		t.Fatal(err)
	}
	var approvals []canonical.Value
	for _, name := range approvers {
		approvals = append(approvals, canonical.Object(
			canonical.Member{Name: "approver", Value: canonical.String(name)},
			canonical.Member{Name: "signature", Value: canonical.String(p.Sign(signingKey(name)))},
		))
		v = v.With("signature", canonical.String(p.Sign(signingKey(name))))
	}
	v = v.With("approvals", canonical.Array(approvals...))
	message := request(t, sdl.CTTrustSync, `{"op":"propose"}`).With("payload", v)
	return payload(t, ask(t, s, sign(t, message, "")), sdl.CTTrustSync)
}

func discover(t *testing.T, s *serve.Server) canonical.Value {
	t.Helper()
	return payload(t, ask(t, s, sign(t, request(t, sdl.CTTrustSync, `{"op":"discover"}`), "")), sdl.CTTrustSync)
}

func TestDiscoverShowsTheRegistry(t *testing.T) {
	p := discover(t, newServer(t, guarded(t)))
	if got := text(p.Get("snapshot").Get("trusted_signing_keys").Get(plannerKid)); got != seal.FormatB64(publicKey(plannerKid)) {
		t.Errorf("key %q in %s", got, p.AppendJSON(nil))
	}
	if got, want := text(p.Get("registry_hash")), canonical.Hash(p.Get("snapshot")); got != want {
		t.Errorf("registry_hash %q, want that of the snapshot, %q", got, want)
	}
	equal(t, "source_agent", p.Get("source_agent"), `"`+planner+`"`)
	equal(t, "status", p.Get("status"), `"snapshot"`)
}

func TestProposalIsAppliedAndVisible(t *testing.T) {
	o := guarded(t)
	o.Proposals = &trust.SingleKey{Key: publicKey("approver")}
	s := newServer(t, o)
	p := propose(t, s, `{"registry":{"revoked_kids":["old"]}}`, "approver")
	equal(t, "status", p.Get("status"), `"accepted"`)
	equal(t, "revoked_kids", p.Get("snapshot").Get("revoked_kids"), `["old"]`)
	if p.Has("approved_by") || p.Has("quorum") {
		t.Errorf("a quorum in %s", p.AppendJSON(nil))
	}
	if shown := discover(t, s); !shown.Get("registry_hash").Equal(p.Get("registry_hash")) {
		t.Errorf("discover shows %s, want %s", shown.Get("registry_hash").AppendJSON(nil), p.Get("registry_hash").AppendJSON(nil))
	}
	again := propose(t, s, `{"registry":{"revoked_kids":["old"]}}`, "approver")
	equal(t, "status again", again.Get("status"), `"accepted"`)
}

func TestProposalIsRejectedWhereNothingDecides(t *testing.T) {
	o := guarded(t)
	equal(t, "no verifier", propose(t, newServer(t, o), `{"registry":{}}`).Get("status"), `"rejected"`)
	o.Registry, o.Proposals = nil, &trust.SingleKey{Key: publicKey("approver")}
	equal(t, "no registry", propose(t, newServer(t, o), `{"registry":{}}`).Get("status"), `"rejected"`)
}

func TestProposalWithoutRegistryIsABadRequest(t *testing.T) {
	o := guarded(t)
	o.Proposals = &trust.SingleKey{Key: publicKey("approver")}
	refused(t, ask(t, newServer(t, o), sign(t, request(t, sdl.CTTrustSync, `{"op":"propose"}`), "")), sdl.BadRequest, false)
}

func TestRegistryThatIsNoneIsRejected(t *testing.T) {
	o := guarded(t)
	o.Proposals = &trust.SingleKey{Key: publicKey("approver")}
	s := newServer(t, o)
	before := discover(t, s).Get("snapshot")
	p := propose(t, s, `{"proposal_id":"p","registry":{"kid_not_after":{"k":"soon"}}}`, "approver")
	equal(t, "answer", p.Without("message"), `{"op":"propose","status":"rejected","proposal_id":"p","source_agent":"`+planner+`"}`)
	if after := discover(t, s).Get("snapshot"); !after.Equal(before) {
		t.Errorf("registry %s, want %s", after.AppendJSON(nil), before.AppendJSON(nil))
	}
}

func TestQuorumOfTwo(t *testing.T) {
	q, err := trust.NewQuorum(map[string]ed25519.PublicKey{"a": publicKey("a"), "b": publicKey("b"), "c": publicKey("c")}, 2)
	if err != nil {
		t.Fatal(err)
	}
	o := guarded(t)
	o.Proposals = q
	s := newServer(t, o)
	const proposal = `{"proposal_id":"p-1","registry":{"revoked_kids":["old"]}}`
	for _, approvers := range [][]string{{}, {"a"}, {"a", "a"}, {"a", "nobody"}} {
		p := propose(t, s, proposal, approvers...)
		equal(t, "status", p.Get("status"), `"rejected"`)
		if message := text(p.Get("message")); !strings.Contains(message, "quorum") {
			t.Errorf("%v: message %q does not name the quorum", approvers, message)
		}
	}
	p := propose(t, s, proposal, "b", "a")
	equal(t, "status", p.Get("status"), `"accepted"`)
	equal(t, "approved_by", p.Get("approved_by"), `["a","b"]`)
	equal(t, "quorum", p.Get("quorum"), `{"threshold":2,"count":2}`)
	equal(t, "proposal_id", p.Get("proposal_id"), `"p-1"`)
}
