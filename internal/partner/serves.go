package partner

import (
	"slices"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/rpc"
)

// asks reports whether swp.info is sent to the partner.
func (l *Link) asks() bool {
	if l.opts.Profiles != nil {
		return slices.Contains(l.opts.Profiles, rpc.ProfileID)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.mute
}

// learn notes which profiles and extensions the peer of a session serves, by configuration
// and by its swp.info.
func (l *Link) learn(s profiles.Session, info *rpc.Info) {
	profiles.Learn(s, profiles.Offer{Profiles: l.opts.Profiles, Extensions: l.opts.Extensions})
	profiles.Learn(s, info.Offer())
	l.heeds.Store(profiles.Heeds(s, 0, profiles.ExtCaller))
}

// unanswered records that the partner ended a session or did not answer swp.info, and
// reports whether to stop asking. A partner that has answered before is only away.
func (l *Link) unanswered() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mute = !l.known && l.opts.Profiles == nil
	return l.mute
}

// answered records that the partner supports swp.info: it has answered it, or called it
// here.
func (l *Link) answered() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mute {
		l.askAgain()
	}
	l.known, l.mute = true, false
}

// askAgain has the partner asked on a session on which it was not.
func (l *Link) askAgain() {
	select {
	case l.again <- struct{}{}:
	default:
	}
}

// ignorant is the *Error for a partner that would take a message for another.
func (l *Link) ignorant(of string) *profiles.Error {
	return &profiles.Error{
		Code: profiles.Internal, Detail: "partner_extension", Domain: true,
		Text: "partner " + l.opts.Name + " does not know of " + of,
	}
}
