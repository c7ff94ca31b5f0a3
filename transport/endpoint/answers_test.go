package endpoint_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// An endpoint passes large requests on, and their answers are as large. The requests fill its budget.
// Over a link with streams it asks two at a time, because of the answers that find no room one waits.
func TestRS36AnswersToRequestsThatArePassedOnHaveRoom(t *testing.T) {
	virtually(t, func(t *testing.T, pipe pipe) {
		const requests, size, limit = 8, 3 << 19, 16 << 20
		behind, _ := newEndpoint(t, endpoint.Options{}, profile(hold(func(req *profiles.Request, w profiles.Responder) {
			go func() {
				time.Sleep(time.Second) // until all requests have arrived
				_ = w.Finish(e1.Envelope{MsgType: typeAnswer, Payload: req.Payload})
			}()
		})))
		var link *endpoint.Session
		atOnce := make(chan struct{}, requests)
		middle, _ := newEndpoint(t, endpoint.Options{Memory: memory.New(limit)}, profile(hold(func(req *profiles.Request, w profiles.Responder) {
			go func() {
				atOnce <- struct{}{}
				answer, err := try(t.Context(), link, string(req.Payload))
				<-atOnce
				if err != nil {
					answer = err.Error()
				}
				_ = w.Finish(e1.Envelope{MsgType: typeAnswer, Payload: []byte(answer)})
			}()
		})))
		x, y := pipe()
		behind.Attach(x)
		link = middle.Attach(y)
		if x.Multiplexed() {
			atOnce = make(chan struct{}, 2)
		}
		began := time.Now()
		var all sync.WaitGroup
		for i := range requests {
			client, _ := newEndpoint(t, endpoint.Options{}, profile(echo))
			a, b := pipe()
			middle.AttachFor(a, fmt.Sprint("spiffe://test.invalid/", i))
			s := client.Attach(b)
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				got, err := try(ctx, s, string(make([]byte, size)))
				if len(got) != size {
					t.Errorf("request %d, after %v: %.80q, %v", i, time.Since(began), got, err)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// A request is answered in a budget that is full of held requests: the answer gets its octets.
func TestRS36AHeldRequestIsAnsweredInAFullBudget(t *testing.T) {
	virtually(t, func(t *testing.T, pipe pipe) {
		const size, limit = 2 << 20, 16 << 20
		budget := memory.New(limit)
		held := make(chan parked, 1)
		ep, _ := newEndpoint(t, endpoint.Options{Memory: budget}, telling(profile(hold(func(req *profiles.Request, w profiles.Responder) {
			held <- parked{req, w}
		}))))
		client, _ := newEndpoint(t, endpoint.Options{}, telling(profile(echo)))
		a, b := pipe()
		ep.Attach(a)
		s := client.Attach(b)
		got := make(chan string, 1)
		go func() { got <- ask(t, s, strings.Repeat("x", size)) }()
		p := <-held
		others := 0
		for budget.Share(fmt.Sprint("other", others)).Try(64<<10, memory.Large) { // they have all that is left
			others++
		}
		for range 2 { // the first window of the request was free
			others--
			budget.Share(fmt.Sprint("other", others)).Give(64<<10, memory.Large)
		}
		before := budget.Used()
		if err := p.w.Finish(e1.Envelope{MsgType: typeAnswer, Payload: p.req.Payload}); err != nil {
			t.Error(err)
		}
		if used := budget.Used(); used > before+128<<10 {
			t.Errorf("%d octets are in use after the answer, %d before", used, before)
		}
		if answer := <-got; answer != strings.Repeat("x", size) {
			t.Errorf("an answer of %d octets", len(answer))
		}
		for i := range others {
			budget.Share(fmt.Sprint("other", i)).Give(64<<10, memory.Large)
		}
		time.Sleep(time.Second)
		if used := budget.Used(); used != 0 {
			t.Errorf("%d octets are in use at the end", used)
		}
	})
}

// Of a budget that requests have filled, a frame has the room of answers only if a call that is open
// waits for it.
func TestRS36OnlyAnswersToOpenCallsHaveTheRoomOfAnswers(t *testing.T) {
	const limit, size = 16 << 20, 1<<20 - 200
	for name, c := range map[string]struct {
		closed bool
		typ    uint64
		spoil  func(id []byte)
		served bool
	}{
		"the answer":            {typ: typeAnswer, served: true},
		"of a closed call":      {typ: typeAnswer, closed: true},
		"of no call":            {typ: typeAnswer, spoil: func(id []byte) { id[15]++ }},
		"of another session":    {typ: typeAnswer, spoil: func(id []byte) { id[0]++ }},
		"a request with its id": {typ: typeRequest},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				budget := memory.New(limit)
				ep, rec := newEndpoint(t, endpoint.Options{Memory: budget, Bounds: endpoint.Bounds{Room: time.Second}}, telling(profile(echo)))
				here, there := transport.Pipe()
				r := attach(t, ep, rec, here, there)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				call, err := r.sess.Call(ctx, e1.Envelope{ProfileID: testProfile, MsgType: typeRequest, Payload: []byte("x")})
				if err != nil {
					t.Fatal(err)
				}
				id := slices.Clone(r.recv(t).MsgID)
				if c.closed {
					call.Close()
				}
				const piece = 64 << 10
				for i := 0; ; i++ {
					var room memory.Room
					if room.Take(ctx, budget.Share(fmt.Sprint(i)), piece, 0, memory.Wait{}) != nil {
						break
					}
					room.Keep()
					defer budget.Share(fmt.Sprint(i)).Give(piece, memory.Large)
				}
				before := budget.Used()
				if c.spoil != nil {
					c.spoil(id)
				}
				env := request(string(id), strings.Repeat("x", size))
				env.MsgType = c.typ
				go func() { _, _ = r.raw.Write(framed(env)) }()
				time.Sleep(2 * time.Second)
				if !c.served {
					if used := budget.Used(); used != before {
						t.Errorf("it has %d octets", used-before)
					}
					return
				}
				if env, err := call.Recv(ctx); err != nil || len(env.Payload) != size {
					t.Errorf("the answer: %v", err)
				}
				call.Close()
				synctest.Wait()
				if used := budget.Used(); used != before {
					t.Errorf("%d octets are left in use", used-before)
				}
			})
		})
	}
}
