package command

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/slimwire/swp/daemon"
	"github.com/slimwire/swp/daemon/check"
	"github.com/slimwire/swp/daemon/config"
)

// ownership answers whose data is in the store of a configuration. It asks the swpd that runs with it, or
// reads the closed store.
type ownership struct {
	conf *config.Config
	file string // of the configuration; empty: the store is only read

	// configured partners of a store in which vouchers are not recorded yet have their data. A partner that
	// is about to be one has not.
	configured bool

	unknown []string // warnings: the store could not be asked
}

// owns implements claims.Registry.Owns.
func (o *ownership) owns(identity string, vouchers []string) bool {
	claim, err := o.claim(identity)
	if err != nil {
		o.unknown = append(o.unknown, fmt.Sprintf("it is not known whether %s owns data here, which a partner with this name would get: %v", identity, err))
		return false
	}
	return claim.Foreign(vouchers) && (claim.Recorded || !o.configured)
}

// storedNames implements check.StoredNames: it asks the swpd that runs with a configuration in file, or reads the
// closed store.
func storedNames(file string) check.StoredNames {
	return func(ctx context.Context, c *config.Config, prefixes []string) (found map[string]map[string][]string, err error) {
		if file != "" {
			if admin, err := askActive(new(server), file); err == nil {
				err = admin.put(ctx, http.MethodGet, "/names?"+url.Values{"prefix": prefixes}.Encode(), "", nil, &found)
				return found, err
			}
		}
		return daemon.NamesIn(ctx, c, prefixes)
	}
}

func (o *ownership) claim(identity string) (claim daemon.Claim, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), storedFor)
	defer cancel()
	if o.file != "" {
		if admin, err := askActive(new(server), o.file); err == nil {
			err = admin.put(ctx, http.MethodGet, "/claim?"+url.Values{"identity": {identity}}.Encode(), "", nil, &claim)
			return claim, err
		}
	}
	return daemon.ClaimIn(ctx, o.conf, identity)
}
