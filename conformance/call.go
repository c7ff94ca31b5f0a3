package conformance

import (
	"bytes"
	"errors"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport/endpoint"
)

// call is an exchange that the application opened, as far as verdicts go. The
// endpoint checks that an answer is well formed and hands it over; whether it
// may come at this point is for the caller to say. The first refusal of an
// answer is its verdict.
type call struct {
	taken  []taken // answers that were handed over and are not judged
	judged []error // judgements of answers whose verdict is still to come
	over   bool    // the caller judges no more
}

// taken is the verdict of an answer that the endpoint has handed over.
type taken struct {
	conn string
	endpoint.Verdict
}

// called makes an exchange known before its first answer can come.
func (s *stage) called(msgID []byte) *call {
	c := new(call)
	s.change(func() { s.calls[string(msgID)] = c })
	return c
}

// judged notes what the caller says of the next answer: nil if it is good.
func (s *stage) judged(c *call, err error) {
	s.change(func() {
		c.judged = append(c.judged, err)
		s.judge(c)
	})
}

// over ends a call once the verdicts of the answers that were judged have come: a
// caller may be quicker than its endpoint. Later ones are for the endpoint alone.
func (s *stage) over(msgID []byte) {
	s.change(func() {
		if c := s.calls[string(msgID)]; c != nil {
			c.over = true
			s.leave(string(msgID), c)
		}
	})
}

// leave forgets a call that is over. The caller holds mu.
func (s *stage) leave(msgID string, c *call) {
	if c.over && len(c.judged) == 0 {
		delete(s.calls, msgID)
	}
}

// judge turns the judged answers into verdicts. The caller holds mu.
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

// alias is an id that the endpoint chose where the script wrote another one of
// the same length. On its connection the script's stands for it, in both
// directions.
type alias struct {
	conn            string
	written, chosen []byte
}

func (s *stage) alias(conn string, written, chosen []byte) {
	a := alias{conn, bytes.Clone(written), bytes.Clone(chosen)}
	s.change(func() { s.aliases = append(s.aliases, a) })
}

// asChosen returns octets of the script with the ids as the endpoint knows them.
func (s *stage) asChosen(conn string, octets []byte) []byte {
	for _, a := range s.aliasesOf(conn) {
		octets = bytes.ReplaceAll(octets, a.written, a.chosen)
	}
	return octets
}

// asWritten returns octets of the endpoint with the ids as the script has them.
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
