package endpoint_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/transporttest"
)

// An endpoint without room for a large frame reads nothing for longer than a write may take otherwise.
// Its peer sends it small messages meanwhile.
func TestRS36ASenderThatAwaitsRoomKeepsItsSession(t *testing.T) {
	for _, awaits := range []bool{true, false} {
		t.Run(fmt.Sprint(awaits), func(t *testing.T) {
			virtually(t, func(t *testing.T, pipe pipe) {
				budget, other := filled(t, 4<<20)
				defer other.Give()
				server, _ := newEndpoint(t, endpoint.Options{Memory: budget}, profile(echo))
				client, rec := newEndpoint(t, endpoint.Options{}, profile(echo))
				x, y := pipe()
				server.Attach(x)
				s := client.Attach(y)
				if awaits {
					s.AwaitRoom()
				}
				time.AfterFunc(110*time.Second, other.Give)
				payload := string(make([]byte, 1<<20))
				for range 10 {
					go func() { _ = s.Send(t.Context(), request("", "x")) }()
				}
				got, err := try(t.Context(), s, payload)
				if ok := err == nil && got == payload; ok != awaits {
					t.Errorf("%.40q, %v", got, err)
				}
				if awaits && len(rec.closed) > 0 {
					t.Errorf("closed: %v", rec.closed)
				}
			})
		})
	}
}

