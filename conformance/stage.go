package conformance

import (
	"context"
	"fmt"
	"runtime/metrics"
	"slices"
	"sync"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/vectors"
)

// stage is where one input is played: the endpoint under test, the peers around
// it, what runs behind it, and everything seen so far. It is the endpoint's
// Observer.
type stage struct {
	in       *Input
	patience time.Duration
	clock    clock
	app      *application
	peers    map[string]peer

	// What closes the stage, in reverse order.
	closers []func()

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced at each change
	step     int           // the one being played
	steps    []progress
	conns    map[uint64]string // session id to connection
	verdicts map[string]map[uint64]endpoint.Verdict
	sessions int  // open
	opened   int  // ever
	failed   bool // a channel failed for reasons of security
}

// progress is what is known of a step while the play goes on.
type progress struct {
	Seen
	conn        string
	first, last uint64 // frames of the connection that the step sent
	waiting     int    // messages that a handler keeps
	refused     string // why the channel failed meanwhile
}

func newStage(in *Input) *stage {
	return &stage{
		in: in, clock: newClock(in.Clock), peers: make(map[string]peer), changed: make(chan struct{}),
		steps: make([]progress, len(in.Steps)), conns: make(map[uint64]string),
		verdicts: make(map[string]map[uint64]endpoint.Verdict),
	}
}

