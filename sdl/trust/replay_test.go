package trust

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// remember asks for one nonce and wants no error.
func remember(t testing.TB, m *Memory, agent, nonce string, exp time.Time) bool {
	t.Helper()
	fresh, err := m.Remember(t.Context(), agent, nonce, exp)
	if err != nil {
		t.Fatalf("%q %q: %v", agent, nonce, err)
	}
	return fresh
}

// Row 22 of the acceptance list: a repetition is seen, another nonce is not.
func TestMemoryKnowsWhatItWasTold(t *testing.T) {
	m := newMemory(MemoryOptions{})
	later := now.Add(time.Minute)
	for _, pair := range [][2]string{{"a", "n"}, {"a", "m"}, {"b", "n"}, {"a\nb", "c"}, {"a", "b\nc"}, {"", "an"}, {"an", ""}, {"a", strings.Repeat("n", 1<<20)}} {
		if !remember(t, m, pair[0], pair[1], later) {
			t.Errorf("%.20q %.20q is not fresh", pair[0], pair[1])
		}
		for range 2 {
			if remember(t, m, pair[0], pair[1], later.Add(time.Hour)) {
				t.Errorf("%.20q %.20q is fresh again", pair[0], pair[1])
			}
		}
	}
}

// Weakness 7 of §13: for how long depends on the nonce, not on the memory.
func TestMemoryHoldsANonceUntilItEndsAndNoLonger(t *testing.T) {
	at := now
	m := newMemory(MemoryOptions{Now: func() time.Time { return at }})
	// In an order that is not that of their ends.
	for _, minutes := range []int{5, 1, 9, 3, 7} {
		remember(t, m, "a", fmt.Sprint(minutes), now.Add(time.Duration(minutes)*time.Minute))
	}
	for minutes := range 11 {
		at = now.Add(time.Duration(minutes)*time.Minute - 1)
		for _, end := range []int{1, 3, 5, 7, 9} {
			if end >= minutes && remember(t, m, "a", fmt.Sprint(end), at.Add(time.Hour)) {
				t.Fatalf("the nonce of minute %d is forgotten before minute %d", end, minutes)
			}
		}
		at = now.Add(time.Duration(minutes) * time.Minute)
		remember(t, m, "b", "x", at) // over: nothing is taken down
		held := 0
		for _, end := range []int{1, 3, 5, 7, 9} {
			if end > minutes {
				held++
			}
		}
		if len(m.seen) != held || len(m.ends) != held {
			t.Errorf("minute %d: %d nonces are held, want %d", minutes, len(m.seen), held)
		}
	}
	if len(m.agents) != 0 {
		t.Errorf("%d agents are held", len(m.agents))
	}
}

func TestMemoryDoesNotTakeANonceThatIsOver(t *testing.T) {
	m := newMemory(MemoryOptions{})
	if remember(t, m, "a", "n", now) {
		t.Error("fresh")
	}
	if !remember(t, m, "a", "n", now.Add(1)) {
		t.Error("not fresh")
	}
}

// Row 22, and ABUSE PR-18: it refuses what is new rather than forget what is not over.
func TestPR18AFullMemoryRefusesWhatIsNew(t *testing.T) {
	at := now
	m := newMemory(MemoryOptions{Max: 3, PerAgent: 3, Now: func() time.Time { return at }})
	for i := range 3 {
		if !remember(t, m, "a", fmt.Sprint(i), now.Add(time.Duration(i+1)*time.Minute)) {
			t.Fatalf("nonce %d is not fresh", i)
		}
	}
	for _, agent := range []string{"a", "b"} {
		if fresh, err := m.Remember(t.Context(), agent, "3", now.Add(time.Hour)); fresh || !errors.Is(err, ErrFull) {
			t.Errorf("agent %s: got %v, %v", agent, fresh, err)
		}
	}
	for i := range 3 {
		if remember(t, m, "a", fmt.Sprint(i), now.Add(time.Hour)) {
			t.Errorf("nonce %d was forgotten", i)
		}
	}
	at = now.Add(time.Minute) // the first one is over
	if !remember(t, m, "b", "3", now.Add(time.Hour)) {
		t.Error("there is room, and it is not fresh")
	}
}

func TestPR18OneAgentDoesNotFillTheMemoryOfAll(t *testing.T) {
	m := newMemory(MemoryOptions{Max: 8}) // two for each
	later := now.Add(time.Minute)
	for i := range 2 {
		remember(t, m, "flood", fmt.Sprint(i), later)
	}
	if _, err := m.Remember(t.Context(), "flood", "2", later); !errors.Is(err, ErrFull) {
		t.Errorf("got %v", err)
	}
	if !remember(t, m, "other", "0", later) {
		t.Error("another agent is shut out")
	}
}

// Row 23 of the acceptance list.
func TestOfManyInsertsAtOnceExactlyOneIsNew(t *testing.T) {
	m := newMemory(MemoryOptions{})
	var fresh, failed int
	var mu sync.Mutex
	var all sync.WaitGroup
	start := make(chan struct{})
	for range 128 {
		all.Go(func() {
			<-start
			isFresh, err := m.Remember(context.Background(), gardener, "n", now.Add(time.Minute))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed++
			}
			if isFresh {
				fresh++
			}
		})
	}
	close(start)
	all.Wait()
	if fresh != 1 || failed != 0 {
		t.Errorf("%d are new and %d failed, want 1 and 0", fresh, failed)
	}
}

