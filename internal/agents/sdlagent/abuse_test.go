package sdlagent_test

import (
	"encoding/hex"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/agents/sdlagent"
	"github.com/slimwire/swp/profiles"
	carriage "github.com/slimwire/swp/profiles/sdl"
	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
	"github.com/slimwire/swp/sdl/trust"
)

// at changes what is at a path.
func at(v canonical.Value, change func(canonical.Value) canonical.Value, path ...string) canonical.Value {
	if len(path) == 0 {
		return change(v)
	}
	return v.With(path[0], at(v.Get(path[0]), change, path[1:]...))
}

func put(v canonical.Value, text string, path ...string) canonical.Value {
	return at(v, func(canonical.Value) canonical.Value { return canonical.String(text) }, path...)
}

// abuse is a message that is refused.
type abuse struct {
	what string
	v    canonical.Value
}

// refuses holds each message, in JSON and CBOR by turns, to its verdict and the code of
// its answer.
func (s *site) refuses(code profiles.Code, said string, list ...abuse) {
	s.t.Helper()
	for i, a := range list {
		form := sdl.Form(i % 2)
		if got, detail, answer, _ := s.verdict(a.v, form); got != code || answer != said {
			s.t.Errorf("%s in %v: %v · %s, answered %q; want %v, %q", a.what, form, got, detail, answer, code, said)
		}
	}
}

// good holds a message to being answered, so that what is refused is so for one reason.
func (s *site) good(v canonical.Value) {
	s.t.Helper()
	if code, detail, said, reason := s.verdict(v, sdl.JSON); code != profiles.OK || said != "" {
		s.t.Fatalf("a good message: %v · %s, answered %q, %q", code, detail, said, reason)
	}
}

func TestPR18ADowngradedModeOrAlgorithmIsRefused(t *testing.T) {
	s := newSite(t, nil)
	s.good(s.sealed())
	s.refuses(profiles.SecurityPolicy, "SECURITY_UNSUPPORTED",
		abuse{"nothing", s.plain()},
		abuse{"mode none", s.fresh(s.plain())},
		abuse{"mode sig", s.signed(s.fresh(s.plain()))},
		abuse{"mode enc", s.fresh(s.encrypted(s.plain()))},
		abuse{"mode none over a signature", put(s.signed(s.fresh(s.plain())), "none", "sec", "mode")},
		abuse{"mode unknown", put(s.sealed(), "rot13", "sec", "mode")},
		abuse{"signature by another algorithm", put(s.sealed(), "none", "sec", "sig", "alg")},
		abuse{"encryption by another algorithm", s.signed(put(s.fresh(s.encrypted(s.plain())), "none", "sec", "enc", "alg"))},
		abuse{"a payload beside its encryption", s.signed(s.fresh(s.encrypted(s.plain()).With("payload", s.plain().Get("payload"))))},
	)
}

func TestPR18ASignatureCoversOneOfTwoForms(t *testing.T) {
	s := newSite(t, nil)
	for _, form := range []seal.Form{seal.CBOR, seal.JSON} {
		s.signer.Form = form
		s.good(s.sealed())
	}
	// Over the form of another document: what was signed is changed afterwards.
	v := s.sealed()
	s.refuses(profiles.SecurityPolicy, "SECURITY_UNSUPPORTED",
		abuse{"another id", put(v, "another", "id")},
		abuse{"another member", v.With("more", canonical.Int(1))},
		abuse{"another number", v.With("v", canonical.Int(1)).With("x", canonical.Float(1))},
		abuse{"another value of another text", at(v, func(sig canonical.Value) canonical.Value {
			text, _ := sig.Text()
			return canonical.String(text + "=")
		}, "sec", "sig", "value")},
		abuse{"no signature", put(v, "", "sec", "sig", "value")},
	)
	signed := s.signed(s.fresh(s.plain()).With("n", canonical.Int(1)))
	s.refuses(profiles.SecurityPolicy, "SECURITY_UNSUPPORTED", abuse{"1.0 for 1", signed.With("n", canonical.Float(1))})
}

func TestPR18UnknownRetiredAndForeignKeysAreRefused(t *testing.T) {
	s := newSite(t, nil)
	under := func(kid string) canonical.Value {
		s.signer.Kid = kid
		defer func() { s.signer.Kid = caller + "#1" }()
		return s.sealed()
	}
	s.refuses(profiles.SecurityPolicy, "SECURITY_UNSUPPORTED",
		abuse{"unknown", under(caller + "#unknown")},
		abuse{"revoked", under(caller + "#revoked")},
		abuse{"past its end", under(caller + "#over")},
		abuse{"of another agent", under("did:key:other#1")},
		abuse{"for another receiver", s.signed(s.fresh(s.encrypted(put(s.plain(), "did:web:other", "to", "agent_id"))))},
		abuse{"for another recipient", func() canonical.Value {
			to := s.to
			s.to.Kid = "elsewhere"
			defer func() { s.to = to }()
			return s.sealed()
		}()},
		abuse{"as an agent that the identity may not use", s.signed(s.fresh(s.encrypted(put(s.plain(), "did:key:other", "from", "agent_id"))))},
	)
	s.good(s.sealed())
}

