package trust

import (
	"context"
	"crypto/ecdh"
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
)

// Rows 26 and 27 of the acceptance list.
func TestPR18ASecuredEnvelopeIsAdmittedOnce(t *testing.T) {
	p, envelope := newPolicy(t), secured(t, "n-1")
	payload, got := admit(t, p, envelope)
	if got != "" {
		t.Fatalf("refused: %s", got)
	}
	if want := letter(t).Get("payload"); !payload.Equal(want) {
		t.Errorf("payload %s", payload.AppendJSON(nil))
	}
	wantVerdict(t, p, envelope, "BAD_REQUEST replay_detected")
}

// Rows 28 to 32 of the acceptance list, and the bindings of rows 4 to 6 of §7.2: a kid
// that is trusted does not speak for every agent (weakness 5 of §13).
func TestPR18AdmitTakesOnlyKeysThatTheRegistryGivesTheSender(t *testing.T) {
	quoted := func(format string, args ...any) string {
		return fmt.Sprintf(strings.ReplaceAll(format, "'", `"`), args...)
	}
	for name, test := range map[string]struct {
		registry string
		kids     []string // that are trusted
		signer   string
		ok       bool
	}{
		"trusted, bound by its form":          {"", []string{kidA}, kidA, true},
		"not trusted":                         {"", nil, kidA, false},
		"another one is trusted":              {"", []string{kidB}, kidA, false},
		"revoked":                             {quoted(`'revoked_kids':['%s']`, kidA), []string{kidA}, kidA, false},
		"another one is revoked":              {quoted(`'revoked_kids':['%s']`, kidB), []string{kidA}, kidA, true},
		"ends later":                          {quoted(`'kid_not_after':{'%s':'2030-05-01T08:00:00.000000001Z'}`, kidA), []string{kidA}, kidA, true},
		"ends now":                            {quoted(`'kid_not_after':{'%s':'2030-05-01T08:00:00Z'}`, kidA), []string{kidA}, kidA, false},
		"has ended":                           {quoted(`'kid_not_after':{'%s':'2030-05-01T07:00:00Z'}`, kidA), []string{kidA}, kidA, false},
		"in the rotation":                     {quoted(`'allowed_kids_by_agent':{'%s':['%s','%s']}`, gardener, kidB, kidA), []string{kidA}, kidA, true},
		"outside the rotation":                {quoted(`'allowed_kids_by_agent':{'%s':['%s']}`, gardener, kidB), []string{kidA, kidB}, kidA, false},
		"rotation without any":                {quoted(`'allowed_kids_by_agent':{'%s':[]}`, gardener), []string{kidA}, kidA, false},
		"the required one":                    {quoted(`'required_kid_by_agent':{'%s':'%s'}`, gardener, kidA), []string{kidA}, kidA, true},
		"not the required one":                {quoted(`'required_kid_by_agent':{'%s':'%s'}`, gardener, kidB), []string{kidA, kidB}, kidA, false},
		"required, but not in the rotation":   {quoted(`'required_kid_by_agent':{'%s':'%s'},'allowed_kids_by_agent':{'%[1]s':['%[3]s']}`, gardener, kidA, kidB), []string{kidA}, kidA, false},
		"without form, required":              {quoted(`'required_kid_by_agent':{'%s':'key'}`, gardener), []string{"key"}, "key", true},
		"without form, in the rotation":       {quoted(`'allowed_kids_by_agent':{'%s':['key']}`, gardener), []string{"key"}, "key", true},
		"without form, bound to nobody":       {"", []string{"key"}, "key", false},
		"without form, required of another":   {quoted(`'required_kid_by_agent':{'%s':'key'}`, stranger), []string{"key"}, "key", false},
		"the form of another":                 {"", []string{stranger + "#a"}, stranger + "#a", false},
		"the form of a longer name":           {"", []string{gardener + "s#a"}, gardener + "s#a", false},
		"the form of a name with a number":    {"", []string{gardener + "#x#a"}, gardener + "#x#a", false},
		"the form without a label":            {"", []string{gardener + "#"}, gardener + "#", false},
		"the name alone":                      {"", []string{gardener}, gardener, false},
		"bound to another by the map as well": {quoted(`'required_kid_by_agent':{'%s':'%s'}`, stranger, kidA), []string{kidA}, kidA, true},
	} {
		p := newPolicy(t)
		p.Registry = newRegistry(t, test.registry, test.kids...)
		want := insecure
		if test.ok {
			want = ""
		}
		envelope := sign(t, once(encrypt(t, letter(t)), "n", now.Add(time.Minute)), test.signer)
		if _, got := admit(t, p, envelope); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestAdmitChecksModeAndSender(t *testing.T) {
	plain := once(letter(t), "n", now.Add(time.Minute))
	for name, test := range map[string]struct {
		change   func(*Policy)
		envelope canonical.Value
		want     string
	}{
		"no sec":             {func(p *Policy) { p.Mode = "" }, letter(t), insecure},
		"sec is null":        {func(p *Policy) { p.Mode = "" }, letter(t).With("sec", canonical.Value{}), insecure},
		"mode none":          {func(p *Policy) { p.Mode = "" }, plain, insecure},
		"another mode":       {func(*Policy) {}, sign(t, plain, kidA), insecure},
		"any mode, sig":      {func(p *Policy) { p.Mode = "" }, sign(t, plain, kidA), ""},
		"any mode, enc+sig":  {func(p *Policy) { p.Mode = "" }, secured(t, "n"), ""},
		"mode none demanded": {func(p *Policy) { p.Mode = sdl.ModeNone }, plain, insecure},
		"sender not admitted": {func(p *Policy) { p.Agents = []string{stranger} },
			secured(t, "n"), insecure},
		"every sender is":         {func(p *Policy) { p.Agents = nil }, secured(t, "n"), ""},
		"no registry":             {func(p *Policy) { p.Registry = nil }, secured(t, "n"), insecure},
		"no nonces, and demanded": {func(p *Policy) { p.Replay = nil }, secured(t, "n"), "INTERNAL"},
	} {
		p := newPolicy(t)
		test.change(p)
		if _, got := admit(t, p, test.envelope); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
	if _, refused := (&Policy{}).Admit(t.Context(), parse(t, secured(t, "n")), now); verdict(refused) != insecure {
		t.Errorf("a policy that is empty: %v", refused)
	}
}

// Weakness 6 of §13.
func TestPR18AnEnvelopeForAnotherIsRefused(t *testing.T) {
	p := newPolicy(t)
	p.Local = stranger
	wantVerdict(t, p, secured(t, "n"), insecure)
	p.Local = miller
	wantVerdict(t, p, secured(t, "n"), "")
	p.Local = "" // whoever it is for
	wantVerdict(t, p, secured(t, "m"), "")
}

// Weakness 19 of §13: without a signature blocks could be moved between envelopes, so
// a policy admits no mode enc, not even where it demands that mode.
func TestPR18EncryptedAloneIsNotAuthentic(t *testing.T) {
	for _, mode := range []string{"", sdl.ModeEnc} {
		p := newPolicy(t)
		p.Mode = mode
		wantVerdict(t, p, once(encrypt(t, letter(t)), "n", now.Add(time.Minute)), insecure)
	}
}

// An envelope of mode none with a signature that fits was not meant to be secured.
func TestAdmitRefusesModeNoneWithASignature(t *testing.T) {
	signed := sign(t, letter(t), kidA)
	none := signed.With("sec", signed.Get("sec").With("mode", canonical.String(seal.None)))
	input := seal.SigningInput(none, seal.JSON)
	value := seal.EncodeB64(ed25519.Sign(signingKey(t, kidA), input))
	none = none.With("sec", none.Get("sec").With("sig", none.Get("sec").Get("sig").With("value", canonical.String(value))))
	if _, err := seal.Verify(none, verifyKey(t, kidA)); err != nil {
		t.Fatal(err)
	}
	wantVerdict(t, &Policy{Registry: newRegistry(t, "", kidA)}, none, insecure)
}

// Rows 34 to 37 of the acceptance list.
func TestAdmitDemandsASession(t *testing.T) {
	sessions := NewSessions(SessionOptions{})
	if err := sessions.Register(Session{"known", gardener, miller, now.Add(time.Hour)}, now); err != nil {
		t.Fatal(err)
	}
	if err := sessions.Register(Session{"of others", stranger, miller, now.Add(time.Hour)}, now); err != nil {
		t.Fatal(err)
	}
	ending := now.Add(-time.Minute)
	if err := sessions.Register(Session{"over", gardener, miller, now}, ending); err != nil {
		t.Fatal(err)
	}
	session := func(text string) canonical.Value { return mustParse(t, text) }
	for name, test := range map[string]struct {
		session canonical.Value
		want    string
	}{
		"none":               {canonical.Value{}, insecure},
		"known":              {session(`{"binding_id":"known"}`), ""},
		"with an end":        {session(`{"binding_id":"known","exp":"2030-05-01T08:00:01Z"}`), ""},
		"end is null":        {session(`{"binding_id":"known","exp":null}`), ""},
		"its end is now":     {session(`{"binding_id":"known","exp":"2030-05-01T08:00:00Z"}`), insecure},
		"its end is no time": {session(`{"binding_id":"known","exp":1}`), insecure},
		"unknown":            {session(`{"binding_id":"other"}`), insecure},
		"of others":          {session(`{"binding_id":"of others"}`), insecure},
		"over":               {session(`{"binding_id":"over"}`), insecure},
		"no id":              {session(`{}`), insecure},
		"empty id":           {session(`{"binding_id":""}`), insecure},
		"id is no text":      {session(`{"binding_id":1}`), insecure},
		"no object":          {session(`"known"`), insecure},
	} {
		p := newPolicy(t)
		p.RequireSession, p.Sessions = true, sessions
		envelope := once(encrypt(t, letter(t)), "n", now.Add(time.Minute))
		if !test.session.IsNull() {
			envelope = with(envelope, "session", test.session)
		}
		if _, got := admit(t, p, sign(t, envelope, kidA)); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}

	p := newPolicy(t)
	p.RequireSession = true
	wantVerdict(t, p, secured(t, "n-1"), insecure) // nothing knows a session
	p.SessionExempt = []string{sdl.CTTask}
	wantVerdict(t, p, secured(t, "n-2"), "")
	p.SessionExempt = []string{}
	wantVerdict(t, p, secured(t, "n-3"), insecure)
	for _, ct := range []string{sdl.CTSession, sdl.CTError, sdl.CTNegotiation} {
		p.SessionExempt = nil
		if refused := p.session(&sdl.Envelope{CT: ct}, now); refused != nil {
			t.Errorf("%s: %v", ct, refused)
		}
	}
}

// Weakness 9 of §13.
func TestAdmitHoldsWhatItDecryptedAgainstSchemaAndLimits(t *testing.T) {
	deep := canonical.Object()
	for range 70 {
		deep = canonical.Object().With("x", deep)
	}
	deepest := canonical.Object()
	for range canonical.MaxDepth + 1 {
		deepest = canonical.Object().With("x", deepest)
	}
	task := letter(t).Get("payload")
	for name, test := range map[string]struct {
		payload canonical.Value
		want    string
	}{
		"as it should be":             {task, ""},
		"no goal":                     {task.Without("goal"), "SCHEMA_INVALID retryable"},
		"null":                        {canonical.Value{}, "SCHEMA_INVALID retryable"},
		"too deep":                    {task.With("inputs", deep), "BAD_REQUEST"},
		"too deep for the parser":     {task.With("inputs", deepest), "BAD_REQUEST"},
		"an array that is too long":   {task.With("acceptance", canonical.Array(make([]canonical.Value, 10_001)...)), "BAD_REQUEST"},
		"an array that is just right": {task.With("context", canonical.Object().With("x", canonical.Array(make([]canonical.Value, 10_000)...))), ""},
	} {
		p := newPolicy(t)
		envelope := sign(t, once(encrypt(t, letter(t).With("payload", test.payload)), "n", now.Add(time.Minute)), kidA)
		if _, got := admit(t, p, envelope); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

func TestAdmitTakesAnUnencryptedPayloadAsItIs(t *testing.T) {
	p := newPolicy(t)
	p.Mode = sdl.ModeSig
	payload, got := admit(t, p, sign(t, once(letter(t), "n", now.Add(time.Minute)), kidA))
	if got != "" || !payload.Equal(letter(t).Get("payload")) {
		t.Errorf("got %q, %s", got, payload.AppendJSON(nil))
	}
}

// told is Nonces that tell whether they were asked.
type told struct {
	asked int
	err   error
}

func (n *told) Remember(context.Context, string, string, time.Time) (bool, error) {
	n.asked++
	return n.err == nil, n.err
}

// Weakness 8 of §13: what is not authentic uses up no nonce.
func TestPR18NoNonceIsUsedUpBeforeTheSignatureVerified(t *testing.T) {
	genuine := secured(t, "n")
	forged := genuine.With("id", canonical.String("m-2"))
	for _, required := range []bool{true, false} {
		p := newPolicy(t)
		nonces := &told{}
		p.Replay, p.RequireReplay = &Replay{Nonces: nonces}, required
		wantVerdict(t, p, forged, insecure)
		wantVerdict(t, p, sign(t, genuine, kidB), insecure)
		if nonces.asked != 0 {
			t.Errorf("nonces were asked %d times", nonces.asked)
		}
		wantVerdict(t, p, genuine, "")
		if nonces.asked != 1 {
			t.Errorf("nonces were asked %d times, want once", nonces.asked)
		}
	}
}

func TestAdmitRefusesWhenNoncesFail(t *testing.T) {
	p := newPolicy(t)
	p.Replay = &Replay{Nonces: &told{err: errors.New("disk on fire")}}
	_, refused := p.Admit(t.Context(), parse(t, secured(t, "n")), now)
	if verdict(refused) != "INTERNAL retryable" {
		t.Errorf("got %v", refused)
	}
	if strings.Contains(string(refused.Payload().AppendJSON(nil)), "fire") {
		t.Error("the peer is told why")
	}
	p.Replay = &Replay{Nonces: &told{err: fmt.Errorf("records: %w", ErrFull)}}
	wantVerdict(t, p, secured(t, "n"), "BAD_REQUEST retryable replay_full")
}

// Row 8 comes before row 10: what a recipient cannot decrypt was delivered still.
func TestAdmitChecksInTheOrderOfTheSpecification(t *testing.T) {
	// Each policy fails at one more check than the one before, and earlier.
	p := newPolicy(t)
	p.DecryptKeys = nil
	want := insecure
	wantVerdict(t, p, secured(t, "n"), want) // row 10
	wantVerdict(t, p, secured(t, "n"), "BAD_REQUEST replay_detected")
	expired := sign(t, once(encrypt(t, letter(t)), "m", now), kidA)
	p.RequireSession = true // row 9
	wantVerdict(t, p, expired, "BAD_REQUEST replay_expired")
	p.Registry = newRegistry(t, "") // row 6
	wantVerdict(t, p, expired, insecure)
}

func TestPR18DowngradesAreRefused(t *testing.T) {
	p := newPolicy(t)
	sealed := secured(t, "n")
	sec := sealed.Get("sec")
	text := func(s string) canonical.Value { return canonical.String(s) }
	for name, changed := range map[string]canonical.Value{
		"mode none":              sec.With("mode", text("none")),
		"mode sig":               sec.With("mode", text("sig")),
		"mode enc":               sec.With("mode", text("enc")),
		"without sig, mode enc":  sec.Without("sig").With("mode", text("enc")),
		"another kid":            sec.With("kid", text(kidB)),
		"no kid":                 sec.Without("kid"),
		"the nonce of another":   sec.With("replay", sec.Get("replay").With("nonce", text("other"))),
		"a later expiry":         sec.With("replay", sec.Get("replay").With("exp", text("2030-05-01T08:06:00Z"))),
		"another session":        sec.With("session", mustParse(t, `{"binding_id":"x"}`)),
		"the recipients removed": sec.With("enc", sec.Get("enc").With("recipients", canonical.Array())),
		"no replay":              sec.Without("replay"),
	} {
		v := sealed.With("sec", changed)
		if mode := seal.Mode(v); mode == sdl.ModeNone || mode == sdl.ModeSig {
			v = v.With("payload", letter(t).Get("payload"))
		}
		if _, got := admit(t, p, v); got != insecure {
			t.Errorf("%s: got %q", name, got)
		}
	}
	// Other algorithms do not reach a policy.
	for name, changed := range map[string]canonical.Value{
		"sig.alg": sec.With("sig", sec.Get("sig").With("alg", text("none"))),
		"enc.alg": sec.With("enc", sec.Get("enc").With("alg", text("none"))),
		"mode":    sec.With("mode", text("ENC+SIG")),
	} {
		if _, refused := sdl.Validate(sealed.With("sec", changed), sdl.Options{}); refused == nil || refused.Code != sdl.SecurityUnsupported {
			t.Errorf("%s: %v", name, refused)
		}
	}
	wantVerdict(t, p, sealed, "")
}

func TestPR18ASignatureOverAnotherDocumentIsRefused(t *testing.T) {
	p := newPolicy(t)
	sealed := secured(t, "n")
	for name, document := range map[string]canonical.Value{
		"the payload":               sealed.Get("payload"),
		"without sec.sig":           sealed.With("sec", sealed.Get("sec").Without("sig")),
		"without sec":               sealed.Without("sec"),
		"with the signature itself": sealed,
	} {
		value := seal.SignDetached(document, signingKey(t, kidA))
		sig := sealed.Get("sec").Get("sig").With("value", canonical.String(value))
		if _, got := admit(t, p, with(sealed, "sig", sig)); got != insecure {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

// The key of a recipient that was rotated out opens nothing, and neither does one that
// has the name only.
func TestPR18WrongDecryptKeysAreRefused(t *testing.T) {
	for name, keys := range map[string]map[string]*ecdh.PrivateKey{
		"none":           nil,
		"of another kid": {"other": decryptKey(t, kidMill)},
		"another key":    {kidMill: decryptKey(t, "other")},
	} {
		p := newPolicy(t)
		p.DecryptKeys = keys
		if _, got := admit(t, p, secured(t, "n")); got != insecure {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func BenchmarkAdmit(b *testing.B) {
	p := newPolicy(b)
	p.Replay = &Replay{Nonces: &told{}}
	e := parse(b, secured(b, "n"))
	b.ReportAllocs()
	for b.Loop() {
		if _, refused := p.Admit(b.Context(), e, now); refused != nil {
			b.Fatal(refused)
		}
	}
}
