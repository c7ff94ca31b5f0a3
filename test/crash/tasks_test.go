package crash

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/store/sqlstore"
)

// The kind of the tasks, and how many Events its worker sends.
const (
	kind  = "crash.work"
	steps = 10
)

// tasks has initiators hand tasks to an agent through swpd. Initiators and the
// agent live on; swpd between them does not.
type tasks struct {
	*faults
	initiators int

	mu   sync.Mutex
	runs map[string]int // by input
	seen map[string]int // by input, while it is followed: the last Event of the worker

	done, resumed atomic.Int64
}

func newTasks(f *faults, initiators int) *tasks {
	return &tasks{faults: f, initiators: initiators, runs: make(map[string]int), seen: make(map[string]int)}
}

func (w *tasks) String() string {
	return fmt.Sprintf("%d tasks done, sent again %d times", w.done.Load(), w.resumed.Load())
}

// Run carries out one task and counts that it did.
func (w *tasks) Run(ctx context.Context, t *a2a.Task, event func(string, []byte) error) ([]byte, error) {
	w.mu.Lock()
	w.runs[string(t.Input)]++
	w.mu.Unlock()
	for i := range steps {
		if err := event("", fmt.Append(nil, i+1)); err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(2 * time.Millisecond): // work that takes a while
		}
	}
	sum := sha256.Sum256(t.Input)
	return sum[:], nil
}

// agent is where the tasks are carried out: one process that lives on, whatever
// becomes of its connections.
func (w *tasks) agent(ctx context.Context, dial dialer, here func()) {
	state, err := sqlstore.Open(ctx, sqlstore.Options{})
	if err != nil {
		w.add("store of the agent: %v", err)
		return
	}
	defer func() { _ = state.Close() }()
	connect := func(ctx context.Context, set *all.Set) (*client.Client, error) {
		for {
			c, err := dial(ctx, set)
			if err == nil || ctx.Err() != nil {
				return c, err
			}
			wait(ctx, 5*time.Millisecond) // another process is awaited
		}
	}
	declared := false
	for ctx.Err() == nil && !declared { // without a first connection Work ends
		err = client.Work(ctx, connect, client.WorkOptions{
			Agent: "crash", Store: state,
			Registration: a2a.Registration{Kinds: []string{kind}, Worker: w, Tasks: 64},
			Connected:    func(*client.Client) { declared = true; here() },
			Report:       func(err error) { w.add("agent: %v", err) },
		})
	}
	if err != nil && (ctx.Err() == nil || !declared) {
		w.add("agent: %v", err)
	}
}

func (w *tasks) run(ctx, life context.Context, dial dialer) {
	working, end := context.WithCancel(life)
	var agent, initiators sync.WaitGroup
	here := make(chan struct{}) // closed once the agent has declared itself
	agent.Go(func() { w.agent(working, dial, sync.OnceFunc(func() { close(here) })) })
	defer agent.Wait()
	defer end()
	select {
	case <-here:
	case <-life.Done():
	}
	for i := range w.initiators {
		initiators.Go(func() {
			for n := 0; n == 0 || ctx.Err() == nil; n++ { // one at least, however slow the machine is
				w.hand(life, dial, fmt.Sprintf("initiator %d task %d", i, n))
			}
		})
	}
	initiators.Wait()
}

// hand hands over one task and follows it to its Result, over as many
// connections as it takes.
func (w *tasks) hand(ctx context.Context, dial dialer, input string) {
	t := &a2a.Task{ID: profiles.NewMsgID(), Kind: kind, Input: []byte(input)}
	last, tries := uint64(0), 0
	_ = connected(ctx, dial, func(ctx context.Context, c *client.Client) error {
		if tries++; tries > 1 {
			w.resumed.Add(1)
		}
		d, err := c.A2A().Send(ctx, c.Session, t, a2a.SendOptions{Resume: tries > 1, After: last})
		if err != nil {
			return err
		}
		defer d.Close()
		for {
			e, err := d.Recv(ctx)
			if errors.Is(err, io.EOF) {
				w.result(input, last, d.Result())
				return nil
			}
			if err != nil {
				return err
			}
			if e.Seq != last+1 || e.FirstHeld != 0 {
				w.add("%s: Event %d after %d (first held %d)", input, e.Seq, last, e.FirstHeld)
			}
			last = e.Seq
			w.event(input, e)
		}
	})
}

// event holds an Event to what the worker said: its own come in order, each
// once, beside what swpd and the agent say themselves.
func (w *tasks) event(input string, e *a2a.Event) {
	if len(e.Payload) == 0 {
		return // accepted
	}
	n, err := strconv.Atoi(string(e.Payload))
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil || n != w.seen[input]+1 {
		w.add("%s: %q after %d", input, e.Payload, w.seen[input])
	}
	w.seen[input] = n
}

func (w *tasks) result(input string, last uint64, r *a2a.Result) {
	w.done.Add(1)
	sum := sha256.Sum256([]byte(input))
	if !r.OK || !bytes.Equal(r.Output, sum[:]) {
		w.add("%s: ended with %v %q %x", input, r.OK, r.Reason, r.Output)
	}
	if r.Last != last {
		w.add("%s: the last Event was %d, and the Result says %d", input, last, r.Last)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen[input] != steps {
		w.add("%s: %d Events of the worker, want %d", input, w.seen[input], steps)
	}
	delete(w.seen, input)
	if w.runs[input] != 1 {
		w.add("%s: carried out %d times", input, w.runs[input])
	}
}

// check has nothing left to finish: an initiator follows its task to the end.
func (w *tasks) check(context.Context, dialer) {
	if done := int(w.done.Load()); done < w.initiators {
		w.add("%d tasks done, want one of each of %d initiators at least", done, w.initiators)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for input, n := range w.runs {
		if n != 1 {
			w.add("%s: carried out %d times", input, n)
		}
	}
}