func TestPR18LowOrderKeysAreRefused(t *testing.T) {
	s := newSite(t, nil)
	for _, point := range []string{
		"0000000000000000000000000000000000000000000000000000000000000000",
		"0100000000000000000000000000000000000000000000000000000000000000",
		"e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
		"5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	} {
		octets, err := hex.DecodeString(point)
		if err != nil {
			t.Fatal(err)
		}
		v := s.fresh(s.encrypted(s.plain()))
		v = at(v, func(list canonical.Value) canonical.Value {
			return canonical.Array(list.At(0).With("eph", canonical.String(seal.EncodeB64(octets))))
		}, "sec", "enc", "recipients")
		s.refuses(profiles.SecurityPolicy, "SECURITY_UNSUPPORTED", abuse{"ephemeral key " + point, s.signed(v)})
	}
}

func TestPR18FlippedOctetsAreRefused(t *testing.T) {
	s := newSite(t, nil)
	flip := func(which int) func(canonical.Value) canonical.Value {
		return func(v canonical.Value) canonical.Value {
			text, _ := v.Text()
			octets, err := seal.DecodeB64(text)
			if err != nil {
				t.Fatal(err)
			}
			n := len(octets)
			octets[(which%n+n)%n] ^= 1
			return canonical.String(seal.EncodeB64(octets))
		}
	}
	for _, i := range []int{0, -1, -16} { // of the ciphertext, and of its tag
		s.refuses(profiles.SecurityPolicy, "SECURITY_UNSUPPORTED",
			abuse{fmt.Sprintf("ciphertext[%d]", i), s.signed(at(s.fresh(s.encrypted(s.plain())), flip(i), "sec", "enc", "ciphertext"))},
			abuse{fmt.Sprintf("nonce[%d]", i), s.signed(at(s.fresh(s.encrypted(s.plain())), flip(i), "sec", "enc", "nonce"))},
			abuse{fmt.Sprintf("ek[%d]", i), s.signed(at(s.fresh(s.encrypted(s.plain())), func(list canonical.Value) canonical.Value {
				return canonical.Array(at(list.At(0), flip(i), "ek"))
			}, "sec", "enc", "recipients"))},
			abuse{fmt.Sprintf("signature[%d]", i), at(s.sealed(), flip(i), "sec", "sig", "value")},
		)
	}
}

func TestPR18ANonceIsGoodOnceAndForAWhile(t *testing.T) {
	s := newSite(t, nil)
	once := s.sealed()
	s.good(once)
	at := func(nonce string, exp time.Time) canonical.Value {
		return s.signed(replay(s.encrypted(s.plain()), nonce, exp))
	}
	for _, test := range []struct {
		what, reason, detail string
		v                    canonical.Value
	}{
		{"again", "replay_detected", "sdl_replay_detected", once},
		{"the nonce in another message", "replay_detected", "sdl_replay_detected", at("nonce 1", noon.Add(2*time.Minute))},
		{"over now", "replay_expired", "sdl_replay_expired", at("a", noon)},
		{"over", "replay_expired", "sdl_replay_expired", at("b", noon.Add(-time.Hour))},
		{"ten years ahead", "", "sdl_bad_request", at("c", noon.AddDate(10, 0, 0))},
		{"a second too far ahead", "", "sdl_bad_request", at("d", noon.Add(10*time.Minute+time.Second))},
	} {
		code, detail, said, reason := s.verdict(test.v, sdl.CBOR)
		if code != profiles.SecurityPolicy || detail != test.detail || said != "BAD_REQUEST" || reason != test.reason {
			t.Errorf("%s: %v · %s, answered %q, %q", test.what, code, detail, said, reason)
		}
	}
	s.good(at("e", noon.Add(10*time.Minute)))
	// What no signature vouches for uses up no nonce.
	v := at("f", noon.Add(time.Minute))
	s.refuses(profiles.SecurityPolicy, "SECURITY_UNSUPPORTED", abuse{"changed", v.With("more", canonical.Int(1))})
	s.good(v)
	s.refuses(profiles.SecurityPolicy, "SECURITY_UNSUPPORTED", abuse{"without a nonce", s.signed(s.encrypted(s.plain()))})
}

func TestPR18AFullReplayCacheRefusesAndForgetsNothing(t *testing.T) {
	const quota = 8 << 10
	s := newSite(t, func(o *sdlagent.Options) {
		o.Language.Policy.Replay = &trust.Replay{Nonces: sdlagent.Nonces{Records: newRecords(t, quota), Now: func() time.Time { return noon }}}
	})
	first := s.sealed()
	s.good(first)
	for n := 0; ; n++ {
		if n > 1000 {
			t.Fatal("the cache is never full")
		}
		code, detail, said, reason := s.verdict(s.sealed(), sdl.JSON)
		if code == profiles.OK {
			continue
		}
		if code != profiles.SecurityPolicy || detail != "sdl_replay_full" || said != "BAD_REQUEST" || reason != trust.ReplayFull || n < 10 {
			t.Fatalf("after %d: %v · %s, answered %q, %q", n, code, detail, said, reason)
		}
		break
	}
	if code, detail, _, _ := s.verdict(first, sdl.JSON); code != profiles.SecurityPolicy || detail == "" {
		t.Errorf("the first again: %v · %s", code, detail)
	}
}

