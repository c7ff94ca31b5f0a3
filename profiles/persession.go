package profiles

import (
	"context"
	"sync"
	"sync/atomic"
)

// Keeper is a Session whose end for being idle can be put off.
type Keeper interface {
	// Keep has the session not end for being idle until release is called, which may be
	// called more than once.
	Keep() (release func())
}

// Keep keeps a session that is a Keeper; for any other it does nothing.
func Keep(s Session) (release func()) {
	if k, ok := s.(Keeper); ok {
		return k.Keep()
	}
	return func() {}
}

// PerSession keeps a value for each session that has one, until the session
// ends. Reading takes no lock. The zero value is ready; it is safe for
// concurrent use, and not to be copied.
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

// Enter is Find that makes a missing value; of several made at the same time
// one stays. The value is forgotten when the session ends, and then given to
// end.
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
