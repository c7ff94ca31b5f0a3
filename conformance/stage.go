package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/vectors"
)

// stage is where one input is played: the endpoint under test, the peers around
// it, what runs behind it, and everything seen so far. It is the endpoint's
// Observer.
type stage struct {
	in       *Input
	patience time.Duration
	pause    func() // before each step; may be nil
	clock    *clock
	app      *application
	peers    map[string]peer

	// What closes the stage, in reverse order.
	closers []func()

	// What runs beside the play: ctx ends as soon as the stage closes, and the tasks
	// are waited for last.
	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	tracer   endpoint.Tracer              // of the endpoint under test
	sessions map[string]*endpoint.Session // by connection

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced at each change
	step     int           // the one being played
	steps    []progress
	conns    map[uint64]string // session id to connection
	verdicts map[string]map[uint64]endpoint.Verdict
	open     map[place]*kept  // messages that a handler keeps
	calls    map[string]*call // of the application, by msg_id
	aliases  []alias
	left     map[string]bool // connections whose session has ended
	alive    int             // sessions that are open
	failed   bool            // a channel failed for reasons of security
}

// progress is what is known of a step while the play goes on.
type progress struct {
	Seen
	conn        string
	first, last uint64 // frames of the connection that the step sent
	waiting     int    // messages that a handler keeps
	refused     string // why the channel failed during the step

	// given has the messages that their handlers can still refuse. At the end the others
	// become Handled.
	given []Handled
}

func newStage(in *Input) *stage {
	s := &stage{
		in: in, clock: newClock(in.Clock), peers: make(map[string]peer), changed: make(chan struct{}),
		steps: make([]progress, len(in.Steps)), conns: make(map[uint64]string),
		sessions: make(map[string]*endpoint.Session), open: make(map[place]*kept), calls: make(map[string]*call),
		verdicts: make(map[string]map[uint64]endpoint.Verdict), left: make(map[string]bool),
	}
	s.clock.armed = func() { s.change(func() {}) }
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.onClose(s.tasks.Wait)
	return s
}

// play runs the steps and then ends everything in order.
func (s *stage) play(ctx context.Context) (*Observation, error) {
	obs, err := s.run(ctx)
	s.close()
	if err != nil {
		return nil, err
	}
	// Nothing runs any more.
	obs.Untold, obs.Unanswered = s.app.told[s.app.taken:], s.app.left
	return obs, nil
}

