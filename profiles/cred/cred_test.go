package cred_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/internal/access/token"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/cred"
	"github.com/slimwire/swp/profiles/profiletest"
)

func fresh(t testing.TB) *profiles.Profile {
	s, err := cred.New(t.Context(), cred.Options{Digests: digests{}})
	if err != nil {
		t.Fatal(err)
	}
	return s.Profile()
}

var contract = []profiletest.Case{
	{Name: "present", Type: cred.TypePresent, Payload: (&cred.Present{Type: []byte("opaque"), Credential: []byte("secret"), ChainID: []byte("c")}).Append(nil)},
	{Name: "delegate to no chain", Type: cred.TypeDelegate, Code: profiles.InvalidProfilePayload,
		Payload: (&cred.Delegate{ChainID: []byte("c"), Delegation: []byte("d"), Expires: 1 << 42}).Append(nil)},
	{Name: "revoke", Type: cred.TypeRevoke, Payload: (&cred.Revoke{ChainID: []byte("c"), Reason: []byte("r")}).Append(nil)},
	{Name: "unsolicited err", Type: cred.TypeErr, Payload: (&cred.Err{Code: []byte("c")}).Append(nil)},
}

func TestContract(t *testing.T) { profiletest.Run(t, fresh, contract...) }

func FuzzServe(f *testing.F) { profiletest.Fuzz(f, fresh, contract...) }

func TestTokensAreVerified(t *testing.T) {
	w := newWorld(t, nil)
	a := w.peer(alice)
	good := func(more map[string]any) []byte { return issued(t, idp, alice, "read", time.Hour, more) }
	for name, test := range map[string]struct {
		token []byte
		want  string
	}{
		"good":                          {good(nil), ""},
		"one of several audiences":      {good(map[string]any{"aud": []string{"x", here}}), ""},
		"bound to this certificate":     {good(leafClaim(alice)), ""},
		"nbf has come":                  {good(map[string]any{"nbf": start.Unix()}), ""},
		"another audience":              {good(map[string]any{"aud": "x"}), cred.CodeInvalid},
		"no audience":                   {good(map[string]any{"aud": nil}), cred.CodeInvalid},
		"no exp":                        {good(map[string]any{"exp": nil}), cred.CodeInvalid},
		"no sub":                        {good(map[string]any{"sub": nil}), cred.CodeInvalid},
		"exp now":                       {good(map[string]any{"exp": start.Unix()}), cred.CodeExpired},
		"exp in a moment":               {good(map[string]any{"exp": start.Unix() + 1}), ""},
		"exp of no time":                {good(map[string]any{"exp": 1e300}), cred.CodeInvalid},
		"exp below zero":                {good(map[string]any{"exp": -5}), cred.CodeInvalid},
		"nbf in a moment":               {good(map[string]any{"nbf": start.Unix() + 1}), cred.CodeInvalid},
		"an issuer that nobody knows":   {issued(t, "https://x", alice, "", time.Hour, nil), cred.CodeInvalid},
		"another key":                   {sign(t, bank, map[string]any{"iss": idp, "sub": alice, "aud": here, "exp": start.Unix() + 9}), cred.CodeInvalid},
		"of one who may only delegate":  {issued(t, alice, alice, "", time.Hour, nil), cred.CodeInvalid},
		"bound to another certificate":  {good(leafClaim(bob)), cred.CodeInvalid},
		"bound to what is not shown":    {good(map[string]any{"cnf": map[string]any{"kid": "x"}}), cred.CodeInvalid},
		"a subject of too many octets":  {good(map[string]any{"sub": strings.Repeat("s", 513)}), cred.CodeInvalid},
		"scopes of too many octets":     {good(map[string]any{"scope": strings.Repeat("s", 1024)}), cred.CodeInvalid},
		"more octets than a credential": {good(map[string]any{"x": strings.Repeat("s", cred.MaxCredential)}), cred.CodeInvalid},
		"no token":                      {[]byte("not a token"), cred.CodeInvalid},
	} {
		w.want(name, a.present("jwt", test.token, ""), test.want)
	}
	w.want("a type in other letters", a.present(" JWT\t", good(nil), ""), "")
	w.want("without a chain_id there is no chain", a.use(""), "no")
}