// The same for whole envelopes: 128 deliveries at once, one is admitted.
func TestOfManyDeliveriesAtOnceExactlyOneIsAdmitted(t *testing.T) {
	p, e := newPolicy(t), parse(t, secured(t, "n"))
	verdicts := make(map[string]int)
	var mu sync.Mutex
	var all sync.WaitGroup
	start := make(chan struct{})
	for range 128 {
		all.Go(func() {
			<-start
			_, refused := p.Admit(context.Background(), e, now)
			mu.Lock()
			defer mu.Unlock()
			verdicts[verdict(refused)]++
		})
	}
	close(start)
	all.Wait()
	if verdicts[""] != 1 || verdicts["BAD_REQUEST replay_detected"] != 127 {
		t.Errorf("got %v", verdicts)
	}
}

func TestPR18ExpiryIsHeldAgainstTheClockAndTheWindow(t *testing.T) {
	const expired = "BAD_REQUEST replay_expired"
	for name, test := range map[string]struct {
		replay Replay
		ahead  time.Duration // of exp
		want   string
	}{
		"in a second":                {Replay{}, time.Second, ""},
		"now":                        {Replay{}, 0, expired},
		"a second ago":               {Replay{}, -time.Second, expired},
		"at the end of the window":   {Replay{}, 10 * time.Minute, ""},
		"behind the window":          {Replay{}, 10*time.Minute + time.Second, "BAD_REQUEST"},
		"ten years ahead":            {Replay{}, 10 * 365 * 24 * time.Hour, "BAD_REQUEST"},
		"a window of an hour":        {Replay{Window: time.Hour}, time.Hour, ""},
		"behind a window of an hour": {Replay{Window: time.Hour}, time.Hour + time.Second, "BAD_REQUEST"},
		"within the skew":            {Replay{Skew: 5 * time.Second}, -4 * time.Second, ""},
		"at the end of the skew":     {Replay{Skew: 5 * time.Second}, -5 * time.Second, expired},
		"the window and the skew":    {Replay{Skew: 5 * time.Second}, 10*time.Minute + 5*time.Second, ""},
		"behind both":                {Replay{Skew: 5 * time.Second}, 10*time.Minute + 6*time.Second, "BAD_REQUEST"},
	} {
		replay := test.replay
		replay.Nonces = newMemory(MemoryOptions{})
		e := parse(t, once(letter(t), "n", now.Add(test.ahead)))
		if got := verdict(replay.Check(t.Context(), e, now)); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
		if test.want != "" {
			continue
		}
		if got := verdict(replay.Check(t.Context(), e, now)); got != "BAD_REQUEST replay_detected" {
			t.Errorf("%s, again: got %q", name, got)
		}
	}
	if got := verdict((&Replay{}).Check(t.Context(), parse(t, letter(t)), now)); got != "BAD_REQUEST" {
		t.Errorf("no sec.replay: got %q", got)
	}
}

// A message that passes because of the skew is remembered as long as it would pass.
func TestReplayIsRememberedThroughTheSkew(t *testing.T) {
	at := now
	replay := &Replay{Nonces: newMemory(MemoryOptions{Now: func() time.Time { return at }}), Skew: 5 * time.Second}
	e := parse(t, once(letter(t), "n", now.Add(time.Second)))
	for i, want := range []string{"", "BAD_REQUEST replay_detected", "BAD_REQUEST replay_detected", "BAD_REQUEST replay_detected", "BAD_REQUEST replay_detected", "BAD_REQUEST replay_detected", "BAD_REQUEST replay_expired"} {
		at = now.Add(time.Duration(i) * time.Second)
		if got := verdict(replay.Check(t.Context(), e, at)); got != want {
			t.Errorf("after %d s: got %q, want %q", i, got, want)
		}
	}
}

func TestPR18AMissingReplayBlockIsRefusedWhereItIsDemanded(t *testing.T) {
	p := newPolicy(t)
	envelope := sign(t, encrypt(t, letter(t)), kidA)
	wantVerdict(t, p, envelope, insecure)
	p.RequireReplay = false
	wantVerdict(t, p, envelope, "")
	p.Replay = nil
	wantVerdict(t, p, secured(t, "n"), "")
	wantVerdict(t, p, secured(t, "n"), "")
}

func BenchmarkRemember(b *testing.B) {
	at := now
	m := newMemory(MemoryOptions{Now: func() time.Time { return at }})
	nonces := make([]string, 4096)
	for i := range nonces {
		nonces[i] = fmt.Sprint("nonce ", i)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		at = at.Add(time.Second)
		if fresh, err := m.Remember(b.Context(), gardener, nonces[i%len(nonces)], at.Add(10*time.Minute)); !fresh || err != nil {
			b.Fatal(fresh, err)
		}
		i++
	}
}
