package conformance

import (
	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

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
