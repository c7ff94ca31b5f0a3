package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/state"
)

// changing has clients put, get and forget the same few states at once. Each
// state has to look as if it had been asked of one client after the other: ST-09.
type changing struct {
	*faults
	clients int

	mu      sync.Mutex
	began   time.Time
	history map[uint64][]porcupine.Operation // by the number of the state
	unknown int
	total   int
}

// contended is how long clients are busy with one state, and few how many of them
// there are at once.
const (
	contended = 40 * time.Millisecond
	few       = 3
)

// maxHistory bounds what is done to one state, so that it can be searched for an
// order.
const maxHistory = 60

func newChanging(f *faults, clients int) *changing {
	return &changing{faults: f, clients: clients, began: time.Now(), history: make(map[uint64][]porcupine.Operation)}
}

func (w *changing) String() string {
	return fmt.Sprintf("%d states changed and looked at %d times, %d times with an unknown end", len(w.history), w.total, w.unknown)
}

// change is something that is done to a state.
type change struct {
	do       string
	metadata string // what makes two states of an id differ
}

// What is done to a state. How it ends is "ok" or "conflict", for a get the
// metadata or empty; unknownEnd if nobody was told.
const (
	doPut    = "put"
	doGet    = "get"
	doForget = "forget"

	endConflict = "conflict"
	unknownEnd  = "unknown"
)

// stateModel is one state of one owner: its metadata, empty if it is not there.
// What ended unknown may have happened at any time since, or never.
var stateModel = porcupine.Model{
	Init: func() any { return "" },
	Step: func(s, in, out any) (bool, any) {
		now, c, end := s.(string), in.(change), out.(string)
		switch c.do {
		case doPut:
			switch {
			case now == "" && end != endConflict:
				return true, c.metadata
			case now == "" || end == unknownEnd:
				return end == unknownEnd, now
			}
			return (now == c.metadata) == (end == endOK), now
		case doForget:
			return true, ""
		}
		return now == end, now
	},
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%v → %v", in, out) },
}

func (w *changing) run(ctx, _ context.Context, dial dialer) {
	var all sync.WaitGroup
	for i := range w.clients {
		luck := chances(fmt.Sprint("changing", i))
		all.Go(func() {
			_ = connected(ctx, dial, func(ctx context.Context, c *client.Client) error {
				for {
					if err := w.one(ctx, c, luck); err != nil {
						return err
					}
				}
			})
		})
	}
	all.Wait()
}

// one does something to one of the states of now, and notes it.
func (w *changing) one(ctx context.Context, c *client.Client, luck *rand.Rand) error {
	n := uint64(time.Since(w.began)/contended)*few + luck.Uint64N(few)
	do := change{metadata: []string{"p", "p", "q"}[luck.IntN(3)]}
	switch luck.IntN(5) {
	case 0:
		do = change{do: doForget}
	case 1, 2:
		do = change{do: doGet}
	default:
		do.do = doPut
	}
	w.mu.Lock()
	full := len(w.history[n]) >= maxHistory
	w.mu.Unlock()
	if full {
		wait(ctx, time.Millisecond)
		return ctx.Err()
	}
	return w.do(ctx, c, n, do)
}

