package command

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/daemon/certinfo"
	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/daemon/invitation"
	"github.com/slimwire/swp/transport"
)

// authorityOf makes an authority for development in a directory, and returns it.
func authorityOf(t *testing.T, dir, name string) *certinfo.Bundle {
	t.Helper()
	if err := devpki.Create(dir, devpki.Options{Name: name}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(devpki.Server(dir).CA)
	if err != nil {
		t.Fatal(err)
	}
	b := &certinfo.Bundle{Identity: name}
	if b.Authorities, err = transport.ParseAuthorities(text); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestTL11AReplyThatClaimsANameOfThisEndpointIsRefused(t *testing.T) {
	dir := t.TempDir()
	own := authorityOf(t, filepath.Join(dir, "pki"), "spiffe://south.example/swpd")
	west := authorityOf(t, filepath.Join(dir, "west"), "spiffe://west.example/swpd")
	stranger := authorityOf(t, filepath.Join(dir, "stranger"), "spiffe://stranger.example/swpd")
	p := &partners{file: filepath.Join(dir, "swpd.yaml")}
	if err := os.WriteFile(p.file, []byte(`identity: {cert: pki/server.crt, key: pki/server.key}
trust: {ca: [pki/ca.crt]}
admin: off
access: {rules: [{identity: "**"}, {identity: "spiffe://south.example/**"}, {identity: spiffe://north.example/agent}, {identity: "*.north.example"}]}
partners: {west: {identity: spiffe://west.example/swpd, trust: [west/ca.crt]}}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		identity, invited, flag string
		by                      *certinfo.Bundle
		want                    string // in the refusal; empty: it is accepted
	}{
		{identity: "spiffe://south.example/swp-client", by: stranger, want: "is in the trust domain of this endpoint"},
		{identity: "spiffe://south.example/swp-client", by: stranger, flag: "spiffe://south.example/swp-client", want: "is in the trust domain of this endpoint"},
		{identity: "spiffe://south.example/swp-client", by: stranger, invited: "spiffe://south.example/swp-client", want: "is in the trust domain of this endpoint"},
		{identity: "spiffe://south.example/other", by: own, flag: "spiffe://south.example/other"}, // of the same organisation
		{identity: "spiffe://south.example/swpd", by: stranger, flag: "spiffe://south.example/swpd", want: "is the identity of this endpoint"},
		{identity: "spiffe://west.example/agent", by: stranger, want: "is in the trust domain west.example of the partner west, whose authorities are others"},
		{identity: "spiffe://west.example/agent", by: west},
		{identity: "spiffe://north.example/agent", by: stranger, want: "is named already in access.rules[2]"},
		{identity: "spiffe://north.example/agent", by: stranger, invited: "spiffe://north.example/agent"},
		{identity: "x.north.example", by: stranger, want: "is named already in access.rules[3]"},
		{identity: "x.north.example", by: stranger, flag: "x.north.example"},
		{identity: "spiffe://stranger.example/swpd", by: stranger},
		{identity: "spiffe://stranger.example/swpd", by: stranger, invited: "spiffe://stranger.example/other", want: "the invitation that it answers was for spiffe://stranger.example/other"},
		{identity: "spiffe://stranger.example/swpd", by: stranger, flag: "spiffe://stranger.example/other", want: "and --identity is spiffe://stranger.example/other"},
	} {
		until := time.Now().Add(time.Hour)
		first := invitation.New("south", own, nil, until)
		first.Invited = c.invited
		if err := p.put(p.invited("new"), first.Encode(), true); err != nil {
			t.Fatal(err)
		}
		b := *c.by
		b.Identity = c.identity
		reply := invitation.New("x", &b, nil, until)
		reply.Answers = first.Sum
		file := filepath.Join(dir, "reply")
		if err := os.WriteFile(file, reply.Encode(), 0o600); err != nil {
			t.Fatal(err)
		}
		args := []string{"partner", "accept", file, "--config", p.file, "--yes", "--fingerprint", reply.Sum}
		if c.flag != "" {
			args = append(args, "--identity", c.flag)
		}
		var out, errs bytes.Buffer
		rc := Main("test", args, &out, &errs)
		made := filepath.Join(dir, "partners.d", "new.yaml")
		_, err := os.Stat(made)
		if accepted := rc == 0 && err == nil; accepted != (c.want == "") || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%+v: exit code %d, %v: %s, want %q", c, rc, err, &errs, c.want)
		}
		_ = os.Remove(made)
	}
}
