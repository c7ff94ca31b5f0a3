package endpoint_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport/endpoint"
)

// lists is an Access that allows the names in it while it admits the identity, and counts
// denials.
type lists struct {
	names  sync.Map
	denied atomic.Int64
}

func (l *lists) Allowed(_, _, _, name string) bool {
	_, ok := l.names.Load(name)
	if ok = ok && l.Deny("") == nil; !ok {
		l.denied.Add(1)
	}
	return ok
}

// Deny implements profiles.Admitter.
func (l *lists) Deny(string) error {
	if _, ok := l.names.Load("admitted"); !ok {
		return profiles.ErrDenied
	}
	return nil
}

// A rule that is removed ends the exchanges that it has allowed: what is held, and what
// runs. Others continue.
func TestTL15ARemovedRuleEndsExchangesInFlight(t *testing.T) {
	for _, gone := range []string{"one", "both", "admitted"} {
		virtually(t, func(t *testing.T, pipe pipe) {
			rules := new(lists)
			for _, name := range []string{"one", "other", "both", "admitted"} {
				rules.names.Store(name, true)
			}
			ended := make(chan string, 2)
			wait := func(ctx context.Context, name string) { <-ctx.Done(); ended <- name }
			p := telling(profile(func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
				name := string(req.Payload)
				for _, one := range []string{name, "both"} {
					if !req.May(rules, "test", "do", one) {
						return profiles.ErrDenied
					}
				}
				if name == "one" {
					return req.Detach(func(ctx context.Context, _ *profiles.Request, _ profiles.Responder) error {
						wait(ctx, name)
						return ctx.Err()
					})
				}
				_, w, err := req.HoldLong()
				if err == nil {
					go func() { wait(w.Context(), name); w.Fail(nil) }()
				}
				return err
			}))
			r := newRigOn(t, pipe, endpoint.Options{Access: rules, Bounds: endpoint.Bounds{ErrorBudget: 1}}, p)
			r.good = nil
			r.send(t, request("one-------------", "one"))
			r.send(t, request("other-----------", "other"))
			synctest.Wait()
			rules.names.Delete(gone)
			r.ep.Review()
			want := 2
			if gone == "one" {
				want = 1
			}
			for range want {
				if env := r.recv(t); env.MsgType != typeError || string(env.Payload) != profiles.SecurityPolicy.String() {
					t.Errorf("without %s: %+v", gone, env)
				}
			}
			synctest.Wait()
			if len(ended) != want || rules.denied.Load() != int64(want) {
				t.Errorf("without %s %d handlers have ended, and %d denials are counted, want %d", gone, len(ended), rules.denied.Load(), want)
			}
			if r.sess.Context().Err() != nil {
				t.Error("the connection has ended")
			}
			for len(ended) > 0 {
				<-ended
			}
		})
	}
}

// The rules may change between the question and the hold of an exchange.
func TestTL15ARuleRemovedWhileAnExchangeBegins(t *testing.T) {
	virtually(t, func(t *testing.T, pipe pipe) {
		rules := new(lists)
		rules.names.Store("one", true)
		rules.names.Store("admitted", true)
		asked, goOn := make(chan struct{}), make(chan struct{})
		p := telling(profile(func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
			if !req.May(rules, "test", "do", "one") {
				return profiles.ErrDenied
			}
			close(asked)
			<-goOn
			_, w, err := req.Hold()
			if err == nil {
				context.AfterFunc(w.Context(), func() { _ = w.Finish(e1.Envelope{MsgType: typeAnswer}) })
			}
			return err
		}))
		r := newRigOn(t, pipe, endpoint.Options{Access: rules}, p)
		r.good = nil
		r.send(t, request("one-------------", "one"))
		<-asked
		rules.names.Delete("one")
		r.ep.Review()
		close(goOn)
		if env := r.recv(t); env.MsgType != typeError {
			t.Errorf("%+v", env)
		}
	})
}

// An exchange ends with its chain of credentials.
func TestTL17AnExchangeEndsWithItsChain(t *testing.T) {
	virtually(t, func(t *testing.T, pipe pipe) {
		ended, watched := make(chan func(*profiles.Error), 2), make(chan struct{}, 2)
		under := endpoint.ContextFunc(func(ctx context.Context, _ *profiles.Profile, req *profiles.Request) context.Context {
			if string(req.Payload) == "free" {
				return ctx
			}
			return profiles.WithDelegation(ctx, &profiles.Delegation{Watch: func(f func(*profiles.Error)) func() {
				ended <- f
				return func() { watched <- struct{}{} }
			}})
		})
		held := make(chan profiles.Responder, 3)
		p := telling(profile(func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
			_, w, err := req.Hold()
			held <- w
			return err
		}))
		r := newRigOn(t, pipe, endpoint.Options{Tracer: under, Bounds: endpoint.Bounds{ErrorBudget: 1}}, p)
		r.good = nil
		for _, name := range []string{"free", "one", "two"} {
			r.send(t, request(name+"-------------", name))
		}
		synctest.Wait()
		(<-ended)(profiles.ErrRevoked)
		if env := r.recv(t); env.MsgType != typeError || string(env.MsgID) != "one-------------" {
			t.Errorf("%+v", env)
		}
		for i, want := range []bool{false, true, false} {
			w := <-held
			if over := w.Context().Err() != nil; over != want {
				t.Errorf("exchange %d is over: %v", i, over)
			}
			w.Fail(nil)
		}
		<-watched
		<-watched // nothing is watched any more
	})
}
