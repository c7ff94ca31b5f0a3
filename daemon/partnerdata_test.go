package daemon

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/profiles/state"
)

// A reload takes an entry whose name owns data that came under another authority, which is the common one here. The
// authority of the entry lets nobody in, and the owner stays who it is, until the operator says whose data it is.
func TestTL11TheAuthorityOfAnEntryDoesNotVouchForAnOwnerOfDataHere(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		dir := t.TempDir()
		const name = "spiffe://west.example/agent"
		for of, options := range map[string]devpki.Options{"pki": {}, "owner": {Name: name}, "other": {Name: name}} {
			if err := devpki.Create(filepath.Join(dir, of), options); err != nil {
				t.Fatal(err)
			}
		}
		r := startIn(t, dir, "identity: {cert: pki/server.crt, key: pki/server.key}\ntrust: {ca: [pki/ca.crt, owner/ca.crt]}\naccess: {rules: [{identity: 'spiffe://west.example/**'}]}\n# partners\n")
		come := func(from string) (*session, error) {
			f := devpki.Server(filepath.Join(dir, from))
			f.CA = devpki.Server(filepath.Join(dir, "pki")).CA
			s, err := dialWith(t, r.addrs[transport], f)
			if err == nil {
				err = echo(t, s)
			}
			return s, err
		}
		s, err := come("owner")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if _, err := state.PutAll(ctx, opened(t, s.Session), rpc.Sync, wanted); err != nil {
			t.Fatal(err)
		}
		if _, err := come("other"); err == nil {
			t.Fatal("a peer of an authority that nobody trusts was let in")
		}
		r.rewrite("# partners", "partners: {west: {identity: '"+name+"', trust: [other/ca.crt]}}")
		r.reloaded()
		if said := r.warned(); !strings.Contains(said, "partners.west: stored data of its identity came under other authorities") || !strings.Contains(said, "owns_data") {
			t.Errorf("warnings %q", said)
		}
		if _, err := come("other"); err == nil {
			t.Error("the partner has the name of the owner")
		}
		if s, err = come("owner"); err == nil {
			_, err = state.Fetch(ctx, s.Session, wanted.ID)
		}
		if err != nil {
			t.Errorf("the owner: %v", err)
		}
		r.rewrite("trust: [other/ca.crt]", "trust: [other/ca.crt], owns_data: true")
		r.reloaded()
		if s, err = come("other"); err == nil {
			_, err = state.Fetch(ctx, s.Session, wanted.ID)
		}
		if err != nil {
			t.Errorf("the partner, with owns_data: %v", err)
		}
		if _, err := come("owner"); err == nil {
			t.Error("the owner before still has the name")
		}
	})
}
