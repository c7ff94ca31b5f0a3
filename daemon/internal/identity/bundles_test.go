package identity

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
)

// rolled returns credentials that serve, and the kept bundle of the partner b, which no endpoint gives.
func rolled(t *testing.T) (c *Credentials, kept string) {
	t.Helper()
	c = &Credentials{kept: t.TempDir(), log: zap.NewNop()}
	kept = filepath.Join(c.kept, "b"+keptExt)
	if err := os.WriteFile(kept, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.endpoints.serving = t.Context()
	t.Cleanup(func() { c.endpoints.replace(nil) })
	return c, kept
}

// inState puts the partner b in force in a state.
func (c *Credentials) inState(t *testing.T, state string) *endpoint {
	t.Helper()
	conf := config.Partner{Identity: "spiffe://b.example/swpd", State: state}
	conf.Bundle.Source, conf.Bundle.URL = config.BundleWeb, "https://127.0.0.1:1/"
	next, err := c.endpointsOf(config.Partners{"b": conf})
	if err != nil {
		t.Fatal(err)
	}
	c.endpoints.replace(next)
	return next["b"]
}

func TestTheBundleOfASuspendedPartnerIsKeptAndNotRefreshed(t *testing.T) {
	c, kept := rolled(t)
	before := c.inState(t, config.StateActive)
	if before.done == nil {
		t.Fatal("the bundle of an active partner is not refreshed")
	}
	for _, state := range []string{config.StateSuspended, config.StateRevoked} {
		if e := c.inState(t, state); e.done != nil {
			t.Errorf("%s: the bundle is refreshed", state)
		}
		select {
		case <-before.done:
		default:
			t.Errorf("%s: the endpoint of before is still asked", state)
		}
		if _, err := os.Stat(kept); err != nil {
			t.Errorf("%s: %v", state, err)
		}
	}
	if e := c.inState(t, config.StateActive); e.done == nil {
		t.Error("the bundle is not refreshed after the return of the partner")
	}
}

func TestAKeptBundleOfNoPartnerIsRemoved(t *testing.T) {
	c, kept := rolled(t)
	c.inState(t, config.StateSuspended)
	for _, name := range []string{"gone" + keptExt, "notes"} {
		if err := os.WriteFile(filepath.Join(c.kept, name), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c.endpoints.tidy(c.kept, c.log)
	for name, stays := range map[string]bool{kept: true, filepath.Join(c.kept, "gone"+keptExt): false, filepath.Join(c.kept, "notes"): true} {
		if _, err := os.Stat(name); (err == nil) != stays || !stays && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c.endpoints.tidy(filepath.Join(c.kept, "missing"), c.log)
}