// Each end has no room for the large frame of the other for some time, and none of the two stops
// reading because its answers are not read.
func TestRS36BothEndsMayAwaitRoomAtOnce(t *testing.T) {
	virtually(t, func(t *testing.T, pipe pipe) {
		var ends [2]*endpoint.Session
		x, y := pipe()
		for i := range ends {
			budget, other := filled(t, 4<<20)
			ep, _ := newEndpoint(t, endpoint.Options{Memory: budget}, profile(echo))
			time.AfterFunc(time.Duration(60+40*i)*time.Second, other.Give)
			conn := x
			if i > 0 {
				conn = y
			}
			ends[i] = ep.Attach(conn)
			ends[i].AwaitRoom()
		}
		payload := string(make([]byte, 1<<20))
		done := make(chan error, 22)
		for _, s := range ends {
			go func() { done <- s.Send(t.Context(), request("0123456789abcdef", payload)) }()
			for i := range 10 {
				go func() {
					time.Sleep(time.Duration(i) * time.Second)
					_, err := try(t.Context(), s, "x")
					done <- err
				}()
			}
		}
		for range 22 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

func TestRS36ASenderOnTheWireAwaitsRoom(t *testing.T) {
	for _, kind := range []string{"tls", "quic", "tcp"} {
		t.Run(kind, func(t *testing.T) {
			transporttest.NoLeaks(t)
			budget, other := filled(t, 16<<20)
			defer other.Give()
			w := listen(t, kind, endpoint.Options{Memory: budget}, profile(echo))
			const write = 100 * time.Millisecond
			client, _ := newEndpoint(t, endpoint.Options{Bounds: endpoint.Bounds{Write: write}}, profile(echo))
			s := client.Attach(w.dial(t).conn)
			s.AwaitRoom()
			time.AfterFunc(10*write, other.Give)
			payload := string(make([]byte, 7<<20)) // more than sockets hold
			if got, err := try(t.Context(), s, payload); err != nil || got != payload {
				t.Errorf("%.40q, %v", got, err)
			}
			s.Close(profiles.OK)
		})
	}
}

// The patience has an end, and it is that of a peer that has room as soon as the large frame is answered.
func TestRS05APeerThatMayWaitForRoomIsClosedAfterThat(t *testing.T) {
	for _, answered := range []bool{false, true} {
		t.Run(fmt.Sprint(answered), func(t *testing.T) {
			virtually(t, func(t *testing.T, pipe pipe) {
				ep, rec := newEndpoint(t, endpoint.Options{}, profile(echo))
				here, there := pipe()
				r := attach(t, ep, rec, here, there)
				r.sess.AwaitRoom()
				want := profiles.LargeWait
				if answered {
					want = profiles.WriteWait
					large := answeredLarge(t, r)
					if there.Multiplexed() {
						want = profiles.LargeWait // other streams say nothing
					}
					if err := <-large; err != nil {
						t.Fatal(err)
					}
				}
				began := time.Now()
				size := 60 << 10
				if !answered {
					size = 1 << 20
				}
				for r.sess.Context().Err() == nil && time.Since(began) < 2*profiles.LargeWait {
					if err := r.sess.Send(t.Context(), request("", string(make([]byte, size)))); err != nil {
						break
					}
				}
				if took := time.Since(began); took < want || took > want+2*time.Second {
					t.Errorf("given up after %v, want %v", took, want)
				}
			})
		})
	}
}

// answeredLarge has the endpoint send a large request, which the rig answers.
func answeredLarge(t *testing.T, r *rig) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := try(t.Context(), r.sess, string(make([]byte, 100<<10)))
		done <- err
	}()
	if r.conn.Multiplexed() {
		stream, err := r.conn.Accept(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r.raw, r.in = stream, frame.NewReader(stream, frame.Options{})
	}
	env := r.recv(t)
	env.MsgType, env.Payload = typeAnswer, nil
	r.send(t, env)
	return done
}

// Silence has a reason while the peer may wait for room, or while this side does not read.
func TestRS36SilenceHasAReasonWhileRoomIsAwaited(t *testing.T) {
	virtually(t, func(t *testing.T, pipe pipe) {
		budget, other := filled(t, 4<<20)
		server, _ := newEndpoint(t, endpoint.Options{Memory: budget}, profile(echo))
		client, _ := newEndpoint(t, endpoint.Options{}, profile(echo))
		x, y := pipe()
		there, s := server.Attach(x), client.Attach(y)
		if s.AwaitRoom(); s.MayWait() || there.MayWait() {
			t.Error("before a large frame")
		}
		multiplexed := x.Multiplexed()
		done := make(chan error, 1)
		go func() {
			_, err := try(t.Context(), s, string(make([]byte, 1<<20)))
			done <- err
		}()
		time.Sleep(time.Minute)
		if s.MayWait() == multiplexed || there.MayWait() == multiplexed {
			t.Errorf("while it waits: %v, %v", s.MayWait(), there.MayWait())
		}
		other.Give()
		if err := <-done; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if s.MayWait() || there.MayWait() {
			t.Errorf("after the answer: %v, %v", s.MayWait(), there.MayWait())
		}
		// A large message without an answer, and a call behind it.
		if err := s.Send(t.Context(), request("", string(make([]byte, 1<<20)))); err != nil {
			t.Fatal(err)
		}
		if s.MayWait() == multiplexed {
			t.Errorf("after a message without an answer: %v", s.MayWait())
		}
		if _, err := try(t.Context(), s, "x"); err != nil || s.MayWait() {
			t.Errorf("after an answer behind it: %v, %v", s.MayWait(), err)
		}
	})
}

// Messages that cannot wait are refused while the peer may wait for room: the session stays.
func TestRS36WhatCannotWaitIsRefusedWhileRoomIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := make(chan profiles.Responder, 1)
		r := newRig(t, endpoint.Options{Bounds: endpoint.Bounds{OutboundFrames: 4}}, holdLong(held))
		r.sess.AwaitRoom()
		r.send(t, request("0123456789abcdef", "subscribe"))
		w := <-held
		if err := w.Send(e1.Envelope{MsgType: typeAnswer, Payload: make([]byte, 100<<10)}); err != nil {
			t.Fatal(err)
		}
		var err error
		for range 100 {
			time.Sleep(time.Second)
			if err = w.Send(e1.Envelope{MsgType: typeAnswer, Payload: make([]byte, 40<<10)}); err != nil {
				break
			}
		}
		if fault := new(profiles.Error); err == nil || !errors.As(err, &fault) || fault.Code != profiles.RateLimitExceeded || r.sess.Context().Err() != nil {
			t.Errorf("%v; the session: %v", err, r.sess.Context().Err())
		}
	})
}
