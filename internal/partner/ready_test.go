package partner

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// Who was told that a connection is lost may ask again before the link has noticed: what
// has ended carries nothing.
func TestReadyNeverReturnsASessionThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := New(Options{Name: "b", Identity: "spiffe://b.example/swpd", Self: func() string { return "spiffe://a.example/swpd" }})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		set, err := all.New(all.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer set.Close()
		ep, err := endpoint.New(endpoint.Options{Registry: set.Registry})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = ep.Close() }()
		session := func() *Up {
			ours, theirs := transport.Pipe()
			t.Cleanup(func() { _ = theirs.Close(0) })
			return &Up{Session: ep.Attach(ours)}
		}
		ended := session()
		l.mu.Lock()
		l.current = ended // and nobody tells the link of its end
		l.mu.Unlock()
		ended.Session.Close(0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if up, err := l.Ready(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%+v, %v; want none yet", up, err)
		}
		next := session()
		time.AfterFunc(time.Second, func() { l.enter(next) })
		if up, err := l.Ready(t.Context()); up != next {
			t.Errorf("%+v, %v; want the next one", up, err)
		}
	})
}