func TestCredentialsWithoutATimeAreGoodForAWhile(t *testing.T) {
	w := newWorld(t, nil)
	a := w.peer(alice)
	leaf := leafOf(alice)
	w.want("mtls", a.present("mtls", leaf[:], "m"), "")
	w.want("opaque", a.present("opaque", []byte("secret"), "o"), "")
	w.want("in use", a.use("m")+", "+a.use("o"), "alice [] 1, alice [] 1")
	w.clock.pass(24*time.Hour - time.Millisecond)
	w.want("at the end", a.use("m")+", "+a.use("o"), "alice [] 1, alice [] 1")
	w.clock.pass(time.Millisecond)
	w.want("after it", a.use("m")+", "+a.use("o"), "no, no")
	w.want("presented again", a.present("opaque", []byte("other"), "o"), "")
	w.want("and in use", a.use("o"), "alice [] 1")
}

func TestTypesThatAreNotConfiguredAreNotTaken(t *testing.T) {
	w := newWorld(t, func(o *cred.Options) { o.Tokens, o.Digests = nil, nil })
	a := w.peer(alice)
	for _, kind := range []string{"jwt", "opaque", "saml", "jwt2", "é"} {
		w.want(kind, a.present(kind, []byte("secret"), "c"), cred.CodeUnsupported)
	}
}

func TestDelegationsNarrowWhatTheyAreMadeFrom(t *testing.T) {
	w := newWorld(t, nil)
	a, b, c := w.peer(alice), w.peer(bob), w.peer(carol)
	w.want("present", a.present("jwt", issued(t, idp, alice, "read write", time.Hour, nil), "c"), "")
	w.want("for alice", a.use("c"), "alice [read write] 1")
	for name, test := range map[string]struct {
		token []byte
		life  time.Duration
		want  string
	}{
		"of another issuer":      {issued(t, bob, carol, "read", time.Minute, nil), time.Minute, cred.CodeInvalid},
		"of the first issuer":    {issued(t, idp, bob, "read", time.Minute, nil), time.Minute, cred.CodeInvalid},
		"one scope too many":     {issued(t, alice, bob, "read admin", time.Minute, nil), time.Minute, cred.CodeInvalid},
		"exp beyond the parent":  {issued(t, alice, bob, "read", time.Hour+time.Second, nil), time.Minute, cred.CodeInvalid},
		"expires_at beyond it":   {issued(t, alice, bob, "read", time.Hour, nil), time.Hour + time.Millisecond, cred.CodeInvalid},
		"for another endpoint":   {issued(t, alice, bob, "read", time.Minute, map[string]any{"aud": "x"}), time.Minute, cred.CodeInvalid},
		"a token that has ended": {issued(t, alice, bob, "read", 0, nil), time.Minute, cred.CodeExpired},
		"octets":                 {[]byte("d"), time.Minute, cred.CodeInvalid},
	} {
		w.want(name, a.delegate("c", test.token, test.life), test.want)
	}
	w.want("nothing of it counts", a.use("c"), "alice [read write] 1")
	w.want("bob knows nothing of it", b.use("c"), "no")

	toBob := issued(t, alice, bob, "read", time.Minute, nil)
	w.want("to bob", a.delegate("c", toBob, 30*time.Second), "")
	w.want("the same again", a.delegate("c", toBob, 30*time.Second), "")
	w.want("for bob", b.use("c"), "bob [read] 2")
	w.want("for alice", a.use("c"), "bob [read] 2")
	w.want("bob adds nothing", b.delegate("c", issued(t, bob, carol, "read", time.Second*20, nil), time.Second), cred.CodeInvalid)
	w.want("to carol", a.delegate("c", issued(t, bob, carol, "", 20*time.Second, nil), 20*time.Second), "")
	w.want("for carol", c.use("c"), "carol [] 3")
	w.want("no longer for bob", b.use("c"), "no")

	// It ends with the first of its parts, and begins again.
	w.clock.pass(20*time.Second - time.Millisecond)
	w.want("before its end", c.use("c"), "carol [] 3")
	w.clock.pass(time.Millisecond)
	w.want("after it", a.use("c")+c.use("c"), "nono")
	w.want("delegated from", a.delegate("c", toBob, time.Second), cred.CodeExpired)
	w.want("presented again", a.present("jwt", issued(t, idp, alice, "read write", time.Hour, nil), "c"), "")
	w.want("for alice again", a.use("c"), "alice [read write] 1")
}

