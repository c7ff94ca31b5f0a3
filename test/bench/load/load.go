// Package load measures an echo in a closed loop: a number of connections with a number of
// exchanges in flight each, a warm-up, and a window of time. Each answer is compared with
// its request.
package load

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/test/bench/echo"
)

// Spec says what to drive. All fields are required.
type Spec struct {
	Payload  int           `json:"payload"`   // octets, at least 8
	InFlight int           `json:"in_flight"` // exchanges at once on each connection
	Conns    int           `json:"conns"`
	Warmup   time.Duration `json:"warmup"`
	Duration time.Duration `json:"duration"` // of the measured window, repeated until an exchange has ended in it
}

// Result is what one window has shown.
type Result struct {
	Exchanges int64         `json:"exchanges"`
	Elapsed   time.Duration `json:"elapsed"`

	// P50 and P99 are percentiles of the duration of exchanges. They are measured only with
	// one exchange in flight per connection, otherwise zero: two readings of the clock
	// would add noticeably to the cost of an exchange.
	P50 time.Duration `json:"p50,omitempty"`
	P99 time.Duration `json:"p99,omitempty"`

	// Total counts the exchanges before and after the window too.
	Total int64 `json:"total"`
}

// PerSecond is the rate of exchanges.
func (r Result) PerSecond() float64 { return float64(r.Exchanges) / r.Elapsed.Seconds() }

// patience is how much longer than its window a measurement may take before it
// is given up.
const patience = 30 * time.Second

// Run opens the connections, drives them and closes them.
func Run(ctx context.Context, dial func(context.Context) (echo.Conn, error), spec Spec) (Result, error) {
	if spec.Payload < 8 || spec.InFlight < 1 || spec.Conns < 1 || spec.Duration <= 0 {
		return Result{}, fmt.Errorf("load: not a load: %+v", spec)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, spec.Warmup+spec.Duration+patience,
		errors.New("load: answers are missing"))
	defer cancel()

	g := group{failed: make(chan struct{})}
	defer g.close()
	for range spec.Conns {
		conn, err := dial(ctx)
		if err != nil {
			return Result{}, err
		}
		g.conns = append(g.conns, conn)
	}
	for i, conn := range g.conns {
		for j := range spec.InFlight {
			w := &worker{group: &g, caller: conn.Caller(), payload: pattern(spec.Payload, i, j)}
			w.clocked, w.use = spec.InFlight == 1, w.check
			g.workers = append(g.workers, w)
		}
	}
	for _, w := range g.workers {
		g.running.Go(w.loop)
	}
	return g.measure(ctx, spec)
}

// group is everything that runs at once.
type group struct {
	conns   []echo.Conn
	workers []*worker
	running sync.WaitGroup

	timed atomic.Bool // latencies count
	stop  atomic.Bool

	once   sync.Once
	failed chan struct{} // closed at the first error
	err    error
}

func (g *group) measure(ctx context.Context, spec Spec) (Result, error) {
	if err := g.wait(ctx, spec.Warmup); err != nil {
		return Result{}, err
	}
	g.timed.Store(true)
	began, before := time.Now(), g.count()
	err := g.wait(ctx, spec.Duration)
	for err == nil && g.count() == before {
		err = g.wait(ctx, spec.Duration) // too short a window for this machine
	}
	elapsed, after := time.Since(began), g.count()
	g.stop.Store(true)
	if err != nil {
		return Result{}, err
	}
	done := make(chan struct{})
	go func() { g.running.Wait(); close(done) }()
	select {
	case <-done: // every request that was sent has been answered
	case <-ctx.Done():
		return Result{}, context.Cause(ctx)
	}
	if g.err != nil {
		return Result{}, g.err
	}
	r := Result{Exchanges: after - before, Elapsed: elapsed, Total: g.count()}
	r.P50, r.P99 = g.latency()
	return r, nil
}

func (g *group) wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-g.failed:
		return g.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (g *group) count() (n int64) {
	for _, w := range g.workers {
		n += w.count.Load()
	}
	return n
}

func (g *group) latency() (p50, p99 time.Duration) {
	var all []time.Duration
	for _, w := range g.workers {
		all = append(all, w.took...)
	}
	if len(all) == 0 {
		return 0, 0
	}
	slices.Sort(all)
	return all[len(all)/2], all[len(all)*99/100]
}

func (g *group) fail(err error) {
	g.once.Do(func() {
		g.err = err
		close(g.failed)
	})
}

// close ends what is left, so that no worker outlives Run.
func (g *group) close() {
	g.stop.Store(true)
	for _, conn := range g.conns {
		_ = conn.Close()
	}
	g.running.Wait()
}

type worker struct {
	group   *group
	caller  echo.Caller
	payload []byte
	use     func([]byte) error // check, bound once
	clocked bool
	n       uint64 // of the exchange
	took    []time.Duration

	_     [64]byte // its own cache line
	count atomic.Int64
	_     [64]byte
}

func (w *worker) loop() {
	for !w.group.stop.Load() {
		if err := w.exchange(); err != nil {
			w.group.fail(err)
			return
		}
		w.count.Add(1)
	}
}

// exchange makes one exchange. The payload carries its number at both ends, so
// that an answer to another request is noticed.
func (w *worker) exchange() error {
	w.n++
	binary.LittleEndian.PutUint32(w.payload, uint32(w.n))
	binary.LittleEndian.PutUint32(w.payload[len(w.payload)-4:], uint32(w.n))
	if !w.clocked {
		return w.caller.Echo(w.payload, w.use)
	}
	began := time.Now()
	err := w.caller.Echo(w.payload, w.use)
	if w.group.timed.Load() {
		w.took = append(w.took, time.Since(began))
	}
	return err
}

// check compares an answer with its request: completely up to 4 KiB and for the first
// exchange, otherwise both ends only, so that the comparison costs little in all systems.
func (w *worker) check(answer []byte) error {
	const end = 2 << 10
	p := w.payload
	same := len(answer) == len(p)
	if len(p) <= 2*end || w.n == 1 {
		same = bytes.Equal(answer, p)
	} else if same {
		same = bytes.Equal(answer[:end], p[:end]) && bytes.Equal(answer[len(p)-end:], p[len(p)-end:])
	}
	if !same {
		return fmt.Errorf("load: exchange %d: the answer of %d octets is not the request of %d", w.n, len(answer), len(p))
	}
	return nil
}

// pattern returns a payload that is unique to a worker.
func pattern(n, conn, worker int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i*7 + conn*31 + worker)
	}
	return p
}
