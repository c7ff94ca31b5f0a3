package sdlagent_test

import (
	"context"
	"crypto/ecdh"
	"crypto/ed25519"
	"fmt"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/agents/sdlagent"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/profiletest"
	carriage "github.com/slimwire/swp/profiles/sdl"
	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
	"github.com/slimwire/swp/sdl/serve"
	"github.com/slimwire/swp/sdl/trust"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/sqlstore"
)

// The agents of these tests, and their clock.
const (
	caller = "did:key:caller"
	server = "did:web:server.example"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// site is an endpoint that wants what is said to it signed, and one that says it.
type site struct {
	t       testing.TB
	h       *profiletest.Harness
	profile *profiles.Profile
	agent   *sdlagent.Agent
	signer  seal.Signer    // of the caller
	to      seal.Recipient // the server
	n       int
}

// newSite makes one; change adjusts its options, whose Records are in memory.
func newSite(t testing.TB, change func(*sdlagent.Options)) *site {
	t.Helper()
	key, err := seal.GenerateSigning(nil)
	if err != nil {
		t.Fatal(err)
	}
	box, err := seal.GenerateDecrypt(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, signer: seal.Signer{Kid: caller + "#1", Key: key}, to: seal.Recipient{Kid: "box", Key: box.PublicKey()}}
	public, ok := key.Public().(ed25519.PublicKey)
	if !ok {
		t.Fatal("no Ed25519 key")
	}
	registry, err := trust.NewRegistry(value(t, fmt.Sprintf(`{"trusted_signing_keys":{%q:%q,"did:key:caller#revoked":%[2]q,"did:key:caller#over":%[2]q,"did:key:other#1":%[2]q},
		"revoked_kids":["did:key:caller#revoked"],"kid_not_after":{"did:key:caller#over":"2026-05-01T12:00:00Z"}}`,
		s.signer.Kid, seal.FormatB64(public))), noon, trust.RegistryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	records := newRecords(t, 0)
	policy := &trust.Policy{
		Mode: sdl.ModeEncSig, Local: server, Registry: registry, DecryptKeys: map[string]*ecdh.PrivateKey{"box": box},
		Replay: &trust.Replay{Nonces: sdlagent.Nonces{Records: records, Now: func() time.Time { return noon }}}, RequireReplay: true,
	}
	o := sdlagent.Options{
		Records: records,
		May:     func(_, agentID string) bool { return agentID == caller },
		Language: serve.Options{
			Policy: policy, Replay: policy.Replay, Registry: registry, Now: func() time.Time { return noon },
			Recipients: func(string) []seal.Recipient { return []seal.Recipient{{Kid: caller + "#box", Key: box.PublicKey()}} },
			Tools:      serve.ToolSet{"sys.ping": serve.Ping}, ToolPolicy: &trust.ToolPolicy{Tools: []string{"sys.ping"}},
		},
	}
	if change != nil {
		change(&o)
	}
	if s.agent, err = sdlagent.New(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	service, err := carriage.New(carriage.Options{Server: s.agent})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.agent.Close)
	t.Cleanup(service.Close)
	s.profile = service.Profile()
	s.h = profiletest.New(t, s.profile)
	return s
}

// newRecords are in memory, and hold no more than a quota for one owner; 0 is plenty.
func newRecords(t testing.TB, quota int64) sdlagent.Records {
	t.Helper()
	db, err := sqlstore.Open(context.Background(), sqlstore.Options{Limits: store.Limits{QuotaPerOwner: quota}, Now: func() time.Time { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func value(t testing.TB, text string) canonical.Value {
	t.Helper()
	v, err := canonical.ParseJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func member(name, text string) canonical.Member {
	return canonical.Member{Name: name, Value: canonical.String(text)}
}

// plain is a request that calls sys.ping.
func (s *site) plain() canonical.Value {
	who := func(agentID string) sdl.Identity {
		return sdl.Identity{AgentID: agentID, Name: "n", Instance: "i", Role: "r"}
	}
	payload := value(s.t, `{"tool":"sys.ping","call_id":"1","args":{},"expect":{}}`)
	return sdl.New(sdl.TypeReq, sdl.CTToolCall, who(caller), who(server), payload, sdl.Writing{Now: func() time.Time { return noon }})
}

// fresh adds a nonce that was not used, and an expiry.
func (s *site) fresh(v canonical.Value) canonical.Value {
	s.n++
	return replay(v, fmt.Sprintf("nonce %d", s.n), noon.Add(time.Minute))
}

func replay(v canonical.Value, nonce string, exp time.Time) canonical.Value {
	sec := v.Get("sec")
	if sec.IsNull() {
		sec = canonical.Object(member("mode", sdl.ModeNone))
	}
	return v.With("sec", sec.With("replay", canonical.Object(member("nonce", nonce), member("exp", sdl.FormatTime(exp)))))
}

func (s *site) encrypted(v canonical.Value) canonical.Value {
	s.t.Helper()
	v, err := seal.Encrypt(v, nil, s.to)
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

func (s *site) signed(v canonical.Value) canonical.Value {
	s.t.Helper()
	v, err := s.signer.Sign(v)
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

// sealed is a request as the endpoint wants it.
func (s *site) sealed() canonical.Value { return s.signed(s.fresh(s.encrypted(s.plain()))) }

// verdict sends a request, in both forms, and returns the verdict and the code and the
// details.reason of the answer, which has to be a good envelope: OK and "" where it is
// no error.
func (s *site) verdict(v canonical.Value, form sdl.Form) (code profiles.Code, detail, said, reason string) {
	s.t.Helper()
	return s.raw(form.Append(nil, v), form)
}

func (s *site) raw(body []byte, form sdl.Form) (code profiles.Code, detail, said, reason string) {
	s.t.Helper()
	x := s.h.Serve(carriage.TypeReq, body).Wait()
	var octets []byte
	fault := x.Err()
	if fault != nil {
		code, detail = fault.Code, fault.Detail
		octets = fault.Answer.Payload
		if fault.Answer.MsgType == 0 {
			answer, ok := s.profile.Refusal(x.Request(), fault)
			if !ok {
				return code, detail, "", ""
			}
			octets = answer.Payload
		}
	} else if answers := x.Answers(); len(answers) == 1 {
		octets = answers[0].Payload
	}
	v, refused := sdl.Decode(octets, form, sdl.Limits{})
	if refused != nil {
		s.t.Fatalf("%v: %q", refused, octets)
	}
	e, refused := sdl.Validate(v, sdl.Options{})
	if refused != nil || e.Type != sdl.TypeRes {
		s.t.Fatalf("%v: %s", refused, octets)
	}
	if e.CT != sdl.CTError {
		return code, detail, "", ""
	}
	said, _ = e.Payload.Get("code").Text()
	reason, _ = e.Payload.Get("details").Get("reason").Text()
	return code, detail, said, reason
}