// TL-11: a token of somebody else is of no use without a delegation.
func TestTL11ATokenBelongsToItsSubject(t *testing.T) {
	w := newWorld(t, nil)
	b := w.peer(bob)
	w.want("of alice", b.present("jwt", issued(t, idp, alice, "read", time.Hour, nil), "c"), "")
	w.want("in use", b.use("c"), "no")
	w.want("alice has not presented it", w.peer(alice).use("c"), "alice [read] 1")
	w.want("delegated to bob", b.delegate("c", issued(t, alice, bob, "read", time.Hour, nil), time.Minute), "")
	w.want("in use", b.use("c"), "bob [read] 2")
	w.want("of a user", b.present("jwt", issued(t, idp, "user-7", "read", time.Hour, nil), "u"), "")
	w.want("in use", b.use("u"), "no")
	w.want("of whoever holds it", b.present("jwt", issued(t, bank, "user-7", "read", time.Hour, nil), "h"), "")
	w.want("in use", b.use("h"), "user-7 [read] 1")
	w.want("bound to bob's certificate", b.present("jwt", issued(t, idp, "user-7", "read", time.Hour, leafClaim(bob)), "x"), "")
	w.want("in use", b.use("x"), "user-7 [read] 1")
	b.who.Fingerprint = w.peer(carol).who.Fingerprint
	w.want("on a channel of another certificate", b.use("x"), "no")
}

func TestAChainIDOfTwoOwnersIsNoChainForTheirDelegate(t *testing.T) {
	w := newWorld(t, nil)
	for _, owner := range []string{alice, carol} {
		p := w.peer(owner)
		w.want(owner, p.present("jwt", issued(t, idp, owner, "read", time.Hour, nil), "c"), "")
		w.want(owner, p.delegate("c", issued(t, owner, bob, "read", time.Minute, nil), time.Minute), "")
		if owner == alice {
			w.want("for bob", w.peer(bob).use("c"), "bob [read] 2")
		}
	}
	w.want("for bob", w.peer(bob).use("c"), "no")
	w.peer(alice).revoke("c")
	w.want("once one is revoked", w.peer(bob).use("c"), "bob [read] 2")
}

func TestKeysAndDigestsThatAreTakenBackEndTheirChains(t *testing.T) {
	w := newWorld(t, nil)
	a := w.peer(alice)
	w.want("present", a.present("jwt", issued(t, idp, alice, "read", time.Hour, nil), "c"), "")
	w.want("present", a.present("jwt", issued(t, idp, alice, "read", time.Hour, nil), "d"), "")
	w.want("delegate", a.delegate("d", issued(t, alice, bob, "read", time.Minute, nil), time.Minute), "")
	less := trusted(t)
	delete(less, alice)
	w.tokens.Set(less)
	w.want("the delegation", w.peer(bob).use("d"), "no")
	w.want("the token", a.use("c"), "alice [read] 1")
	w.tokens.Set(map[string]token.Issuer{idp: trust(t, bank, false)})
	w.want("with another key", a.use("c"), "no")
	w.tokens.Set(trusted(t))
	w.want("with the first", a.use("c"), "alice [read] 1")
}

