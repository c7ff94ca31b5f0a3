package partner

import (
	"slices"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/rpc"
)

// asks reports whether the partner is asked what it offers.
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
}

// unanswered notes that the partner ends a session, or says nothing, when it is asked what
// it offers, and reports whether it is not to be asked again. One that has answered before
// is only away.
func (l *Link) unanswered() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mute = !l.known && l.opts.Profiles == nil
	return l.mute
}

// answered notes that the partner knows of swp.info: it has answered it, or asked it here.
func (l *Link) answered() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mute {
		select {
		case l.again <- struct{}{}:
		default:
		}
	}
	l.known, l.mute = true, false
}

// ignorant is the *Error for a partner that would take a message for another.
func (l *Link) ignorant(of string) *profiles.Error {
	return &profiles.Error{
		Code: profiles.Internal, Detail: "partner_extension", Domain: true,
		Text: "partner " + l.opts.Name + " does not know of " + of,
	}
}