// run plays the steps. Then what is still held is let go, each peer hangs up
// and takes what is left.
func (s *stage) run(ctx context.Context) (*Observation, error) {
	for i := range s.in.Steps {
		if s.pause != nil {
			s.pause()
		}
		s.begin(i)
		if err := s.playStep(ctx, i); err != nil {
			return nil, fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	obs := new(Observation)
	s.app.letGo()
	for name, p := range s.peers {
		_ = p.hangUp()
		if err := s.await(ctx, p.ended); err != nil {
			return nil, fmt.Errorf("the endpoint does not end connection %q: %w", name, err)
		}
		for f := p.next(); f != nil; f = p.next() {
			obs.Extra = append(obs.Extra, Frame{Conn: name, Octets: f})
		}
	}
	if err := s.await(ctx, func() bool { return s.alive == 0 && len(s.open) == 0 }); err != nil {
		return nil, fmt.Errorf("a session of the endpoint, or an exchange of it, does not end: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.steps {
		obs.Steps = append(obs.Steps, s.result(&s.steps[i]))
	}
	return obs, nil
}

func (s *stage) close() {
	s.cancel()
	for _, f := range slices.Backward(s.closers) {
		f()
	}
}

func (s *stage) onClose(f func()) { s.closers = append(s.closers, f) }

// begin makes what is seen from now on part of a step.
func (s *stage) begin(i int) {
	if s.in.Steps[i].Dir != vectors.Wait {
		s.clock.set(s.in.Steps[i].AtMs)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.step = i
	s.steps[i].conn = s.in.Steps[i].Conn
}

func (s *stage) playStep(ctx context.Context, i int) error {
	st := &s.in.Steps[i]
	switch st.Dir {
	case vectors.App:
		return s.app.send(ctx, st.Conn, st.Octets)
	case vectors.Told:
		s.steps[i].Frame = s.app.hears(ctx)
		return nil
	case vectors.Out:
		return s.playOut(ctx, i)
	case vectors.Wait:
		return s.playWait(ctx, st.AtMs)
	}
	return s.playIn(ctx, i)
}

// playIn sends octets and waits until each frame in them was judged or is kept
// by a handler, or the connection has ended.
func (s *stage) playIn(ctx context.Context, i int) error {
	st, p := &s.in.Steps[i], s.peers[s.in.Steps[i].Conn]
	if p == nil {
		return fmt.Errorf("there is no connection %q", st.Conn)
	}
	octets := s.asChosen(st.Conn, st.Octets)
	if st.Answers || st.Relates {
		var err error
		if octets, err = answering(octets, p.last(), st.Relates); err != nil {
			return err
		}
	}
	if st.Continues {
		var err error
		if octets, err = continuing(octets, p.last()); err != nil {
			return err
		}
	}
	before := allocated()
	frames := p.send(octets, st.Flip)
	s.mu.Lock()
	s.steps[i].first, s.steps[i].last = frames.first, frames.last
	s.mu.Unlock()
	if st.End {
		_ = p.hangUp()
	}
	silent := st.End && frames.none() // nothing to judge: only the end can follow
	err := s.await(ctx, func() bool { return p.ended() || !silent && s.settled(&s.steps[i]) })
	if err != nil {
		return fmt.Errorf("no reaction to %d octets: %w", len(octets), err)
	}
	if st.Flip && !p.altered() {
		return fmt.Errorf("no bit of these %d octets was inverted on the way", len(octets))
	}
	if s.closing(i) {
		if err := s.await(ctx, p.ended); err != nil {
			return fmt.Errorf("the verdict says closed, the connection is open: %w", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps[i].Closed = p.ended()
	s.steps[i].Allocated = allocated() - before
	return nil
}

func (s *stage) playOut(ctx context.Context, i int) error {
	p := s.peers[s.in.Steps[i].Conn]
	if p == nil {
		return fmt.Errorf("there is no connection %q", s.in.Steps[i].Conn)
	}
	var out gathered
	for {
		err := s.await(ctx, func() bool { return p.waiting() || p.ended() })
		if err != nil && ctx.Err() != nil {
			return err
		}
		if !out.add(p.next()) || out.fields >= s.in.Steps[i].Gathers {
			break
		}
	}
	s.steps[i].Frame = s.asWritten(s.in.Steps[i].Conn, out.frame)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps[i].Closed = p.ended()
	return nil
}

// playWait advances the clock to the endpoint's alarms, one after the other.
func (s *stage) playWait(ctx context.Context, atMs int) error {
	for there := false; !there; {
		var next int
		if err := s.await(ctx, func() (due bool) { next, due = s.clock.next(atMs); return due }); err != nil {
			return fmt.Errorf("the endpoint does not wait for %d ms: %w", atMs, err)
		}
		s.clock.set(next)
		there = next == atMs
	}
	return nil
}

// settled reports whether all frames of a step have had their effect. The
// caller holds mu.
func (s *stage) settled(p *progress) bool {
	judged := uint64(p.waiting)
	for seq := p.first; seq <= p.last; seq++ {
		if _, ok := s.verdicts[p.conn][seq]; ok {
			judged++
		}
	}
	return judged >= p.last-p.first+1
}

// closing reports whether a verdict of the step says that the connection ends.
func (s *stage) closing(i int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for seq := s.steps[i].first; seq <= s.steps[i].last; seq++ {
		if s.verdicts[s.steps[i].conn][seq].Action == endpoint.Closed {
			return true
		}
	}
	return false
}

// result is what a step led to, once all is over. The caller holds mu.
func (s *stage) result(p *progress) Seen {
	var refused [][]byte
	for seq := p.first; seq <= p.last; seq++ {
		v, ok := s.verdicts[p.conn][seq]
		if !ok {
			continue
		}
		if v.Code != profiles.OK {
			refused = append(refused, v.MsgID)
		}
		p.Verdicts = append(p.Verdicts, Verdict{
			Code: v.Code.String(), Alias: v.Code.Alias(), Detail: v.Detail,
			ProfileID: v.ProfileID, MsgType: v.MsgType, Flags: v.Flags,
		})
	}
	for _, h := range p.given {
		if !slices.ContainsFunc(refused, func(id []byte) bool { return bytes.Equal(id, h.MsgID) }) {
			p.Handled = append(p.Handled, h)
		}
	}
	if p.refused != "" && len(p.Verdicts) == 0 {
		p.Verdicts = []Verdict{{
			Code: profiles.SecurityPolicy.String(), Alias: profiles.SecurityPolicy.Alias(), Detail: p.refused,
		}}
	}
	return p.Seen
}

// patienceTicks is how many ticks patience has. A process that does not run misses
// ticks, and takes up to one late: so a machine that stands still uses no patience up.
const patienceTicks = 100

// errPatience ends an await.
var errPatience = errors.New("nothing happened for as long as a step may take")

// await waits until done, which is called with mu held, or until patience is
// at its end.
func (s *stage) await(ctx context.Context, done func() bool) error {
	tick := time.NewTicker(s.patience / patienceTicks)
	defer tick.Stop()
	for left := patienceTicks; ; {
		s.mu.Lock()
		ok, changed := done(), s.changed
		s.mu.Unlock()
		switch {
		case ok:
			return nil
		case left == 0:
			return errPatience
		}
		select {
		case <-changed:
		case <-tick.C:
			left--
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// change makes a change and wakes whoever waits for one.
func (s *stage) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}