func TestPR12ChainsHaveTheirBounds(t *testing.T) {
	w := newWorld(t, nil)
	a, b := w.peer(alice), w.peer(bob)
	now := func() uint64 { return uint64(w.clock.now().UnixMilli()) }
	w.want("present", a.present("opaque", []byte("secret"), "c"), "")
	day := uint64(24 * time.Hour / time.Millisecond)
	for _, test := range []struct {
		expires uint64
		want    string
	}{
		{1, cred.CodeExpired}, {now() - 1, cred.CodeExpired}, {now(), cred.CodeExpired},
		{now() + day + 1, cred.CodeInvalid}, {math.MaxInt64, cred.CodeInvalid}, {math.MaxInt64 + 1, cred.CodeInvalid}, {math.MaxUint64, cred.CodeInvalid},
		{0, "INVALID_PROFILE_PAYLOAD"},
	} {
		w.want(fmt.Sprint("expires ", test.expires), a.delegateUntil("c", []byte("d"), test.expires), test.want)
	}
	w.want("rejected ones use no depth", a.use("c"), "alice [] 1")
	for depth := uint64(2); depth <= 8; depth++ {
		w.want(fmt.Sprint("depth ", depth), a.delegateUntil("c", []byte("d"), now()+day-depth), "")
		w.want("beyond the parent", a.delegateUntil("c", []byte("d"), now()+day-depth+1), map[bool]string{true: cred.CodeLimit, false: cred.CodeInvalid}[depth == 8])
	}
	w.want("depth 9", a.delegateUntil("c", []byte("d"), now()+1), cred.CodeLimit)
	w.want("at depth 8", a.use("c"), "alice [] 8")

	leaf := leafOf(alice)
	for _, octets := range [][]byte{leaf[:31], append(leaf[:], 0), []byte(fmt.Sprintf("%x", leaf)), make([]byte, 32)} {
		w.want(fmt.Sprintf("%d octets", len(octets)), a.present("mtls", octets, ""), cred.CodeInvalid)
	}
	w.want("of another channel", b.present("mtls", leaf[:], ""), cred.CodeInvalid)
	w.want("32 octets", a.present("mtls", leaf[:], ""), "")
	w.want("another type", a.present("kerberos", leaf[:], ""), cred.CodeUnsupported)
	w.want("a chain_id too long", a.present("mtls", leaf[:], strings.Repeat("c", cred.MaxChainID+1)), cred.CodeInvalid)
	w.want("the longest", a.present("mtls", leaf[:], strings.Repeat("c", cred.MaxChainID)), "")

	for what, code := range map[string]string{
		"delegate to it": b.delegate("c", []byte("d"), time.Second), "to none": b.delegate("none", []byte("d"), time.Second),
	} {
		w.want("somebody else cannot "+what, code, cred.CodeInvalid)
	}
	w.want("nor revoke it", b.revoke("c")+b.revoke("none"), "")
	w.want("which did nothing", a.use("c"), "alice [] 8")
	w.want("revoke", a.revoke("c"), "")
	w.want("used after that", a.use("c"), "no")
	w.want("presented after that", a.present("opaque", []byte("secret"), "c"), cred.CodeRevoked)
	w.want("with another credential", a.present("mtls", leaf[:], "c"), cred.CodeRevoked)
	w.want("with a bad one", a.present("opaque", []byte("x"), "c"), cred.CodeRevoked)
	w.want("delegated from after that", a.delegate("c", []byte("d"), time.Second), cred.CodeRevoked)
	w.want("another's chain of that id", b.present("opaque", []byte("secret"), "c"), "")
	w.want("another credential for it", b.present("opaque", []byte("other"), "c"), cred.CodeInvalid)
	w.want("the same one", b.present("opaque", []byte("secret"), "c"), "")
}

