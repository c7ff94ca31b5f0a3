package a2a

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// Service is both ends of the profile, for all sessions of one endpoint. It is
// safe for concurrent use.
type Service struct {
	opts     Options
	instance string // of this process, for the Handshakes that it sends
	ctx      context.Context
	cancel   context.CancelFunc
	work     sync.WaitGroup
	pools    map[service]*pool
	hosted   map[string]bool // agents of this process

	mu      sync.Mutex // never held while the store or a session is called
	closed  bool
	rested  chan struct{}      // not nil since Drain; closed when no Worker runs
	running int                // Workers
	tasks   map[string]*task   // of peers, not over, by the key of their request
	load    map[string]int     // how many, by owner
	cursors map[string]*cursor // that send, by the run of their task: one each
	agents  map[string]*agent
	hosts   map[profiles.Session]*host
	idle    map[*task]struct{} // those that wait for an agent
	sent    map[address]*Delivery
	gone    departed
	beacons map[beaconKey]*beacon
}

// address names a task of ours: who carries it out, and its task_id.
type address struct{ identity, id string }

// New returns a Service. Tasks that an earlier process left in the store go on:
// what had not started is started, what had started on a Worker of this process
// ends with a failure, what a session had been given waits for it to come back.
// What of them is damaged is reported and left alone. It fails on registrations
// that are not complete and on a store that can not be read. The caller closes
// it.
func New(opts Options) (*Service, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	pools, err := newPools(opts.Workers)
	if err != nil {
		return nil, err
	}
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	s := &Service{
		opts: opts, instance: hex.EncodeToString(random[:]), pools: pools, hosted: make(map[string]bool),
		tasks: make(map[string]*task), load: make(map[string]int), cursors: make(map[string]*cursor),
		agents: make(map[string]*agent), hosts: make(map[profiles.Session]*host), idle: make(map[*task]struct{}),
		sent: make(map[address]*Delivery), gone: newDeparted(), beacons: make(map[beaconKey]*beacon),
	}
	for of := range pools {
		s.hosted[of.agent] = true
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for name, identity := range opts.Partners {
		s.Partner(name, identity, nil)
	}
	if opts.Store != nil {
		if err := errors.Join(s.reloadAgents(), s.reload()); err != nil {
			s.Close()
			return nil, err
		}
	}
	return s, nil
}

// withDefaults returns o with the default in place of each zero.
func (o Options) withDefaults() Options {
	o.Access = cmp.Or(o.Access, profiles.Everyone)
	o.Retention = cmp.Or(o.Retention, 24*time.Hour)
	o.Deadline = cmp.Or(o.Deadline, time.Hour)
	o.MaxDeadline = cmp.Or(o.MaxDeadline, 7*24*time.Hour)
	o.Abandoned = cmp.Or(o.Abandoned, time.Minute)
	o.Unreached = cmp.Or(o.Unreached, 5*time.Second)
	o.Tasks = cmp.Or(o.Tasks, 4096)
	o.TasksPerIdentity = cmp.Or(o.TasksPerIdentity, 1024)
	o.Events = cmp.Or(o.Events, 65536)
	o.EventBytes = cmp.Or(o.EventBytes, 64<<20)
	o.Agents = cmp.Or(o.Agents, 1024)
	o.AgentsPerSession = cmp.Or(o.AgentsPerSession, 64)
	if o.MayUse == nil {
		o.MayUse = func(string, string) bool { return true }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Refused == nil {
		o.Refused = func(Refusal) {}
	}
	if o.Report == nil {
		o.Report = func(error) {}
	}
	return o
}

func (o *Options) validate() error {
	for name, d := range map[string]time.Duration{
		"Retention": o.Retention, "Deadline": o.Deadline, "MaxDeadline": o.MaxDeadline, "Abandoned": o.Abandoned,
		"Unreached": o.Unreached,
	} {
		if d < 0 {
			return fmt.Errorf("a2a: %s: %v, want 0 or more", name, d)
		}
	}
	for name, n := range map[string]int{
		"Tasks": o.Tasks, "TasksPerIdentity": o.TasksPerIdentity, "Events": o.Events, "EventBytes": o.EventBytes,
		"Agents": o.Agents, "AgentsPerSession": o.AgentsPerSession,
	} {
		if n < 0 {
			return fmt.Errorf("a2a: %s: %d, want 0 or more", name, n)
		}
	}
	return nil
}

// Profile returns the profile for the registry of the endpoint.
func (s *Service) Profile() *profiles.Profile {
	return &profiles.Profile{
		ID:   ProfileID,
		Name: "a2a",
		Types: []profiles.Type{
			{ID: TypeHandshake, Name: "HANDSHAKE", Role: profiles.Initiating},
			{ID: TypeTask, Name: "TASK", Role: profiles.Initiating},
			{ID: TypeEvent, Name: "EVENT", Role: profiles.Initiating},
			{ID: TypeResult, Name: "RESULT", Role: profiles.Initiating | profiles.Answer},
		},
		Handler:   s,
		Check:     check,
		Lifecycle: lifecycle,
		Refusal:   profiles.Silent, // a task that is refused has a Result of its own
	}
}

// check says whether an answer is well formed.
func check(env *e1.Envelope) error { return new(ResultBody).Decode(env.Payload) }

// lifecycle is the task_id of a message.
func lifecycle(env *e1.Envelope) []byte {
	switch env.MsgType {
	case TypeTask:
		var m TaskBody
		_ = m.Decode(env.Payload) // what can not be read is refused later
		return m.TaskID
	case TypeEvent:
		var m EventBody
		_ = m.Decode(env.Payload)
		return m.TaskID
	case TypeResult:
		var m ResultBody
		_ = m.Decode(env.Payload)
		return m.TaskID
	}
	return nil
}

// Serve handles one message.
func (s *Service) Serve(ctx context.Context, req *profiles.Request, w profiles.Responder) error {
	switch req.MsgType {
	case TypeHandshake:
		return s.serveHandshake(req)
	case TypeTask:
		return s.serveTask(ctx, req, w)
	case TypeEvent:
		return s.serveEvent(req)
	}
	return s.serveResult(req)
}

// Live returns how many tasks of peers are not over.
func (s *Service) Live() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tasks)
}