// play runs the steps and then ends everything in order: what is still held is
// let go, each peer hangs up and takes what is left.
func (s *stage) play(ctx context.Context) (*Observation, error) {
	defer s.close()
	for i := range s.in.Steps {
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
	if err := s.await(ctx, func() bool { return s.sessions == 0 }); err != nil {
		return nil, fmt.Errorf("a session of the endpoint does not end: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.steps {
		obs.Steps = append(obs.Steps, s.result(&s.steps[i]))
	}
	return obs, nil
}

func (s *stage) close() {
	for _, f := range slices.Backward(s.closers) {
		f()
	}
}

func (s *stage) onClose(f func()) { s.closers = append(s.closers, f) }

// begin makes what is seen from now on part of a step.
func (s *stage) begin(i int) {
	s.clock.set(s.in.Steps[i].AtMs)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.step = i
	s.steps[i].conn = s.in.Steps[i].Conn
}

func (s *stage) playStep(ctx context.Context, i int) error {
	st := &s.in.Steps[i]
	switch st.Dir {
	case vectors.App:
		return s.app.send(st.Octets)
	case vectors.Out:
		return s.playOut(ctx, i)
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
	octets := st.Octets
	if st.Answers || st.Relates {
		var err error
		if octets, err = answering(octets, p.last(), st.Relates); err != nil {
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
	err := s.await(ctx, func() bool { return p.waiting() || p.ended() })
	if err != nil && ctx.Err() != nil {
		return err
	}
	s.steps[i].Frame = p.next()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps[i].Closed = p.ended()
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
	for seq := p.first; seq <= p.last; seq++ {
		v, ok := s.verdicts[p.conn][seq]
		if !ok {
			continue
		}
		p.Verdicts = append(p.Verdicts, Verdict{
			Code: v.Code.String(), Alias: v.Code.Alias(), Detail: v.Detail,
			ProfileID: v.ProfileID, MsgType: v.MsgType, Flags: v.Flags,
		})
	}
	if p.refused != "" && len(p.Verdicts) == 0 {
		p.Verdicts = []Verdict{{
			Code: profiles.SecurityPolicy.String(), Alias: profiles.SecurityPolicy.Alias(), Detail: p.refused,
		}}
	}
	return p.Seen
}

// await waits until done, which is called with mu held, or until patience is
// at its end.
func (s *stage) await(ctx context.Context, done func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	for {
		s.mu.Lock()
		ok, changed := done(), s.changed
		s.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
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

// handled notes what a handler was given, in the step that it returns.
func (s *stage) handled(handler uint64, env *e1.Envelope) (step int) {
	h := Handled{
		Handler: handler, Version: env.Version, ProfileID: env.ProfileID, MsgType: env.MsgType,
		Flags: env.Flags, Timestamp: env.Timestamp, Encoded: env.Append(nil),
	}
	c := env.Clone()
	h.MsgID, h.Extensions, h.Payload = c.MsgID, c.Extensions, c.Payload
	s.change(func() {
		step = s.step
		s.steps[step].Handled = append(s.steps[step].Handled, h)
	})
	return step
}

// unhandled takes back what was noted last in a step.
func (s *stage) unhandled(step int) {
	s.change(func() {
		p := &s.steps[step]
		p.Handled = p.Handled[:len(p.Handled)-1]
	})
}

// kept notes that a handler keeps an exchange open.
func (s *stage) kept() { s.change(func() { s.steps[s.step].waiting++ }) }

// Verdict implements endpoint.Observer.
func (s *stage) Verdict(v endpoint.Verdict) {
	v.MsgID = nil // a window
	s.change(func() {
		conn, ok := s.conns[v.Session.ID()]
		if !ok {
			conn = "a" // accepted, not attached
		}
		if s.verdicts[conn] == nil {
			s.verdicts[conn] = make(map[uint64]endpoint.Verdict)
		}
		s.verdicts[conn][v.Seq] = v
	})
}

// Security implements endpoint.Observer. What it is told of has a verdict, too;
// see channelFailed for what has none.
func (s *stage) Security(ev transport.SecurityEvent) {
	s.change(func() { s.steps[s.step].Events = append(s.steps[s.step].Events, ev.Reason) })
}

// Opened implements endpoint.Observer.
func (s *stage) Opened(*endpoint.Session) { s.change(func() { s.sessions++; s.opened++ }) }

// Closed implements endpoint.Observer.
func (s *stage) Closed(*endpoint.Session, error) { s.change(func() { s.sessions-- }) }

// Refused implements endpoint.Observer.
func (s *stage) Refused(*transport.Peer) {}

// options are those of the endpoint under test.
func (s *stage) options(list []*profiles.Profile) (endpoint.Options, error) {
	reg, err := profiles.NewRegistry(list...)
	if err != nil {
		return endpoint.Options{}, err
	}
	p := &s.in.Policy
	o := endpoint.Options{
		Registry: reg, Observer: s, Now: s.clock.now, ErrorFrames: p.ErrorPath,
		FrameLimit: s.in.Limits.MaxFrameBytes, Envelope: e1.Limits{MaxPayload: s.in.Limits.MaxPayloadBytes},
		ReplayWindow: ms(p.ReplayWindowMs),
		Freshness:    endpoint.Freshness{Skew: ms(p.MaxClockSkewMs), Required: p.TimestampRequired},
	}
	if p.Rate != nil {
		o.Window = endpoint.Window{Frames: p.Rate.Frames, Period: ms(p.Rate.WindowMs)}
	}
	switch p.Freshness {
	case "", "off":
	case "core":
		o.Freshness.Owner = endpoint.FreshnessCore
	case "s1":
		o.Freshness.Owner = endpoint.FreshnessS1
	default:
		return o, fmt.Errorf("freshness is owned by %q", p.Freshness)
	}
	return o, nil
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// clock is the endpoint's.
type clock struct {
	mu    *sync.Mutex
	start time.Time
	at    *time.Time
}

func newClock(c *vectors.Clock) clock {
	start := time.Now()
	if c != nil {
		start = time.UnixMilli(c.NowUnixMs)
	}
	return clock{mu: new(sync.Mutex), start: start, at: &start}
}

func (c clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return *c.at
}

func (c clock) set(atMs int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*c.at = c.start.Add(ms(atMs))
}

// answering returns a frame with the msg_id of another, or with an extension
// that names it.
func answering(octets, of []byte, relates bool) ([]byte, error) {
	env, err := decode(octets)
	if err != nil {
		return nil, fmt.Errorf("the answer: %w", err)
	}
	asked, err := decode(of)
	if err != nil {
		return nil, fmt.Errorf("there is nothing to answer: %w", err)
	}
	if relates {
		env.Extensions = e1.AppendExtension(env.Extensions, profiles.ExtRelated, asked.MsgID)
	} else {
		env.MsgID = asked.MsgID
	}
	return frame.Append(nil, env.Append(nil)), nil
}

// allocated is what the process has allocated since its start, in octets.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