func TestPR12ARevokedChainIsNotBornAgain(t *testing.T) {
	dir := t.TempDir()
	c := new(clock)
	leaf := leafOf(alice)
	engine := memory(t, dir)
	open := func() *world {
		return newWorldAt(t, c, func(o *cred.Options) { o.Store = engine })
	}
	w := open()
	a := w.peer(alice)
	week := 7 * 24 * time.Hour
	w.want("token", a.present("jwt", issued(t, idp, alice, "", week, nil), "t"), "")
	w.want("short", a.delegate("t", issued(t, alice, bob, "", time.Minute, nil), time.Minute), "")
	w.want("endless", a.present("mtls", leaf[:], "m"), "")
	w.want("kept", a.present("jwt", issued(t, idp, alice, "r", week, nil), "k"), "")
	w.want("kept", a.delegate("k", issued(t, alice, bob, "r", time.Hour, nil), time.Hour), "")
	c.pass(time.Minute) // the delegation is over, the token is not
	w.want("revoke", a.revoke("t")+a.revoke("m"), "")

	if err := engine.Close(); err != nil {
		t.Fatal(err)
	}
	engine = memory(t, dir)
	w = open()
	a = w.peer(alice)
	w.want("after a restart", a.present("jwt", issued(t, idp, alice, "", week, nil), "t"), cred.CodeRevoked)
	w.want("after a restart", a.present("mtls", leaf[:], "m"), cred.CodeRevoked)
	w.want("what was not revoked", w.peer(bob).use("k"), "bob [r] 2")
	c.pass(week - time.Minute - time.Second)
	w.want("as long as the token is good", a.present("jwt", issued(t, idp, alice, "", 2*week, nil), "t"), cred.CodeRevoked)
	c.pass(time.Second)
	w.want("not longer", a.present("jwt", issued(t, idp, alice, "", 2*week, nil), "t"), "")
	c.pass(52 * week)
	w.want("what has no end", a.present("mtls", leaf[:], "m"), cred.CodeRevoked)
}

func TestST07AWallClockThatJumps(t *testing.T) {
	w := newWorld(t, nil)
	a := w.peer(alice)
	w.want("present", a.present("jwt", issued(t, idp, alice, "", 30*time.Minute, nil), "c"), "")
	w.clock.jump(time.Hour)
	w.want("no mass expiry", a.use("c"), "alice [] 1")
	w.want("a token that has expired by the wall clock", a.present("jwt", issued(t, idp, alice, "", 30*time.Minute, nil), "d"), cred.CodeExpired)
	w.clock.jump(-time.Hour)
	w.clock.pass(30 * time.Minute)
	w.want("its time is over", a.use("c"), "no")
	w.clock.jump(-time.Hour)
	w.want("and does not come back", a.use("c"), "no")
	w.want("nor does its token", a.present("jwt", issued(t, idp, alice, "", 30*time.Minute, nil), "e"), cred.CodeExpired)
	w.want("present", a.present("opaque", []byte("secret"), "o"), "")
	w.want("nor does a delegation", a.delegateUntil("o", []byte("d"), uint64(start.Add(time.Minute).UnixMilli())), cred.CodeExpired)
}

// The wall clock was set back while nothing ran.
func TestST07AnEarlierProcessWasLater(t *testing.T) {
	c := new(clock)
	engine := memory(t, t.TempDir())
	open := func() *world { return newWorldAt(t, c, func(o *cred.Options) { o.Store = engine }) }
	w := open()
	w.want("present", w.peer(alice).present("jwt", issued(t, idp, alice, "", 30*time.Minute, nil), "c"), "")
	c.pass(40 * time.Minute)
	w.want("later", w.peer(alice).present("opaque", []byte("secret"), "d"), "")
	c.jump(-time.Hour)
	w = open()
	w.want("expired before", w.peer(alice).use("c"), "no")
	w.want("expired before", w.peer(alice).present("jwt", issued(t, idp, alice, "", 30*time.Minute, nil), "e"), cred.CodeExpired)
	w.want("good", w.peer(alice).use("d"), "alice [] 1")
}

