package command

import (
	"context"
	"slices"
	"strings"

	"github.com/slimwire/swp/client"
)

// remarkLocal says which of the names that an endpoint has accepted look like names of a
// partner and belong to the endpoint itself, because it has no partner of that name. It says
// nothing if this identity can reach no partner there, or if the endpoint does not tell.
func (f *flags) remarkLocal(ctx context.Context, address, what string, names ...string) {
	ofPartner := func(name string) bool { return strings.Contains(name, "/") }
	if !slices.ContainsFunc(names, ofPartner) {
		return
	}
	_ = f.on(ctx, address, func(ctx context.Context, c *client.Client) error {
		partners, err := c.Partners(ctx)
		if err != nil || len(partners) == 0 {
			return err
		}
		for _, name := range names {
			if first, _, _ := strings.Cut(name, "/"); ofPartner(name) && !slices.Contains(partners, first) {
				f.warnf("no partner is called %s there: the %s %s is one of %s itself", first, what, name, address)
			}
		}
		return nil
	}) // only a remark depends on it
}
