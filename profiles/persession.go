package profiles

import (
	"context"
	"sync"
	"sync/atomic"
)

// Keeper is a Session whose idle timeout can be suspended.
type Keeper interface {
	// Keep suspends the idle timeout until release is called. Later calls of release do
	// nothing.
	Keep() (release func())
}

// Keep calls Keep of a session that is a Keeper. For any other session it does nothing.
func Keep(s Session) (release func()) {
	if k, ok := s.(Keeper); ok {
		return k.Keep()
	}
	return func() {}
}

// Leaver is a Session that knows whether each side takes requests on it.
type Leaver interface {
	// Leaving returns a context that ends when the peer has refused a request because it drains
	// the session, when no answer can arrive on the session any more, or with the session.
	Leaving() context.Context

	// Draining returns a context that ends when this side drains the session. It does not end
	// with the session.
	Draining() context.Context
}

// Leaving calls Leaving of a session that is a Leaver. For any other it returns the Context of the
// session.
func Leaving(s Session) context.Context {
	if l, ok := s.(Leaver); ok {
		return l.Leaving()
	}
	return s.Context()
}

// OnDraining calls f, in a goroutine, when this side drains a session that is a Leaver, or has begun to.
// An exchange without an expected end ends then, with a retryable error, because the session waits for it.
// stop is that of context.AfterFunc; it must be called at the end of the exchange.
func OnDraining(s Session, f func()) (stop func() bool) {
	if l, ok := s.(Leaver); ok {
		return context.AfterFunc(l.Draining(), f)
	}
	return func() bool { return true }
}

// PerSession keeps at most one value per session, until the session ends. Reading takes no
// lock. The zero value is ready. It is safe for concurrent use, and must not be copied.
type PerSession[T any] struct {
	count  atomic.Int64
	values sync.Map // Session to *T
}

// Find returns the value of a session, nil if it has none.
func (p *PerSession[T]) Find(s Session) *T {
	if p.count.Load() == 0 {
		return nil
	}
	v, ok := p.values.Load(s)
	if !ok {
		return nil
	}
	return v.(*T) //nolint:errcheck // the map holds nothing else
}

// Count returns how many sessions have a value.
func (p *PerSession[T]) Count() int64 { return p.count.Load() }

// Enter returns the value of a session, and makes it with fresh if it is missing. If
// several goroutines make one at the same time, all get the same value. When the session
// ends, the value is forgotten and passed to end.
func (p *PerSession[T]) Enter(s Session, fresh func() *T, end func(*T)) *T {
	if v := p.Find(s); v != nil {
		return v
	}
	made := fresh()
	if v, there := p.values.LoadOrStore(s, made); there {
		return v.(*T) //nolint:errcheck // the map holds nothing else
	}
	p.count.Add(1)
	context.AfterFunc(s.Context(), func() {
		p.values.Delete(s)
		p.count.Add(-1)
		end(made)
	})
	return made
}