func TestChainsAreBounded(t *testing.T) {
	w := newWorld(t, func(o *cred.Options) { o.PerIdentity, o.Chains = 3, 5 })
	a, b, c := w.peer(alice), w.peer(bob), w.peer(carol)
	full := func(p *peer, n int) {
		t.Helper()
		for i := range n {
			w.want("room", p.present("opaque", []byte("secret"), fmt.Sprint(i)), "")
		}
		w.want("no room", p.present("opaque", []byte("secret"), "more"), "RATE_LIMIT_EXCEEDED")
	}
	full(a, 3)
	full(b, 2)
	full(c, 0)
	a.revoke("0")
	w.want("what was revoked takes room", a.present("opaque", []byte("secret"), "more"), "RATE_LIMIT_EXCEEDED")
	w.want("without a chain", c.present("opaque", []byte("secret"), ""), "")
	w.clock.pass(24 * time.Hour)
	full(b, 3)
	w.want("what is over has left", c.present("opaque", []byte("secret"), "0"), "")
}

type denies string

func (d denies) Allowed(_, profile, operation, name string) bool {
	return profile != "cred" || operation+" "+name != string(d)
}

func TestRulesAreAsked(t *testing.T) {
	w := newWorld(t, func(o *cred.Options) { o.Access = denies("present opaque") })
	w.want("present", w.peer(alice).present("opaque", []byte("secret"), "c"), "SECURITY_POLICY")
	w = newWorld(t, func(o *cred.Options) { o.Access = denies("delegate opaque") })
	w.want("present", w.peer(alice).present("opaque", []byte("secret"), "c"), "")
	w.want("delegate", w.peer(alice).delegate("c", []byte("d"), time.Second), "SECURITY_POLICY")
}

func TestOtherLimitsHoldForCredentialsThatComeLater(t *testing.T) {
	w := newWorld(t, nil)
	p := w.peer(alice)
	w.want("present", p.present("opaque", []byte("secret"), "c"), "")
	if err := w.SetLimits(cred.Options{MaxDepth: 1}); err != nil {
		t.Fatal(err)
	}
	w.want("a part more than there may be", p.delegate("c", []byte("d"), time.Second), cred.CodeLimit)
	if w.SetLimits(cred.Options{MaxDepth: 9}) == nil {
		t.Error("a depth above that of the specification is taken")
	}
	if err := w.SetLimits(cred.Options{MaxDepth: 2}); err != nil {
		t.Fatal(err)
	}
	w.want("as many parts as there may be", p.delegate("c", []byte("d"), time.Second), "")
}

