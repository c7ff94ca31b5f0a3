package partner

import (
	"slices"

	"github.com/slimwire/swp/profiles/rpc"
)

// Serves reports whether the partner is known to serve a profile: its entry says so, or
// it has said so itself. A message of another profile could end the session.
func (l *Link) Serves(up *Up, profile uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(up.info.Profiles, func(p rpc.ProfileInfo) bool { return p.ID == profile })
}

// servesNow is Serves of the session that carries what is passed on now; true while there
// is none.
func (l *Link) servesNow(profile uint64) bool {
	up := l.Now()
	return up == nil || l.Serves(up, profile)
}

// asks reports whether the partner is asked what it offers.
func (l *Link) asks() bool {
	if l.opts.Profiles != nil {
		return slices.Contains(l.opts.Profiles, rpc.ProfileID)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.mute
}

// configuredInfo returns the offer of a partner that is not asked, by its configuration.
func (l *Link) configuredInfo() rpc.Info {
	var info rpc.Info
	for _, id := range l.opts.Profiles {
		info.Profiles = append(info.Profiles, rpc.ProfileInfo{ID: id})
	}
	return info
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
	l.known, l.mute = true, false
}
