package slip

import (
	"context"
	"sync"
	"time"

	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/profiles"
)

// queues runs jobs that wait for other parties. Jobs with one key run one at a time, in turn by
// identity, an identity's in order; jobs with different keys run concurrently. Identities
// share the places and octets of all, and the places of each key. A key has a goroutine only
// while it has jobs.
type queues struct {
	perKey  int
	timeout time.Duration

	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	lines   map[string]*line // by key; a key has a goroutine while it is here
	waiting fair.Shares      // jobs, with those that run
	octets  fair.Shares      // of those
}

// line is the jobs with one key.
type line struct {
	jobs   fair.Queue[job]
	places fair.Shares // with the job that runs
}

// job is one unit of work.
type job struct {
	identity string // of the share
	octets   int    // octets held by the job
	run      func(ctx context.Context) error
	done     func(error) // called once with the error of run
}

var (
	errFull   = profiles.Busy("waiting_full", "slip: too many messages are on their way")
	errBehind = profiles.Busy("waiting_behind", "slip: too many messages wait for this agent")
	errEnding = profiles.Busy("waiting_ending", "slip: this endpoint is shutting down")
)

func (q *queues) open(most, perKey, octets int, timeout time.Duration) {
	q.perKey, q.timeout = perKey, timeout
	q.waiting, q.octets = fair.NewShares(most), fair.NewShares(octets)
	q.lines = make(map[string]*line)
	q.ctx, q.cancel = context.WithCancel(context.Background())
}

// push adds a job, or calls its done with the reason why it was not added.
func (q *queues) push(key string, j job) {
	if fault := q.add(key, j); fault != nil {
		j.done(fault)
	}
}

func (q *queues) add(key string, j job) *profiles.Error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return errEnding
	}
	if fault := max(q.waiting.Ask(j.identity, 1), q.octets.Ask(j.identity, j.octets)).Refuse(errFull); fault != nil {
		return fault
	}
	l, running := q.lines[key]
	if !running {
		l = &line{places: fair.NewShares(q.perKey)}
	}
	if fault := l.places.Take(j.identity, 1).Refuse(errBehind); fault != nil {
		return fault
	}
	q.waiting.Force(j.identity, 1)
	q.octets.Force(j.identity, j.octets)
	l.jobs.Push(j.identity, j)
	if !running {
		q.lines[key] = l
		q.work.Go(func() { q.drain(key, l) })
	}
	return nil
}

// drain runs the jobs of a key until none is left. The job that runs counts against the limits.
func (q *queues) drain(key string, l *line) {
	for {
		q.mu.Lock()
		j, ok := l.jobs.Pop(nil)
		if !ok {
			delete(q.lines, key)
			q.mu.Unlock()
			return
		}
		q.mu.Unlock()
		j.done(q.do(j))
		q.mu.Lock()
		l.places.Give(j.identity, 1)
		q.waiting.Give(j.identity, 1)
		q.octets.Give(j.identity, j.octets)
		q.mu.Unlock()
	}
}

// pools returns the use of the places and octets.
func (q *queues) pools() []fair.Pool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return []fair.Pool{q.waiting.Pool("slip messages"), q.octets.Pool("slip octets")}
}

func (q *queues) do(j job) error {
	if q.ctx.Err() != nil {
		return errEnding
	}
	ctx, cancel := context.WithTimeout(q.ctx, q.timeout)
	defer cancel()
	return j.run(ctx)
}

// close drops waiting jobs and waits for running ones.
func (q *queues) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.cancel()
	q.work.Wait()
}