// Waiting returns how many of them wait: for their turn with a Worker, or for an
// agent that is away.
func (s *Service) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.idle)
	counted := make(map[*pool]bool, len(s.pools)) // one has several kinds
	for _, p := range s.pools {
		if !counted[p] {
			counted[p] = true
			n += p.load - p.running
		}
	}
	return n
}

// Agents returns the agents that sessions have declared, sorted by ID. Those
// whose session is gone are kept for a while, because tasks may wait for them.
func (s *Service) Agents() []Agent {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Agent, 0, len(s.agents))
	for _, a := range s.agents {
		if a.partner() {
			continue
		}
		list = append(list, Agent{
			ID: a.id, Identity: a.identity, Capabilities: slices.Clone(a.kinds), Online: a.host != nil, Tasks: len(a.tasks),
		})
	}
	slices.SortFunc(list, func(a, b Agent) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// Session returns the session that an agent is on, false while it is away.
func (s *Service) Session(agentID string) (profiles.Session, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.agents[agentID]
	if a == nil || a.host == nil {
		return nil, false
	}
	return a.host.session, true
}

// Drain has the Workers begin no more tasks and waits until those that they
// carry out have ended, or ctx has; then its error is that of ctx. Everything
// else is safe in the store and is left to the next process: exchanges of tasks
// that wait, or that an agent carries out, end, so that their sessions can. It
// is called once, before Close.
func (s *Service) Drain(ctx context.Context) error {
	rested := make(chan struct{})
	s.mu.Lock()
	s.rested = rested
	if s.running == 0 {
		close(rested)
	}
	var given []*Delivery
	for _, t := range s.tasks {
		if t.at.Phase == phaseLocal && !s.poolOf(t.kind, t.agent).resumes() {
			continue
		}
		t.disarm()
		t.cursor.stop()
		if t.out != nil {
			given = append(given, t.out)
			t.out = nil
		}
	}
	s.mu.Unlock()
	for _, d := range given {
		d.close(profiles.ErrFinished)
	}
	select {
	case <-rested:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leaving reports whether no task is given to anyone any more. The caller holds
// mu.
func (s *Service) leaving() bool { return s.closed || s.rested != nil }

// errClosed is why what was open ends with Close.
var errClosed = errors.New("a2a: the service was closed")

// Close stops the Workers and waits for them. Tasks stay as they are in the
// store, for the next process to go on with. Sessions are ended first.
func (s *Service) Close() {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	var open []func()
	if first {
		for _, t := range s.tasks {
			open = append(open, t.abandon)
		}
		for _, d := range s.sent {
			open = append(open, func() { d.end(errClosed) })
		}
		for _, b := range s.beacons {
			open = append(open, b.stop)
		}
	}
	s.mu.Unlock()
	s.cancel()
	for _, end := range open {
		end()
	}
	s.work.Wait()
}

// spawn runs f on a goroutine that Close waits for. It returns false once the
// Service is closed.
func (s *Service) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.work.Go(f)
	return true
}

// later runs f after d, unless the Service is closed by then.
func (s *Service) later(d time.Duration, f func()) *time.Timer {
	return time.AfterFunc(d, func() { s.spawn(f) })
}

// report hands on what went wrong with a task.
func (s *Service) report(t *task, err error) {
	s.opts.Report(fmt.Errorf("a2a: task %x of %q, kind %q: %w", t.id, t.owner, t.kind, err))
}
