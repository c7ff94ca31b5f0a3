package partner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/slimwire/swp/internal/causes"
	"github.com/slimwire/swp/transport/endpoint"
)

var errBetter = errors.New("partner: another session of the two ends stays")

// enter adds a session to the candidates until it ends.
func (l *Link) enter(up *Up) {
	l.mu.Lock()
	known := slices.ContainsFunc(l.open, func(other *Up) bool { return other.Session == up.Session })
	if !known {
		if up.since.IsZero() {
			up.since = time.Now()
		}
		up.Session.SetName("partner " + l.opts.Name)
		l.tellOn(up.Session) // before anybody can choose it: each message has its caller
		up.Session.AwaitRoom()
		l.open = append(l.open, up)
		l.mutual = l.mutual || up.info.Partner
	}
	l.mu.Unlock()
	if known {
		return
	}
	l.saw(up.Session.Peer())
	l.choose(nil)
	context.AfterFunc(up.Session.Leaving(), func() { l.left(up) })
	if !up.asked && !up.pending && l.asks() { // it has shown in the meantime that it can be asked
		l.askAgain()
	}
	context.AfterFunc(up.Session.Context(), func() {
		l.sent(up)
		l.mu.Lock()
		l.open = slices.DeleteFunc(l.open, func(other *Up) bool { return other == up })
		l.count(up)
		l.mu.Unlock()
		l.choose(context.Cause(up.Session.Context()))
	})
}

// count counts a dialled session that is of no use any more as brief or not. The caller holds mu.
func (l *Link) count(up *Up) {
	switch {
	case !up.Dialled || up.leaving:
	case time.Since(up.since) < l.lasting():
		l.brief++
	default:
		l.brief = 0
	}
}

var errDrains = errors.New("partner: it shuts down, and takes no further requests on its connection")

// left gives up a session on which the partner takes no further requests. Exchanges under
// way on it go on.
func (l *Link) left(up *Up) {
	if up.Session.Context().Err() != nil {
		return
	}
	l.mu.Lock()
	l.count(up)
	l.retreat(up)
	l.mu.Unlock()
	cause := context.Cause(up.Session.Leaving())
	if errors.Is(cause, endpoint.ErrPeerDrains) {
		cause = refusal(causes.Draining, errDrains)
	}
	l.choose(cause)
}

// drains reports whether the partner shuts down, and waits for exchanges on a session. The caller holds mu.
func (l *Link) drains() bool {
	return slices.ContainsFunc(l.open, func(up *Up) bool {
		return errors.Is(context.Cause(up.Session.Leaving()), endpoint.ErrPeerDrains)
	})
}

// retreat lets a session end when nothing is under way on it any more. The end that has dialled it
// drains it. The caller holds mu.
func (l *Link) retreat(up *Up) {
	if up.Dialled && !up.leaving {
		time.AfterFunc(superseded, up.Session.Drain)
	}
	up.leaving = true
}

// choose makes the best session the current one. cause is why a session has ended.
//
// If both ends have dialled, the session dialled by the smaller identity stays
// (docs/partners.md), so that both ends make the same choice without messages. The end that
// dialled the other session drains it, because the accepting end cannot know whether that
// session is a link of the partner or another program with its identity.
func (l *Link) choose(cause error) {
	l.mu.Lock()
	best := l.best()
	for _, up := range l.open {
		if up.Dialled && up != best {
			l.retreat(up)
		}
	}
	old := l.current
	if best == old {
		l.mu.Unlock()
		return
	}
	l.current = best
	l.release()
	l.release = func() {}
	if best != nil {
		l.release = best.Session.Keep()
	}
	l.since = time.Now()
	if best == nil && cause != nil {
		l.failure = fmt.Errorf("its connection was lost: %w", ending(cause))
	}
	if best != nil {
		l.failure, l.turned = nil, false
		l.connects++
	}
	changed := l.changed
	l.changed = make(chan struct{})
	l.mu.Unlock()
	if old != nil && (best == nil || best.Session != old.Session) {
		if cause == nil {
			cause = errBetter
		}
		l.opts.Observe(Event{Name: l.opts.Name, What: Lost, Up: old, Err: ending(cause)})
	}
	close(changed) // after Lost: a woken waiter may report the result of dialling
	if best != nil {
		l.reached(best)
		l.opts.Observe(Event{Name: l.opts.Name, What: Connected, Up: best})
	}
}

// best returns the best candidate: first a session dialled by the smaller identity, then
// one whose other end treats this endpoint as a partner, then the newest. After the partner
// has dialled as a partner, other sessions under its identity belong to other programs. The
// caller holds mu.
func (l *Link) best() *Up {
	ours := l.opts.Self() < l.opts.Identity
	var best *Up
	for _, up := range l.open {
		switch {
		case up.leaving, l.mutual && !up.Dialled && !up.info.Partner:
		case best == nil,
			up.Dialled != best.Dialled && up.Dialled == ours,
			up.Dialled == best.Dialled && (up.info.Partner || !best.info.Partner):
			best = up
		}
	}
	return best
}
