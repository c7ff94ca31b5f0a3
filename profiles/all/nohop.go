package all

import (
	"context"
	"slices"

	"github.com/slimwire/swp/profiles"
)

// errNoPartners refuses a message with a target on an endpoint without partners.
var errNoPartners = &profiles.Error{
	Code: profiles.NotFound, Detail: "partner_unknown", Domain: true, Text: "there are no partners here that a target (extension 52) could lead to",
}

// noHop is the Hop of an endpoint without partners: it refuses messages with a target,
// since it must not be executed here.
func noHop(p *profiles.Profile, _ profiles.Access) profiles.Handler {
	next := p.Handler
	if slices.Contains(p.Extensions, profiles.ExtTarget) {
		return next // it handles targets itself
	}
	return profiles.HandlerFunc(func(ctx context.Context, req *profiles.Request, w profiles.Responder) error {
		if !req.Unsolicited {
			switch target, err := profiles.TargetOf(req.Extensions); {
			case err != nil:
				return err
			case target != "":
				return errNoPartners
			}
		}
		return next.Serve(ctx, req, w)
	})
}
