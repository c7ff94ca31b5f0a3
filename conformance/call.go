package conformance

import (
	"bytes"
	"errors"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport/endpoint"
)

// call records the verdicts on the answers to an exchange that the application opened. The
// endpoint checks that an answer is well-formed and passes it on; the caller decides
// whether it is allowed at this point. The first refusal of an answer is its verdict.
type call struct {
	taken  []taken // answers without a judgement
	judged []error // judgements of answers without a verdict
	over   bool    // no further judgement follows
}

// taken is the verdict on an answer that the endpoint has passed on.
type taken struct {
	conn string
	endpoint.Verdict
}

// called registers an exchange before its first answer can arrive.
func (s *stage) called(msgID []byte) *call {
	c := new(call)
	s.change(func() { s.calls[string(msgID)] = c })
	return c
}

// judged records the judgement of the caller on the next answer; nil accepts it.
func (s *stage) judged(c *call, err error) {
	s.change(func() {
		c.judged = append(c.judged, err)
		s.judge(c)
	})
}

// over ends a call when the verdicts on its judged answers are known: a caller may be
// faster than its endpoint. Later answers concern the endpoint only.
func (s *stage) over(msgID []byte) {
	s.change(func() {
		if c := s.calls[string(msgID)]; c != nil {
			c.over = true
			s.leave(string(msgID), c)
		}
	})
}

// leave removes a call that is over. The caller holds mu.
func (s *stage) leave(msgID string, c *call) {
	if c.over && len(c.judged) == 0 {
		delete(s.calls, msgID)
	}
}

// judge combines judgements and verdicts. The caller holds mu.
func (s *stage) judge(c *call) {
	for len(c.taken) > 0 && len(c.judged) > 0 {
		v := c.taken[0]
		if fault := (*profiles.Error)(nil); errors.As(c.judged[0], &fault) {
			v.Code, v.Detail = fault.Code, fault.Detail
		}
		s.verdicts[v.conn][v.Seq] = v.Verdict
		c.taken, c.judged = c.taken[1:], c.judged[1:]
	}
}

// alias maps an id that the endpoint chose to the id of the same length in the script. It
// applies to one connection, in both directions.
type alias struct {
	conn            string
	written, chosen []byte
}

func (s *stage) alias(conn string, written, chosen []byte) {
	a := alias{conn, bytes.Clone(written), bytes.Clone(chosen)}
	s.change(func() { s.aliases = append(s.aliases, a) })
}

// asChosen replaces the ids of the script by those of the endpoint.
func (s *stage) asChosen(conn string, octets []byte) []byte {
	for _, a := range s.aliasesOf(conn) {
		octets = bytes.ReplaceAll(octets, a.written, a.chosen)
	}
	return octets
}

// asWritten replaces the ids of the endpoint by those of the script.
func (s *stage) asWritten(conn string, octets []byte) []byte {
	for _, a := range s.aliasesOf(conn) {
		octets = bytes.ReplaceAll(octets, a.chosen, a.written)
	}
	return octets
}

func (s *stage) aliasesOf(conn string) []alias {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []alias
	for _, a := range s.aliases {
		if a.conn == conn && len(a.written) == len(a.chosen) {
			list = append(list, a)
		}
	}
	return list
}
