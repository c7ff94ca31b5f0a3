package endpoint_test

import (
	"bytes"
	"context"
	"errors"
	"log"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport/endpoint"
)

// logged has the default logger write into a buffer until the test ends.
func logged(t *testing.T) func() string {
	t.Helper()
	var mu sync.Mutex
	var text bytes.Buffer
	old, writer, flags := slog.Default(), log.Writer(), log.Flags()
	slog.SetDefault(slog.New(slog.NewTextHandler(lockedWriter{&mu, &text}, nil)))
	t.Cleanup(func() {
		slog.SetDefault(old)
		log.SetOutput(writer)
		log.SetFlags(flags)
	})
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return text.String()
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// Whoever gives an endpoint a handler and nothing else learns that it failed, and so
// does its caller.
func TestAHandlerThatFailsIsToldAndLoggedByDefault(t *testing.T) {
	detach := func(f profiles.HandlerFunc) profiles.HandlerFunc {
		return func(_ context.Context, req *profiles.Request, _ profiles.Responder) error { return req.Detach(f) }
	}
	fails := func(context.Context, *profiles.Request, profiles.Responder) error {
		return errors.New("no such table: orders")
	}
	panics := func(context.Context, *profiles.Request, profiles.Responder) error { panic("index out of range") }
	refuses := func(context.Context, *profiles.Request, profiles.Responder) error {
		return profiles.Errorf(profiles.NotFound, "no order of that number")
	}
	for _, tt := range []struct {
		name    string
		handler profiles.HandlerFunc
		code    profiles.Code
		logged  []string
	}{
		{"error", fails, profiles.Internal, []string{"level=ERROR", "a handler failed", "no such table: orders", "peer=spiffe://pipe.invalid/"}},
		{"panic", panics, profiles.Internal, []string{"level=ERROR", "index out of range", "stack="}},
		{"refusal", refuses, profiles.NotFound, []string{"level=WARN", "a message was refused", "no order of that number"}},
		{"detached error", detach(fails), profiles.Internal, []string{"level=ERROR", "no such table: orders"}},
		{"detached panic", detach(panics), profiles.Internal, []string{"level=ERROR", "stack="}},
	} {
		for _, k := range kinds {
			t.Run(tt.name+"/"+k.name, func(t *testing.T) {
				text := logged(t)
				synctest.Test(t, func(t *testing.T) {
					own := profile(tt.handler)
					own.Refusal = nil
					registry, err := profiles.NewRegistry(own)
					if err != nil {
						t.Fatal(err)
					}
					serving, err := endpoint.New(endpoint.Options{Registry: registry})
					if err != nil {
						t.Fatal(err)
					}
					calling, err := endpoint.New(endpoint.Options{Registry: registry, Observer: endpoint.Discard})
					if err != nil {
						t.Fatal(err)
					}
					here, there := k.pipe()
					serving.Attach(here)
					s := calling.Attach(there)
					call, err := s.Call(t.Context(), e1.Envelope{ProfileID: testProfile, MsgType: typeRequest, Payload: []byte("x")})
					if err != nil {
						t.Fatal(err)
					}
					_, err = call.Recv(t.Context()) // in virtual time waiting for good is a deadlock
					call.Close()
					var fault *profiles.Error
					if !errors.As(err, &fault) || fault.Code != tt.code {
						t.Errorf("the caller got %v, want %s", err, tt.code)
					}
					if fault != nil && strings.Contains(fault.Text, "orders") {
						t.Errorf("the caller was told what went wrong inside: %s", fault.Text)
					}
					_, _ = calling.Close(), serving.Close()
				})
				for _, want := range tt.logged {
					if got := text(); !strings.Contains(got, want) {
						t.Errorf("logged %q, want %q in it", got, want)
					}
				}
			})
		}
	}
}