func TestOptionsHaveTheirBounds(t *testing.T) {
	for name, opts := range map[string]cred.Options{
		"depth":    {MaxDepth: 9},
		"lifetime": {MaxLifetime: -1},
		"leeway":   {Leeway: -1},
		"chains":   {Chains: -1},
		"audience": {Tokens: token.New(nil)},
	} {
		if _, err := cred.New(t.Context(), opts); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// A delegate that has the octets cannot present the tokens of a revoked chain again, also
// after a restart. Its owner revokes what is its own, and nothing of others.
func TestTL17TheTokensOfARevokedChainCannotBePresentedAgain(t *testing.T) {
	dir, c := t.TempDir(), new(clock)
	engine := memory(t, dir)
	open := func() *world { return newWorldAt(t, c, func(o *cred.Options) { o.Store = engine }) }
	w := open()
	first, other := issued(t, idp, alice, "r", time.Hour, nil), issued(t, idp, alice, "r w", time.Hour, nil)
	toBob, toCarol := issued(t, alice, bob, "r", time.Hour, nil), issued(t, alice, carol, "r", time.Hour, nil)
	a, b, k := w.peer(alice), w.peer(bob), w.peer(carol)
	w.want("bob", a.present("jwt", first, "bob")+a.delegate("bob", toBob, time.Hour), "")
	w.want("bob has presented it himself", b.present("jwt", first, "own")+b.delegate("own", toBob, time.Hour), "")
	w.want("carol", a.present("jwt", first, "carol")+a.delegate("carol", toCarol, time.Hour), "")
	w.want("bob uses both", b.use("bob")+b.use("own"), "bob [r] 2bob [r] 2")

	// Bob was given only the second token, and may not take the first from alice.
	w.want("bob revokes", b.revoke("own")+k.use("carol")+a.use("bob"), "carol [r] 2no")
	w.want("the first token", a.present("jwt", first, "again"), "")

	w.want("alice revokes", a.revoke("bob"), "")
	for range 2 {
		w.want("the same tokens", b.present("jwt", first, "new")+a.present("jwt", first, "new"), cred.CodeRevoked+cred.CodeRevoked)
		w.want("another chain of alice", k.use("carol"), "carol [r] 2")
		w.want("which she continues", a.present("jwt", first, "carol"), "")
		w.want("another token", a.present("jwt", other, "other"), "")
		w.want("with the old delegation", a.delegate("other", toBob, time.Hour), cred.CodeRevoked)
		if err := engine.Close(); err != nil {
			t.Fatal(err)
		}
		engine = memory(t, dir)
		w = open()
		a, b, k = w.peer(alice), w.peer(bob), w.peer(carol)
	}
	c.pass(time.Hour)
	w.want("the revocation is not kept for longer than the tokens are valid", b.present("jwt", first, "new"), cred.CodeExpired)
}

// Work under a chain learns of its end: by revocation, at its expiry, and of another owner.
func TestTL17WorkUnderAChainEndsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldAt(t, new(clock), func(o *cred.Options) { o.Now, o.Elapsed = time.Now, nil })
		a, b := w.peer(alice), w.peer(bob)
		token := func(life time.Duration) []byte {
			return sign(t, idp, map[string]any{"iss": idp, "sub": alice, "aud": here, "exp": time.Now().Add(life).Unix()})
		}
		given := sign(t, alice, map[string]any{"iss": alice, "sub": bob, "aud": here, "exp": time.Now().Add(time.Hour).Unix()})
		long, until := token(time.Hour), uint64(time.Now().Add(time.Hour/2).UnixMilli())
		w.want("chains", a.present("jwt", token(time.Minute), "short")+a.present("jwt", long, "long")+a.delegateUntil("long", given, until)+
			b.present("jwt", long, "own")+b.delegateUntil("own", given, until)+a.present("jwt", token(2*time.Hour), "other"), "")
		ended := make(map[string]*profiles.Error)
		var mu sync.Mutex
		under := func(p *peer, id string) (stop func()) {
			d, err := w.Delegation(&p.who, []byte(id))
			if err != nil {
				t.Fatal(err)
			}
			return d.Watch(func(why *profiles.Error) { mu.Lock(); ended[p.who.Identity+id] = why; mu.Unlock() })
		}
		said := func(want ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if got := slices.Sorted(maps.Keys(ended)); !slices.Equal(got, want) {
				t.Errorf("ended: %q, want %q", got, want)
			}
			clear(ended)
		}
		for _, id := range []string{"short", "long", "other"} {
			defer under(a, id)()
		}
		defer under(b, "own")()
		under(a, "long")()
		said()
		time.Sleep(2 * time.Minute)
		said(alice + "short")
		w.want("revoke", a.revoke("long"), "")
		said(alice+"long", bob+"own")
		time.Sleep(time.Hour)
		said()
	})
}
