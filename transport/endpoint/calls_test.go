package endpoint_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

const typePart = 5 // answer that does not end its exchange

// ending gives a profile an answer that ends its exchange, and one that does not.
func ending(p *profiles.Profile) *profiles.Profile {
	p.Types[typeAnswer-1].Role |= profiles.Terminal
	p.Types = append(p.Types, profiles.Type{ID: typePart, Name: "PART", Role: profiles.Answer})
	return p
}

// asked is a peer that was called, and the call.
func asked(t *testing.T, p *profiles.Profile) (*rig, profiles.Call, func(typ uint64)) {
	t.Helper()
	return askedBeside(t, p)
}

// askedBeside is asked with other profiles beside.
func askedBeside(t *testing.T, p ...*profiles.Profile) (*rig, profiles.Call, func(typ uint64)) {
	t.Helper()
	ep, rec := newEndpoint(t, endpoint.Options{}, p...)
	here, there := transport.Pipe()
	r := attach(t, ep, rec, here, there)
	c, err := r.sess.Call(t.Context(), e1.Envelope{ProfileID: testProfile, MsgType: typeRequest, Payload: []byte("x")})
	if err != nil {
		t.Fatal(err)
	}
	req := r.recv(t)
	return r, c, func(typ uint64) {
		t.Helper()
		env := request(string(req.MsgID), "answer")
		env.MsgType = typ
		r.send(t, env)
	}
}

func TestPR02AnAnswerAfterTheTerminalOneIsRefused(t *testing.T) {
	for _, closed := range []bool{false, true} {
		t.Run(fmt.Sprintf("closed=%t", closed), func(t *testing.T) {
			r, c, answer := asked(t, ending(profile(echo)))
			answer(typePart)
			r.wantVerdict(t, 1, profiles.OK, "", endpoint.Kept)
			answer(typeAnswer)
			r.wantVerdict(t, 2, profiles.OK, "", endpoint.Kept)
			for range 2 {
				if _, err := c.Recv(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if closed {
				c.Close()
			}
			answer(typePart)
			r.wantVerdict(t, 3, profiles.InvalidProfilePayload, "after_end", endpoint.Kept)
			answer(typeAnswer)
			r.wantVerdict(t, 4, profiles.InvalidProfilePayload, "after_end", endpoint.Kept)
			if !closed {
				c.Close()
			}
		})
	}
}

// The peer has chosen the profile of the answer as it pleased: whoever waits reads that of the
// request.
func TestPR19AnAnswerOfAnotherProfileFailsItsCall(t *testing.T) {
	other := profile(echo)
	other.ID, other.Name = testProfile+1, "other"
	r, c, _ := askedBeside(t, ending(profile(echo)), ending(other))
	defer c.Close()
	env := request(string(c.MsgID()), "answer")
	env.ProfileID, env.MsgType = testProfile+1, typeAnswer
	r.send(t, env)
	r.wantVerdict(t, 1, profiles.InvalidProfilePayload, "after_end", endpoint.Kept)
	if _, err := c.Recv(t.Context()); !profiles.Misanswered(err) {
		t.Errorf("the call is answered: %v", err)
	}
}

func TestPR02AnswersToACallThatWasGivenUpMayComeUntilItsTerminalOne(t *testing.T) {
	r, c, answer := asked(t, ending(profile(echo)))
	answer(typePart)
	r.wantVerdict(t, 1, profiles.OK, "", endpoint.Kept)
	c.Close()
	answer(typePart)
	r.wantVerdict(t, 2, profiles.OK, "unsolicited", endpoint.Kept)
	answer(typeAnswer)
	r.wantVerdict(t, 3, profiles.OK, "unsolicited", endpoint.Kept)
	answer(typeAnswer)
	r.wantVerdict(t, 4, profiles.InvalidProfilePayload, "after_end", endpoint.Kept)
}

// A profile whose types say nothing of an end judges that itself.
func TestAnswersOfAProfileWithoutTerminalOnesAreCountedAndDropped(t *testing.T) {
	r, c, answer := asked(t, profile(echo))
	answer(typeAnswer)
	r.wantVerdict(t, 1, profiles.OK, "", endpoint.Kept)
	c.Close()
	answer(typeAnswer)
	r.wantVerdict(t, 2, profiles.OK, "unsolicited", endpoint.Kept)
}

// A peer that lets us give up calls without end makes us remember a bounded
// number of them.
func TestCallsThatWereGivenUpAreForgottenInTheEnd(t *testing.T) {
	r, c, answer := asked(t, ending(profile(echo)))
	c.Close()
	for range 4096 {
		c, err := r.sess.Call(t.Context(), e1.Envelope{ProfileID: testProfile, MsgType: typeRequest, Payload: []byte("x")})
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		r.recv(t)
	}
	answer(typePart)
	r.wantVerdict(t, 1, profiles.InvalidProfilePayload, "after_end", endpoint.Kept)
}

// Whoever closes a call early cannot know how much is on the way already: as much as fits
// into queues and sockets is not the fault of the peer.
func TestPR02AnswersOnTheWayWhenACallIsClosedAreNotCharged(t *testing.T) {
	const free, budget = 16 << 20, 3
	ep, rec := newEndpoint(t, endpoint.Options{Bounds: endpoint.Bounds{PaceBudget: budget}}, ending(profile(echo)))
	here, there := transport.Pipe()
	r := attach(t, ep, rec, here, there)
	c, err := r.sess.Call(t.Context(), e1.Envelope{ProfileID: testProfile, MsgType: typeRequest, Payload: []byte("x")})
	if err != nil {
		t.Fatal(err)
	}
	env := request(string(r.recv(t).MsgID), strings.Repeat("x", 64<<10))
	env.MsgType = typePart
	c.Close()
	n := 0
	for left := free - frameOf(&env); left >= 0; left -= frameOf(&env) {
		n++
		r.send(t, env)
		r.wantVerdict(t, n, profiles.OK, "unsolicited", endpoint.Kept)
	}
	for range budget {
		n++
		r.send(t, env)
		r.wantVerdict(t, n, profiles.OK, "unsolicited", endpoint.Kept)
	}
	r.send(t, env)
	r.wantVerdict(t, n+1, profiles.OK, "unsolicited", endpoint.Closed)
	r.wantEnd(t)
}

func frameOf(env *e1.Envelope) int { return frame.HeaderSize + env.Size() }

// Half an answer is no wrong answer: the connection is slow or lost, and whoever waits may
// ask again.
func TestAnAnswerThatStallsOrIsCutOffIsLostAndNotWrong(t *testing.T) {
	for name, then := range map[string]func(transport.Stream){
		"stalls":   func(transport.Stream) {},
		"is reset": func(s transport.Stream) { s.Reset(0) },
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, endpoint.Options{}, func(t *testing.T, r *rig) {
				failed := make(chan error, 1)
				go func() {
					c, err := r.sess.Call(t.Context(), e1.Envelope{ProfileID: testProfile, MsgType: typeRequest, Payload: []byte("x")})
					if err == nil {
						defer c.Close()
						_, err = c.Recv(t.Context())
					}
					failed <- err
				}()
				stream := r.raw
				if r.conn.Multiplexed() {
					var err error
					if stream, err = r.conn.Accept(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := frame.NewReader(stream, frame.Options{}).Next(); err != nil {
					t.Fatal(err)
				}
				if _, err := stream.Write([]byte{0, 0, 0, 100, 1}); err != nil {
					t.Fatal(err)
				}
				then(stream)
				if err := <-failed; err == nil || profiles.Misanswered(err) {
					t.Errorf("the call has failed with %v", err)
				}
			})
		})
	}
}
