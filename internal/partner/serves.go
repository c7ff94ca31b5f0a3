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

// Remembered is what a partner is remembered to serve, over restarts. It is what the partner has said or
// sent itself; nothing follows from a session that has ended.
type Remembered struct {
	Answers  bool     `json:"answers"`            // it answers swp.info
	Profiles []uint64 `json:"profiles,omitempty"` // of its last swp.info
	Sent     []uint64 `json:"sent,omitempty"`     // of messages that it has sent, if it does not answer swp.info
}

// maxRemembered bounds the profiles that are remembered of a partner.
const maxRemembered = 256

// answers reports whether the partner has answered swp.info before, or called it here.
func (l *Link) answers() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known
}

// maxDoubts is how often in a row a partner that has answered before does not answer swp.info, until its next
// session is used without.
const maxDoubts = 3

// trusts reports whether a partner that did not answer swp.info now is only away, since it has answered before.
func (l *Link) trusts() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known {
		l.doubts++
		l.known = l.doubts < maxDoubts
	}
	return l.known
}

// turnedAway reports whether a session on which the partner was not asked has ended at once: the question is not the
// reason.
func (l *Link) turnedAway() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.turned
}

// unanswered records that the partner did not answer swp.info. One that has answered before is only away.
func (l *Link) unanswered() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mute = !l.known && l.opts.Profiles == nil
}

// answered records that the partner supports swp.info: it has answered it, with info unless that is nil,
// or called it here.
func (l *Link) answered(info *rpc.Info) {
	l.mu.Lock()
	if l.mute {
		l.askAgain()
	}
	l.known, l.mute, l.doubts = true, false, 0
	next := l.kept
	next.Answers, next.Sent = true, nil
	if info != nil {
		next.Profiles = info.Offer().Profiles
		next.Profiles = next.Profiles[:min(len(next.Profiles), maxRemembered)]
	}
	l.remember(next)
}

// sent records which profiles the partner has used on a session on which it was not asked.
func (l *Link) sent(up *Up) {
	if up.asked || l.opts.Profiles != nil {
		return
	}
	l.mu.Lock()
	next := l.kept
	next.Sent = up.Session.Known().Profiles()
	l.remember(next)
}

// remember keeps what the partner serves, if that is new. The caller holds mu, which remember unlocks.
func (l *Link) remember(next Remembered) {
	same := next.Answers == l.kept.Answers && slices.Equal(next.Profiles, l.kept.Profiles) && slices.Equal(next.Sent, l.kept.Sent)
	l.kept = next
	l.mu.Unlock()
	if !same {
		l.opts.Remember(next)
	}
}

// Lists reports whether the last swp.info of the partner has listed a profile, also before a restart.
func (l *Link) lists(profile uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(l.kept.Profiles, profile)
}

// askAgain has the partner asked on a session on which it was not.
func (l *Link) askAgain() {
	select {
	case l.again <- struct{}{}:
	default:
	}
}

// ignorant is the *Error for a partner that would take a message for another. A partner that has not
// said what it serves may know it.
func (l *Link) ignorant(up *Up, of string) *profiles.Error {
	text := "partner " + l.opts.Name + " does not know of " + of
	if up != nil && !up.asked && l.opts.Profiles == nil {
		text = "partner " + l.opts.Name + " did not answer swp.info, so it is not known whether it knows of " + of
	}
	return &profiles.Error{Code: profiles.Internal, Detail: "partner_extension", Domain: true, Text: text}
}
