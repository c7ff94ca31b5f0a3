package part

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// house is what a door leads to.
type house struct{ denied error }

func (*house) Options(bool) endpoint.Options {
	return endpoint.Options{Registry: new(profiles.Registry)}
}
func (h *house) Deny(string) error          { return h.denied }
func (*house) HangUp(transport.Conn, error) {}

// The rules deny an identity before its pipes end.
func TestTL12APipeOfADeniedIdentityIsNotUsedAgain(t *testing.T) {
	h := new(house)
	d, err := NewDoor(DoorOptions{Self: func() string { return "self" }, Endpoints: h, Keeper: h}, all.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.Open(4); err != nil {
		t.Fatal(err)
	}
	defer d.End()
	near, err := d.Pass("http:a")
	if err != nil || !d.Serves("http:a", near) {
		t.Fatalf("a pipe of an identity that is let in: %v", err)
	}
	h.denied = errors.New("denied")
	if near.Context().Err() != nil || d.Serves("http:a", near) {
		t.Error("the pipe of a denied identity is used again")
	}
}

// What callers over HTTP have sent fills the budget, and passes to the profiles of this endpoint.
func TestRS36WhatPassesInsideWaitsForNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers, size, limit = 8, 3 << 19, 16 << 20
		list, err := profiles.NewRegistry(&profiles.Profile{
			ID: 900, Name: "test", Refusal: profiles.Silent,
			Types: []profiles.Type{{ID: 1, Name: "REQ", Role: profiles.Initiating}, {ID: 2, Name: "ANS", Role: profiles.Answer}},
			Handler: profiles.HandlerFunc(func(_ context.Context, req *profiles.Request, w profiles.Responder) error {
				return w.Finish(e1.Envelope{MsgType: 2, Payload: req.Payload})
			}),
		})
		if err != nil {
			t.Fatal(err)
		}
		b := memory.New(limit)
		p, err := NewPassage(endpoint.Options{Registry: list, Memory: b}, endpoint.Options{Registry: list, Memory: b})
		if err != nil {
			t.Fatal(err)
		}
		defer p.End()
		began := time.Now()
		var read, done sync.WaitGroup
		read.Add(callers)
		for i := range callers {
			done.Go(func() {
				caller := fmt.Sprint("http:", i)
				held := b.Hold(caller)
				defer held.Release()
				body, err := held.ReadAll(t.Context(), memory.Body{Reader: bytes.NewReader(make([]byte, size)), Announced: size})
				read.Done()
				if err != nil {
					t.Error(err)
					return
				}
				read.Wait()
				near, _ := p.Pass(caller, "self", func(transport.Conn) {})
				call, err := near.Call(t.Context(), e1.Envelope{ProfileID: 900, MsgType: 1, Payload: body})
				if err == nil {
					defer call.Close()
					_, err = call.Recv(t.Context())
				}
				if err != nil {
					t.Errorf("%s, after %v: %v", caller, time.Since(began), err)
				}
			})
		}
		done.Wait()
		if took := time.Since(began); took > 0 {
			t.Errorf("waited %v", took)
		}
	})
}
