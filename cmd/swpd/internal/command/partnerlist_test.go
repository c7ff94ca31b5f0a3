package command

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/slimwire/swp/daemon/certinfo"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/daemon/invitation"
	"github.com/slimwire/swp/transport"
)

func TestAnInvitationIsListedAsExpiredFromItsEnd(t *testing.T) {
	dir := t.TempDir()
	if err := devpki.Create(filepath.Join(dir, "pki"), devpki.Options{}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(devpki.Server(filepath.Join(dir, "pki")).CA)
	if err != nil {
		t.Fatal(err)
	}
	authorities, err := transport.ParseAuthorities(text)
	if err != nil {
		t.Fatal(err)
	}
	until := time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)
	i := invitation.New("acme", &certinfo.Bundle{Identity: "spiffe://acme.example/swpd", Authorities: authorities}, nil, until)
	p := &partners{file: filepath.Join(dir, "swpd.yaml"), conf: config.Default()}
	if err := os.WriteFile(p.file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.put(p.invited("beta"), i.Encode(), true); err != nil {
		t.Fatal(err)
	}
	for now, want := range map[time.Time]string{until.Add(-time.Second): stateInvited, until: stateExpired} {
		list, err := p.list(now)
		if err != nil || len(list) != 1 || list[0].State != want {
			t.Errorf("at %v: %+v, %v, want %s", now, list, err, want)
		}
	}
}
