package memory_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/internal/memory"
)

const (
	mib  = 1 << 20
	slow = 800_000 // octets in a second
)

// reader is a peer whose message is read while it has a Room.
type reader struct {
	room  memory.Room
	woken chan struct{}
	once  sync.Once
}

func newReader() *reader { return &reader{woken: make(chan struct{})} }

func (r *reader) SetReadDeadline(time.Time) error {
	r.once.Do(func() { close(r.woken) })
	return nil
}

// read takes a Room for a message and reads it at a pace; at a pace of 0 nothing arrives. It returns
// false if the message was given up, or got no Room within a minute.
func (r *reader) read(ctx context.Context, s *memory.Share, size, pace int) bool {
	if err := r.room.Take(ctx, s, size, size, memory.Wait{Most: time.Minute, Reader: r}); err != nil {
		return false
	}
	defer r.room.Give()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for left := size; left > 0; {
		select {
		case <-tick.C:
			if pace > 0 {
				left = max(0, left-pace/10)
				r.room.Progress(left)
			}
		case <-r.woken:
			if r.room.Yielded() {
				return false
			}
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// Growth by halves would let no message of 64 complete: each would have half of its room.
func TestRS36MessagesInStepAllComplete(t *testing.T) {
	for _, identities := range []int{1, 2, 64} {
		t.Run(fmt.Sprint(identities), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := memory.New(256 * mib)
				var all sync.WaitGroup
				began := time.Now()
				for i := range 64 {
					s := b.Share(fmt.Sprint(i % identities))
					all.Go(func() {
						defer s.Close()
						if !newReader().read(t.Context(), s, 8*mib, slow) {
							t.Errorf("message %d was given up after %v", i, time.Since(began))
						}
					})
				}
				all.Wait()
				if used := b.Used(); used != 0 {
					t.Errorf("%d octets are in use", used)
				}
			})
		})
	}
}

// Peers of two identities announce and send nothing, and others send slowly: a stranger is served.
func TestRS36AStrangerIsServedBesideStalledMessages(t *testing.T) {
	for name, pace := range map[string]int{"nothing arrives": 0, "at the slowest pace": 64 << 10} {
		for _, identities := range []int{1, 2, 3, 7} {
			t.Run(fmt.Sprintf("%s, %d identities", name, identities), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := memory.New(256 * mib)
					ctx, cancel := context.WithCancel(t.Context())
					var all sync.WaitGroup
					for i := range 64 {
						s := b.Share(fmt.Sprint(i % identities))
						all.Go(func() {
							for newReader().read(ctx, s, 8*mib, pace) || ctx.Err() == nil { // and begins again
							}
						})
					}
					synctest.Wait()
					for range 7 {
						began := time.Now()
						if !newReader().read(t.Context(), b.Share("stranger"), 4*mib, 100*slow) {
							t.Error("the stranger was not served")
						}
						if took := time.Since(began); took > 8*time.Second {
							t.Errorf("the stranger was served after %v", took)
						}
						time.Sleep(3 * time.Second)
					}
					cancel()
					all.Wait()
				})
			})
		}
	}
}

// A message that keeps a fair pace, and one of an identity that has no more than others, stay.
func TestRS36MessagesThatArriveAreNotTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(64 * mib)
		var all sync.WaitGroup
		for i := range 12 {
			all.Go(func() {
				if !newReader().read(t.Context(), b.Share(fmt.Sprint(i)), 8*mib, 512<<10) {
					t.Errorf("message %d was given up", i)
				}
			})
		}
		all.Wait()
	})
}

// A Room that has stalled is not taken back as long as nobody wants it.
func TestRS36NothingIsTakenBackWithoutNeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(64 * mib)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r := newReader()
		if r.read(ctx, b.Share("a"), 8*mib, 0) || r.room.Yielded() || ctx.Err() == nil {
			t.Error("the Room was taken back")
		}
	})
}

func TestRS36TheFirstIsNotPassedByThoseThatNeedLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(64 * mib)
		var held [6]memory.Room
		for i := range held {
			if err := held[i].Take(t.Context(), b.Share("a"), 8*mib, 0, memory.Wait{}); err != nil {
				t.Fatal(err)
			}
		}
		order := make(chan string, 2)
		take := func(who string, n int) {
			var r memory.Room
			if err := r.Take(t.Context(), b.Share(who), n, 0, memory.Wait{Most: time.Hour}); err != nil {
				t.Error(err)
			}
			order <- who
		}
		go take("large", 16*mib)
		synctest.Wait()
		go take("small", 5*mib)
		synctest.Wait()
		held[0].Give() // room for the small one alone
		synctest.Wait()
		if len(order) != 0 {
			t.Fatalf("%s was served first", <-order)
		}
		held[1].Give()
		synctest.Wait()
		if len(order) != 1 || <-order != "large" {
			t.Error("the large one was not served first")
		}
		held[2].Give()
	})
}

