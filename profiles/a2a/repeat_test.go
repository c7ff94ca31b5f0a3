package a2a_test

import (
	"errors"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/profiletest"
	"github.com/slimwire/swp/transport"
)

// knowing is a session that remembers what its peer serves.
type knowing struct {
	*profiletest.Session
	known profiles.Known
}

func (k *knowing) Known() *profiles.Known { return &k.known }

// resumption is what a peer serves that heeds extension 20.
var resumption = profiles.Offer{Extensions: map[uint64][]uint64{a2a.ProfileID: {a2a.ExtResume}}}

// sendQuietly sends a task to an executor that says nothing for a time, and returns when
// the Task came.
func sendQuietly(t *testing.T, known profiles.Offer, quiet time.Duration) (p *peer, d *a2a.Delivery, came []time.Duration) {
	t.Helper()
	s := service(t, a2a.Options{})
	p = script(t, s, bob)
	session := &knowing{Session: p.service}
	profiles.Learn(session, known)
	began := time.Now()
	d, err := s.Send(t.Context(), session, &a2a.Task{ID: []byte("one"), Kind: "k"}, a2a.SendOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	for end := time.After(quiet); ; {
		select {
		case m := <-p.got:
			if m.Type != a2a.TypeTask || m.ID != "one" {
				t.Fatalf("message %+v", m)
			}
			came = append(came, time.Since(began).Round(time.Second))
		case <-end:
			return p, d, came
		}
	}
}

func TestATaskIsNotSentAgainToAnExecutorThatMayCarryItOutAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, d, came := sendQuietly(t, profiles.Offer{Profiles: []uint64{a2a.ProfileID}}, time.Hour)
		if !slices.Equal(came, []time.Duration{0}) {
			t.Errorf("the Task came after %v", came)
		}
		p.send(event("one", "at last"))
		p.send(good("one", "out"))
		if e, err := d.Recv(t.Context()); err != nil || e.Message != "at last" {
			t.Errorf("%+v, %v", e, err)
		}
		if _, err := d.Recv(t.Context()); !errors.Is(err, io.EOF) || string(d.Result().Output) != "out" {
			t.Errorf("it ended with %v", err)
		}
	})
}

func TestATaskIsSentAgainToAQuietExecutorThatResumesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, came := sendQuietly(t, resumption, time.Minute)
		want := []time.Duration{0, 3 * time.Second, 9 * time.Second, 21 * time.Second, 45 * time.Second}
		if !slices.Equal(came, want) {
			t.Errorf("the Task came after %v, want %v", came, want)
		}
	})
}

// Numbers are of use only to ask for what is missing.
func TestAnExecutorThatNumbersItsEventsIsAskedForThoseThatAreMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, d, _ := sendQuietly(t, profiles.Offer{}, time.Minute)
		p.send(event("one", "first"), number(a2a.ExtSequence, 1))
		p.send(event("one", "third"), number(a2a.ExtSequence, 3))
		if e, err := d.Recv(t.Context()); err != nil || e.Message != "first" {
			t.Errorf("%+v, %v", e, err)
		}
		m := <-p.got
		if after, ok := m.Ext.LookupUvarint(a2a.ExtResume); m.Type != a2a.TypeTask || !ok || after != 1 {
			t.Errorf("%+v, want the Task with the number 1 in extension 20", m)
		}
	})
}

func TestAnAgentThatNamesItsProcessIsKnownToResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, worker := service(t, a2a.Options{}), service(t, a2a.Options{})
		near, far := transport.NewPipe(transport.PipeOptions{A: alice, B: bob})
		theirs := newEndpoint(t, s).Attach(far)
		if profiles.Heeds(theirs, a2a.ProfileID, a2a.ExtResume) {
			t.Error("it is known before it was said")
		}
		if err := worker.Declare(t.Context(), newEndpoint(t, worker).Attach(near), "builder", []string{"k"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !profiles.Heeds(theirs, a2a.ProfileID, a2a.ExtResume) {
			t.Error("it is not known")
		}
	})
}
