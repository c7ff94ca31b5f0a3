package partner

import (
	"context"
	"time"

	"github.com/slimwire/swp/profiles"
)

// saw records the certificate of a connection to the partner.
func (l *Link) saw(peer *profiles.Peer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !peer.NotAfter.IsZero() {
		l.seen, l.looked = peer, time.Now()
	}
}

// look connects to the partner to read its certificate, if the last one seen expires soon.
// If no address answers, the old certificate stays.
func (l *Link) look() {
	l.mu.Lock()
	seen, looked := l.seen, l.looked
	l.mu.Unlock()
	if seen == nil || len(l.opts.Addresses) == 0 || !l.opts.Ending(seen) || time.Since(looked) < lookAgain(seen) {
		return
	}
	l.mu.Lock()
	l.looked = time.Now()
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(l.ctx, l.opts.DialTimeout)
	defer cancel()
	for _, addr := range l.opts.Addresses {
		if conn, err := l.opts.Dial(ctx, addr); err == nil {
			peer := profiles.Peer(*conn.Peer())
			l.saw(&peer)
			_ = conn.Close(uint64(profiles.OK))
			return
		}
	}
}

// lookAgain returns the pause between two looks: a thirtieth of the lifetime of the
// certificate, from a minute to an hour.
func lookAgain(peer *profiles.Peer) time.Duration {
	return min(max(peer.NotAfter.Sub(peer.NotBefore)/30, time.Minute), time.Hour)
}