// Messages that are read no more, such as those of a long call, do not hold up those that fit.
func TestRS36WhoWaitsForOtherOctetsIsPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(64 * mib)
		var r memory.Room
		if err := r.Take(t.Context(), b.Share("a"), 40*mib, 0, memory.Wait{}); err != nil {
			t.Fatal(err)
		}
		kept := r.Keep()
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			var r memory.Room
			if err := r.Take(ctx, b.Share("b"), 16*mib, 0, memory.Wait{Most: time.Hour}); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}()
		synctest.Wait()
		if err := r.Take(t.Context(), b.Share("c"), 4*mib, 0, memory.Wait{}); err != nil {
			t.Error(err)
		}
		cancel()
		synctest.Wait()
		r.Give()
		b.Share("a").Give(kept, memory.Large)
		if b.Used() != 0 {
			t.Error("octets are in use")
		}
	})
}

func TestRS36WhoWaitsNoticesThatItsPeerIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(8 * mib)
		var held, r memory.Room
		if err := held.Take(t.Context(), b.Share("a"), 7*mib, 0, memory.Wait{}); err != nil {
			t.Fatal(err)
		}
		gone := errors.New("gone")
		began := time.Now()
		err := r.Take(t.Context(), b.Share("b"), 7*mib, 0, memory.Wait{Most: time.Hour, Gone: func() error {
			if time.Since(began) >= 2*time.Second {
				return gone
			}
			return nil
		}})
		if took := time.Since(began); err != gone || took > 3*time.Second {
			t.Errorf("%v after %v", err, took)
		}
		if err := r.Take(t.Context(), b.Share("b"), 7*mib, 0, memory.Wait{Most: 3 * time.Second}); !errors.Is(err, memory.ErrFull) {
			t.Error(err)
		}
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("the wait ended after %v", took)
		}
	})
}

func TestRS36ARoomThatTheBudgetNeverHasIsRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(8 * mib)
		s := b.Share("a")
		var r memory.Room
		began := time.Now()
		if err := r.Take(t.Context(), s, 7*mib+1, 0, memory.Wait{Most: time.Hour}); !errors.Is(err, memory.ErrFull) || time.Since(began) > 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if err := r.Take(t.Context(), s, 7*mib, 0, memory.Wait{}); err != nil {
			t.Error(err)
		}
		r.Give()
	})
}

// First octets of messages never take the place of a Room.
func TestRS36FirstOctetsLeaveRoom(t *testing.T) {
	b := memory.New(64 * mib)
	for i := range 50 {
		fill(b.Share(fmt.Sprint(i)), 64<<10, memory.Opening)
	}
	if used := b.Used(); used > 16*mib || used < 15*mib {
		t.Errorf("%d octets, want a quarter of the budget", used)
	}
	var r memory.Room
	if err := r.Take(t.Context(), b.Share("0"), 40*mib, 0, memory.Wait{}); err != nil {
		t.Error(err)
	}
}

// Answers have an eighth of the budget that messages do not take, however those are held.
func TestRS36AnswersHaveRoomBesideMessages(t *testing.T) {
	for _, identities := range []int{1, 3, 20} {
		b := memory.New(256 * mib)
		for i := range 100 {
			var r memory.Room
			if r.Take(t.Context(), b.Share(fmt.Sprint(i%identities)), 8*mib, 0, memory.Wait{}) == nil {
				r.Keep()
			}
		}
		if !b.Share("0").Try(8*mib, memory.Large) {
			t.Errorf("%d identities: no room for an answer beside %d octets", identities, b.Used())
		}
	}
}

// Messages of unknown length grow. Of those that find no room one waits, and gets it.
func TestRS36MessagesOfUnknownLengthAllEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(64 * mib)
		var all sync.WaitGroup
		var mu sync.Mutex
		served := 0
		for i := range 40 {
			all.Go(func() {
				h := b.Hold(fmt.Sprint(i))
				defer h.Release()
				if octets, err := h.ReadAll(t.Context(), memory.Body{Reader: &paced{left: 8 * mib}, Announced: -1}); err == nil && len(octets) == 8*mib {
					mu.Lock()
					served++
					mu.Unlock()
				}
			})
		}
		began := time.Now()
		all.Wait()
		if served == 0 || time.Since(began) > 30*time.Second || b.Used() != 0 {
			t.Errorf("%d of 40 were served in %v, and %d octets are in use", served, time.Since(began), b.Used())
		}
	})
}

