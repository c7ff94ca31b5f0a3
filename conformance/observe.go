package conformance

import (
	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// handled notes what a handler was given. One that judges payloads may still
// refuse it.
func (s *stage) handled(handler uint64, env *e1.Envelope, judges bool) {
	h := Handled{
		Handler: handler, Version: env.Version, ProfileID: env.ProfileID, MsgType: env.MsgType,
		Flags: env.Flags, Timestamp: env.Timestamp, Encoded: env.Append(nil),
	}
	c := env.Clone()
	h.MsgID, h.Extensions, h.Payload = c.MsgID, c.Extensions, c.Payload
	s.change(func() {
		p := &s.steps[s.step]
		if judges {
			p.given = append(p.given, h)
		} else {
			p.Handled = append(p.Handled, h)
		}
	})
}

// kept is a message that a handler keeps open.
type kept struct {
	step   int
	served bool // its handler has returned
}

// place is where such a message is found: peers choose msg_ids as they like.
type place struct {
	session profiles.Session
	msgID   string
}

func placeOf(req *profiles.Request) place { return place{req.Session, string(req.MsgID)} }

// keeps notes that a handler keeps a message open beyond Serve.
func (s *stage) keeps(at place) { s.change(func() { s.open[at] = &kept{step: s.step} }) }

// served notes that the handler of a message has returned. If it keeps the
// message open, that was all that the message leads to by itself.
func (s *stage) served(at place) {
	s.change(func() {
		if k := s.open[at]; k != nil && !k.served {
			k.served = true
			s.steps[k.step].waiting++
		}
	})
}

// Verdict implements endpoint.Observer.
func (s *stage) Verdict(v endpoint.Verdict) {
	at := place{v.Session, string(v.MsgID)}
	v.MsgID = []byte(at.msgID) // no window
	s.change(func() {
		conn := s.nameOf(v.Session)
		if s.verdicts[conn] == nil {
			s.verdicts[conn] = make(map[uint64]endpoint.Verdict)
		}
		if k := s.open[at]; k != nil {
			if k.served {
				s.steps[k.step].waiting--
			}
			delete(s.open, at)
		}
		if c := s.calls[at.msgID]; c != nil && v.Code == profiles.OK && v.Detail == "" {
			c.taken = append(c.taken, taken{conn, v})
			s.judge(c)
			s.leave(at.msgID, c)
			return
		}
		s.verdicts[conn][v.Seq] = v
	})
}

// Security implements endpoint.Observer. These events have a verdict, too; see
// channelFailed for those without.
func (s *stage) Security(ev transport.SecurityEvent) {
	s.change(func() { s.steps[s.step].Events = append(s.steps[s.step].Events, ev.Reason) })
}

// Opened implements endpoint.Observer.
func (s *stage) Opened(*endpoint.Session) { s.change(func() { s.alive++ }) }

// Closed implements endpoint.Observer.
func (s *stage) Closed(session *endpoint.Session, _ error) {
	s.change(func() {
		s.alive--
		s.left[s.nameOf(session)] = true
	})
}

// nameOf is the name of the connection of a session. The caller holds mu.
func (s *stage) nameOf(session *endpoint.Session) string {
	if conn, ok := s.conns[session.ID()]; ok {
		return conn
	}
	return "a" // accepted, not attached
}

// Refused implements endpoint.Observer.
func (s *stage) Refused(*transport.Peer) {}
