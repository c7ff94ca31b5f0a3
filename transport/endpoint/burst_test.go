package endpoint_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport/endpoint"
)

// held asks for n exchanges and returns what answers them.
func (r *rig) held(t *testing.T, n int, held <-chan profiles.Responder) []profiles.Responder {
	t.Helper()
	list := make([]profiles.Responder, n)
	for i := range list {
		r.send(t, request(fmt.Sprintf("request-%08d", i), "x"))
		list[i] = <-held
	}
	return list
}

// Answers that were asked for together are ready together. A peer that reads gets
// them all, although together they are more than the queue holds of anything else,
// and what else is due to it meanwhile.
func TestRS05ManyAnswersAtOnceDoNotMakeAPeerSlow(t *testing.T) {
	virtually(t, func(t *testing.T, pipe pipe) {
		const bound = 256 << 10
		held := make(chan profiles.Responder, 1)
		r := newRigOn(t, pipe, endpoint.Options{Bounds: endpoint.Bounds{OutboundBytes: bound}}, holdLong(held))
		list := r.held(t, 4, held)
		events, answers := list[0], list[1:]
		for i, w := range answers {
			if err := w.Finish(e1.Envelope{MsgType: typeAnswer, Payload: make([]byte, 3*bound/4)}); err != nil {
				t.Fatalf("answer %d: %v", i, err)
			}
		}
		if err := events.Send(e1.Envelope{MsgType: typeAnswer, Payload: []byte("event")}); err != nil {
			t.Errorf("an event beside the answers: %v", err)
		}
		for i := range answers {
			time.Sleep(100 * time.Millisecond)
			r.wantEcho(t, fmt.Sprintf("request-%08d", i+1), string(make([]byte, 3*bound/4)))
		}
		r.wantEcho(t, "request-00000000", "event")
		events.Fail(nil)
	})
}

// There is a bound on answers, too. What is above it is an error in place of the
// answer, not the end of the connection.
func TestRS05AnswersAboveTheBoundOfABurstAreRefused(t *testing.T) {
	virtually(t, func(t *testing.T, pipe pipe) {
		const bound = 256 << 10
		held := make(chan profiles.Responder, 1)
		p := holdLong(held)
		p.Refusal = func(_ *profiles.Request, err *profiles.Error) (e1.Envelope, bool) {
			return e1.Envelope{MsgType: typeAnswer, Payload: []byte(err.Detail)}, true
		}
		r := newRigOn(t, pipe, endpoint.Options{Bounds: endpoint.Bounds{OutboundBytes: bound}}, p)
		answers := r.held(t, 5, held)
		var fault *profiles.Error
		for i, w := range answers {
			err := w.Finish(e1.Envelope{MsgType: typeAnswer, Payload: make([]byte, 3*bound/4)})
			if late := i >= 3; late != errors.As(err, &fault) || late && fault.Retryable {
				t.Fatalf("answer %d: %v", i, err)
			}
		}
		for i := range answers {
			want := string(make([]byte, 3*bound/4))
			if i >= 3 {
				want = "outbound"
			}
			r.wantEcho(t, fmt.Sprintf("request-%08d", i), want)
		}
	})
}

// What may be lost is, before anything else is.
func TestRS05WhatIsOfferedYields(t *testing.T) {
	virtually(t, func(t *testing.T, pipe pipe) {
		const bound = 256 << 10
		held := make(chan profiles.Responder, 1)
		r := newRigOn(t, pipe, endpoint.Options{Bounds: endpoint.Bounds{OutboundBytes: bound}}, holdLong(held))
		list := r.held(t, 2, held)
		note := e1.Envelope{MsgType: typeAnswer, Payload: make([]byte, bound/16)}
		taken := 0
		for list[0].Offer(note) == nil {
			taken++
		}
		if taken == 0 {
			t.Error("a note was refused that had room")
		}
		if err := list[1].Send(e1.Envelope{MsgType: typeAnswer, Payload: make([]byte, bound/8)}); err != nil {
			t.Errorf("beside the notes: %v", err)
		}
		if err := list[1].Finish(e1.Envelope{MsgType: typeAnswer, Payload: []byte("answer")}); err != nil {
			t.Error(err)
		}
		for range taken {
			r.wantEcho(t, "request-00000000", string(note.Payload))
		}
		r.wantEcho(t, "request-00000001", string(make([]byte, bound/8)))
		r.wantEcho(t, "request-00000001", "answer")
		synctest.Wait() // until the writer has given back the room
		if err := list[0].Offer(note); err != nil {
			t.Errorf("with room again: %v", err)
		}
		r.wantEcho(t, "request-00000000", string(note.Payload))
		list[0].Fail(nil)
		if err := list[0].Offer(note); !errors.Is(err, profiles.ErrFinished) {
			t.Errorf("after the end: %v, want %v", err, profiles.ErrFinished)
		}
	})
}