// Bodies of announced length wait for their room, and the time does not count.
func TestRS36BodiesInStepAllCompleteOrAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(64 * mib)
		var all sync.WaitGroup
		var mu sync.Mutex
		served := 0
		var waited atomic.Int32
		for i := range 12 {
			all.Go(func() {
				h := b.Hold(fmt.Sprint(i))
				defer h.Release()
				_, err := h.ReadAll(t.Context(), memory.Body{
					Reader: &paced{left: 8*mib - 1}, Announced: 8*mib - 1, Wait: time.Minute,
					Waited: func(time.Duration) { waited.Add(1) },
				})
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					served++
				}
			})
		}
		all.Wait()
		if served != 12 || waited.Load() == 0 {
			t.Errorf("%d of 12 were served, %d after a wait", served, waited.Load())
		}
	})
}

// paced is a source with a pace.
type paced struct{ left int }

func (p *paced) Read(b []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	time.Sleep(10 * time.Millisecond)
	n := min(len(b), p.left, slow/100)
	p.left -= n
	return n, nil
}

// However many requests are kept, by however many identities, an answer to a call of up to a sixteenth
// of the budget has its Room, and after it an answer that is written.
func TestRS36AnswersThatArriveHaveRoomBesideRequests(t *testing.T) {
	for _, identities := range []int{1, 3, 20} {
		for _, over := range []int{0, 1} {
			b := memory.New(256 * mib)
			for i := range 1000 {
				var r memory.Room
				if r.Take(t.Context(), b.Share(fmt.Sprint(i%identities)), mib, 0, memory.Wait{}) == nil {
					r.Keep()
				}
			}
			most := b.Limit()/8*7 - b.Used()
			if most < 16*mib {
				t.Fatalf("%d identities: requests have taken %d octets of %d", identities, b.Used(), b.Limit())
			}
			var r memory.Room
			err := r.Take(t.Context(), b.Share("0"), most+over, 0, memory.Wait{Answer: true})
			if want := []error{nil, memory.ErrFull}[over]; !errors.Is(err, want) {
				t.Errorf("%d identities: an answer of %d octets beside %d: %v, want %v", identities, most+over, b.Used(), err, want)
			}
			if over == 0 && !b.Share("stranger").Try(16*mib, memory.Large) {
				t.Errorf("%d identities: no room for an answer that is written", identities)
			}
			if r.Give(); r.Octets() != 0 {
				t.Errorf("%d octets after the end", r.Octets())
			}
		}
	}
}

// Requests that wait for a Room wait for requests that are kept. An answer to a kept request passes
// the requests that wait.
func TestRS36AnAnswerPassesRequestsThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(64 * mib)
		var kept []*memory.Share
		for i := 0; ; i++ {
			s := b.Share(fmt.Sprint("kept", i))
			var r memory.Room
			if r.Take(t.Context(), s, 4*mib, 0, memory.Wait{}) != nil {
				break
			}
			r.Keep()
			kept = append(kept, s)
		}
		var order []string
		var mu sync.Mutex
		var all sync.WaitGroup
		read := func(name, identity string, w memory.Wait) {
			w.Most = time.Hour
			all.Go(func() {
				var r memory.Room
				if err := r.Take(t.Context(), b.Share(identity), 4*mib, 0, w); err != nil {
					t.Error(name, err)
				}
				mu.Lock()
				order = append(order, name)
				mu.Unlock()
				time.Sleep(time.Second)
				r.Give()
			})
			synctest.Wait()
		}
		read("request", "partner", memory.Wait{})
		read("request", "stranger", memory.Wait{})
		read("first answer", "partner", memory.Wait{Answer: true})
		read("second answer", "partner", memory.Wait{Answer: true})
		time.Sleep(2500 * time.Millisecond)
		mu.Lock()
		if want := []string{"first answer", "second answer"}; !slices.Equal(order, want) {
			t.Errorf("while requests are kept these have room: %q, want %q", order, want)
		}
		mu.Unlock()
		for _, s := range kept {
			s.Give(4*mib, memory.Large)
		}
		all.Wait()
		if used := b.Used(); used != 0 {
			t.Errorf("%d octets are in use", used)
		}
	})
}