func (w *changing) do(ctx context.Context, c *client.Client, n uint64, do change) error {
	op := porcupine.Operation{Input: do, Call: clock()}
	end, err := apply(ctx, c, n, do)
	op.Output, op.Return = end, clock()
	if end == unknownEnd {
		op.Return = forever
		if do.do == doGet {
			return err // which nothing follows from
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.total++
	if end == unknownEnd {
		w.unknown++
	}
	w.history[n] = append(w.history[n], op)
	return err
}

// apply does something to a state, and says how that ended. The error says that
// the connection is of no more use.
func apply(ctx context.Context, c *client.Client, n uint64, do change) (end string, err error) {
	blob := fmt.Appendf(nil, "state %d, which many want", n)
	id := state.IDOf(blob)
	end = endOK
	switch do.do {
	case doPut:
		_, err = c.PutStates(ctx, state.State{Blob: blob, Metadata: []byte(do.metadata)})
	case doForget:
		_, err = c.ForgetState(ctx, id)
	default:
		var s *state.State
		if s, err = c.GetState(ctx, id); err == nil {
			end = string(s.Metadata)
		}
	}
	refused := (*profiles.PeerError)(nil)
	switch {
	case err == nil:
		return end, nil
	case errors.As(err, &refused) && refused.Code == state.CodeConflict:
		return endConflict, nil
	case errors.As(err, &refused) && refused.Code == state.CodeNotFound:
		return "", nil
	}
	return unknownEnd, err
}

// check looks at each state a last time, and searches for an order of what was
// done to it.
func (w *changing) check(ctx context.Context, dial dialer) {
	err := connected(ctx, dial, func(ctx context.Context, c *client.Client) error {
		for n := range w.history {
			if err := w.do(ctx, c, n, change{do: doGet}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		w.add("the states that many want cannot be looked at: %v", err)
	}
	for n, ops := range w.history {
		if result := porcupine.CheckOperationsTimeout(stateModel, ops, patience); result != porcupine.Ok {
			w.add("state %d that many want: %s: there is no order in which this can have happened: %s", n, result, described(stateModel, ops))
		}
	}
}

// The model that the crash tests rest on refuses what must not be.
func TestTheModelOfAStateFindsWhatIsWrong(t *testing.T) {
	at := func(call int64, do, metadata, end string) porcupine.Operation {
		op := porcupine.Operation{Input: change{do, metadata}, Output: end, Call: call, Return: call + 1}
		if end == unknownEnd {
			op.Return = forever
		}
		return op
	}
	put := func(call int64, metadata, end string) porcupine.Operation { return at(call, doPut, metadata, end) }
	get := func(call int64, end string) porcupine.Operation { return at(call, doGet, "", end) }
	forget := func(call int64, end string) porcupine.Operation { return at(call, doForget, "", end) }
	for name, test := range map[string]struct {
		history []porcupine.Operation
		want    porcupine.CheckResult
	}{
		"put, got, put again":    {[]porcupine.Operation{put(0, "p", endOK), get(2, "p"), put(4, "p", endOK), put(6, "q", endConflict)}, porcupine.Ok},
		"lost":                   {[]porcupine.Operation{put(0, "p", endOK), get(2, "")}, porcupine.Illegal},
		"another":                {[]porcupine.Operation{put(0, "p", endOK), get(2, "q")}, porcupine.Illegal},
		"replaced":               {[]porcupine.Operation{put(0, "p", endOK), put(2, "q", endOK)}, porcupine.Illegal},
		"clash with nothing":     {[]porcupine.Operation{put(0, "p", endConflict)}, porcupine.Illegal},
		"clash with itself":      {[]porcupine.Operation{put(0, "p", endOK), put(2, "p", endConflict)}, porcupine.Illegal},
		"forgotten":              {[]porcupine.Operation{put(0, "p", endOK), forget(2, endOK), get(4, ""), put(6, "q", endOK)}, porcupine.Ok},
		"not forgotten":          {[]porcupine.Operation{put(0, "p", endOK), forget(2, endOK), get(4, "p")}, porcupine.Illegal},
		"put, or not":            {[]porcupine.Operation{put(0, "p", unknownEnd), get(2, ""), get(4, "p")}, porcupine.Ok},
		"put, and taken back":    {[]porcupine.Operation{put(0, "p", unknownEnd), get(2, "p"), get(4, "")}, porcupine.Illegal},
		"forgotten, or not":      {[]porcupine.Operation{put(0, "p", endOK), forget(2, unknownEnd), get(4, "p"), get(6, "")}, porcupine.Ok},
		"forgotten, and back":    {[]porcupine.Operation{put(0, "p", endOK), forget(2, unknownEnd), get(4, ""), get(6, "p")}, porcupine.Illegal},
		"never put, never there": {[]porcupine.Operation{get(0, "p")}, porcupine.Illegal},
	} {
		if got := porcupine.CheckOperationsTimeout(stateModel, test.history, patience); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
