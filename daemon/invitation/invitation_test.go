package invitation_test

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/daemon/certinfo"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/daemon/invitation"
	"github.com/slimwire/swp/transport"
)

func made(t testing.TB, until time.Time) *invitation.Invitation {
	t.Helper()
	dir := t.TempDir()
	if err := devpki.Create(dir, devpki.Options{}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(devpki.Server(dir).CA)
	if err != nil {
		t.Fatal(err)
	}
	b := &certinfo.Bundle{Identity: "spiffe://acme.example/swpd"}
	if b.Authorities, err = transport.ParseAuthorities(text); err != nil {
		t.Fatal(err)
	}
	if err := b.SetAddresses([]string{"swp+tls://acme.example:7777"}); err != nil {
		t.Fatal(err)
	}
	return invitation.New("acme", b, []config.PartnerRule{{Profile: config.List{"rpc"}, Name: config.List{"find<1>&"}}}, until)
}

func TestInvitationsOfOneSecondHaveDifferentFingerprints(t *testing.T) {
	b, err := made(t, time.Now()).Bundle()
	if err != nil {
		t.Fatal(err)
	}
	until := time.Now()
	one, other := invitation.New("acme", b, nil, until), invitation.New("acme", b, nil, until)
	if one.Fingerprint() == other.Fingerprint() {
		t.Error("a reply to one of them answers both")
	}
}

func TestAnInvitationIsReadAsItWasMade(t *testing.T) {
	i := made(t, time.Date(2027, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600)))
	i.Answers = strings.Repeat("a", 64)
	again, err := invitation.Decode(i.Encode())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(i, again); diff != "" {
		t.Error(diff)
	}
	b, err := again.Bundle()
	if err != nil || len(b.Authorities) != 1 || len(b.Addresses) != 1 {
		t.Errorf("%+v, %v", b, err)
	}
	end := time.Date(2027, 1, 2, 2, 4, 5, 0, time.UTC)
	if err := again.Ended(end.Add(-1)); err != nil {
		t.Error(err)
	}
	if err := again.Ended(end); err == nil || err.Error() != "ended at 2027-01-02T02:04:05Z; ask for a new one" {
		t.Errorf("at its end: %v", err)
	}
}

// No change of an octet is accepted, unless the invitation is the same.
func TestAChangedInvitationIsRefused(t *testing.T) {
	i := made(t, time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC))
	text := i.Encode()
	for at := range text {
		for _, bit := range []byte{1, 32} {
			changed := bytes.Clone(text)
			changed[at] ^= bit
			got, err := invitation.Decode(changed)
			if err == nil && !cmp.Equal(got, i) {
				t.Fatalf("octet %d, %q for %q: accepted as %+v", at, changed[at], text[at], got)
			}
		}
	}
}

func TestWhatIsNoInvitationIsRefusedWithTheReason(t *testing.T) {
	until := time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)
	with := func(change func(*invitation.Invitation)) string {
		i := made(t, until)
		change(i)
		return string(i.Encode())
	}
	addresses := func(n int) func(*invitation.Invitation) {
		return func(i *invitation.Invitation) {
			i.Addresses = nil
			for range n {
				i.Addresses = append(i.Addresses, "swp+tls://acme.example:1")
			}
		}
	}
	offers := func(n int) func(*invitation.Invitation) {
		return func(i *invitation.Invitation) { i.Offers = make([]config.PartnerRule, n) }
	}
	name := func(n int) func(*invitation.Invitation) {
		return func(i *invitation.Invitation) { i.Offers[0].Name = config.List{strings.Repeat("n", n)} }
	}
	for what, row := range map[string]struct{ text, want string }{
		"as made":           {with(func(*invitation.Invitation) {}), ""},
		"empty":             {"", "is no invitation"},
		"text":              {"hello", "is no invitation"},
		"later":             {with(func(i *invitation.Invitation) { i.Version = 2 }), "has version 2"},
		"another key":       {strings.Replace(with(func(*invitation.Invitation) {}), "{", `{"more": 1,`, 1), `unknown field "more"`},
		"more behind":       {with(func(*invitation.Invitation) {}) + "{}", "after top-level value"},
		"too long":          {strings.Repeat(" ", invitation.MaxSize) + "{", "has more than 262144 octets"},
		"no identity":       {with(func(i *invitation.Invitation) { i.Identity = "" }), "names no identity"},
		"no end":            {with(func(i *invitation.Invitation) { i.Until = time.Time{} }), "or no end"},
		"no authority":      {with(func(i *invitation.Invitation) { i.Trust = "" }), "certificate"},
		"plaintext":         {with(func(i *invitation.Invitation) { i.Addresses = []string{"swp+tcp://127.0.0.1:1"} }), "plaintext"},
		"64 addresses":      {with(addresses(64)), ""},
		"65 addresses":      {with(addresses(65)), "more than 64 addresses"},
		"1024 offers":       {with(offers(1024)), ""},
		"1025 offers":       {with(offers(1025)), "or 1024 offers"},
		"a name of 2048":    {with(name(2048)), ""},
		"a name of 2049":    {with(name(2049)), "a text of more than 2048 octets"},
		"an identity, long": {with(func(i *invitation.Invitation) { i.Identity = strings.Repeat("i", 2049) }), "a text of more than 2048 octets"},
	} {
		_, err := invitation.Decode([]byte(row.text))
		if (row.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", what, err, row.want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(made(f, time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)).Encode())
	f.Add([]byte(`{"version":1,"fingerprint":""}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		i, err := invitation.Decode(text)
		if err != nil {
			return
		}
		again, err := invitation.Decode(i.Encode())
		if err != nil || again.Sum != i.Sum {
			t.Errorf("not read again: %v", err)
		}
	})
}