func TestPR18SchemasAreNeverFetched(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		if conn, err := ln.Accept(); err == nil {
			asked.Store(true)
			_ = conn.Close()
		}
	}()
	s := newSite(t, func(o *sdlagent.Options) { o.Language.Policy.Mode = "" })
	descriptor := func(text string) canonical.Value { return value(t, text) }
	uri := descriptor(`{"kind":"uri","id":"sha256:a2c799262a3ce3c19ef5cdd983bf3d12b43ab3c426227091b909dcb7054738c0","uri":"http://` + ln.Addr().String() + `/"}`)
	remote := value(t, `{"$ref":"http://`+ln.Addr().String()+`/"}`)
	embedded := canonical.Object(member("kind", "embedded"), member("id", canonical.Hash(remote)), canonical.Member{Name: "embedded", Value: remote})
	s.refuses(profiles.InvalidProfilePayload, "SCHEMA_INVALID",
		abuse{"uri, signed", s.signed(s.fresh(s.plain().With("schema", uri)))},
		abuse{"uri, encrypted", s.signed(s.fresh(s.encrypted(s.plain().With("schema", uri))))},
		abuse{"remote $ref, signed", s.signed(s.fresh(s.plain().With("schema", embedded)))},
	)
	if code, _, said, _ := s.verdict(s.signed(s.fresh(s.encrypted(s.plain().With("schema", embedded)))), sdl.JSON); code == profiles.OK || said != "SCHEMA_INVALID" {
		t.Errorf("remote $ref, encrypted: %v, answered %q", code, said)
	}
	_ = ln.Close()
	<-done
	if asked.Load() {
		t.Error("a schema was asked for")
	}
}

func TestPR18ShapeIsNoMatterOfSecurity(t *testing.T) {
	s := newSite(t, nil)
	s.refuses(profiles.InvalidProfilePayload, "BAD_REQUEST",
		abuse{"no id", s.sealed().Without("id")},
		abuse{"another version", s.sealed().With("v", canonical.Int(2))},
		abuse{"a time without an offset", put(s.sealed(), "2026-01-01T00:00:00", "ts")},
		abuse{"true for a number", s.sealed().With("trace", value(t, `{"root_id":"r","span_id":"s","hops":true}`))},
		abuse{"a replay that is none", at(s.sealed(), func(canonical.Value) canonical.Value { return canonical.Int(1) }, "sec", "replay")},
	)
	s.refuses(profiles.InvalidProfilePayload, "SCHEMA_INVALID", abuse{"a hash of another schema", put(s.sealed(), "sha256:00", "schema", "id")})
	for body, said := range map[string]string{
		"{": "UNSUPPORTED_ENCODING", "[]": "UNSUPPORTED_ENCODING", "\xff": "UNSUPPORTED_ENCODING", "\xef\xbb\xbf{}": "UNSUPPORTED_ENCODING",
		`{"v":1,"v":1}`: "BAD_REQUEST", `{"v":1e400}`: "BAD_REQUEST", " {}": "BAD_REQUEST",
	} {
		if code, detail, got, _ := s.raw([]byte(body), sdl.JSON); code != profiles.InvalidProfilePayload || got != said {
			t.Errorf("%q: %v · %s, answered %q", body, code, detail, got)
		}
	}
	// The length comes before the form.
	for octet, form := range map[string]sdl.Form{"x": sdl.JSON, "{": sdl.JSON, "\xa0": sdl.CBOR} {
		body := []byte(strings.Repeat(octet, 1<<20+1))
		if code, detail, got, _ := s.raw(body, form); code != profiles.InvalidProfilePayload || got != "BAD_REQUEST" {
			t.Errorf("too much of %q: %v · %s, answered %q", octet, code, detail, got)
		}
		if code, detail, got, _ := s.raw(body[:1<<20], form); code != profiles.InvalidProfilePayload || got != "UNSUPPORTED_ENCODING" {
			t.Errorf("as much of %q as may be: %v · %s, answered %q", octet, code, detail, got)
		}
	}
	if code, _, said, _ := s.raw([]byte{0xa1}, sdl.CBOR); code != profiles.InvalidProfilePayload || said != "UNSUPPORTED_ENCODING" {
		t.Errorf("half a map: %v, answered %q", code, said)
	}
	// Another type than the message is refused without an answer.
	for typ, envelope := range map[uint64]string{carriage.TypeReq: sdl.TypeEvt, carriage.TypeEvt: sdl.TypeReq} {
		x := s.h.Serve(typ, put(s.sealed(), envelope, "type").AppendJSON(nil)).Wait()
		if err := x.Err(); err == nil || err.Code != profiles.InvalidProfilePayload || err.Answer.MsgType != 0 {
			t.Errorf("%s as msg_type %d: %+v", envelope, typ, err)
		}
	}
}
