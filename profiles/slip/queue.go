package slip

import (
	"context"
	"sync"
	"time"

	"github.com/slimwire/swp/profiles"
)

// queues runs jobs that wait for other parties: jobs with one key in order, one at a time;
// jobs with different keys concurrently. A key has a goroutine only while it has jobs.
type queues struct {
	most, perKey, mostBytes int
	timeout                 time.Duration

	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	jobs    map[string][]job // jobs by key; a key has a goroutine while it is here
	waiting int
	bytes   int
}

// job is one unit of work.
type job struct {
	octets int // octets held by the job
	run    func(ctx context.Context) error
	done   func(error) // called once with the error of run
}

var (
	errFull   = profiles.Busy("waiting_full", "slip: too many messages are on their way")
	errBehind = profiles.Busy("waiting_behind", "slip: too many messages wait for this agent")
	errEnding = profiles.Busy("waiting_ending", "slip: this endpoint is shutting down")
)

func (q *queues) open(most, perKey, mostBytes int, timeout time.Duration) {
	q.most, q.perKey, q.mostBytes, q.timeout = most, perKey, mostBytes, timeout
	q.jobs = make(map[string][]job)
	q.ctx, q.cancel = context.WithCancel(context.Background())
}

// push adds a job, or calls its done with the reason why it was not added.
func (q *queues) push(key string, j job) {
	if err := q.add(key, j); err != nil {
		j.done(err)
	}
}

func (q *queues) add(key string, j job) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return errEnding
	case q.waiting >= q.most, q.bytes+j.octets > q.mostBytes:
		return errFull
	case len(q.jobs[key]) >= q.perKey:
		return errBehind
	}
	_, running := q.jobs[key]
	q.jobs[key] = append(q.jobs[key], j)
	q.waiting++
	q.bytes += j.octets
	if !running {
		q.work.Go(func() { q.drain(key) })
	}
	return nil
}

// drain runs the jobs of a key until none is left. The running job stays first in the list,
// so that it counts against the limits.
func (q *queues) drain(key string) {
	for {
		q.mu.Lock()
		jobs := q.jobs[key]
		if len(jobs) == 0 {
			delete(q.jobs, key)
			q.mu.Unlock()
			return
		}
		j := jobs[0]
		q.mu.Unlock()
		j.done(q.do(j))
		q.mu.Lock()
		jobs = q.jobs[key]
		jobs[0] = job{}
		q.jobs[key] = jobs[1:]
		q.waiting--
		q.bytes -= j.octets
		q.mu.Unlock()
	}
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
