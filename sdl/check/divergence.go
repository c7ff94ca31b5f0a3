package check

import (
	"context"
	"fmt"

	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
)

// loadDivergence reads a row with bodies that are delivered to one server, and the
// recommended outcomes. The outcomes of the reference are not compared.
func loadDivergence(row canonical.Value, _ string, _ *Keys) (Case, error) {
	s := newShape(row)
	name := s.text("id")
	setup := readSetup(s.object("server"), s.time("now"))
	mediaType := ""
	if s.has("content_type") {
		mediaType = s.text("content_type")
	}
	bodies := s.bodies()
	var wanted []want
	for _, e := range s.elements("recommended") {
		wanted = append(wanted, readWant(e))
	}
	if len(bodies) != len(wanted) || len(bodies) == 0 {
		s.fault("recommended", "has %d results for %d bodies", len(wanted), len(bodies))
	}
	s.done()
	return Case{name, func(ctx context.Context) ([]Result, []string) {
		if len(*s.diff) > 0 {
			return nil, *s.diff
		}
		server, err := setup.server()
		if err != nil {
			return nil, []string{"server: " + err.Error()}
		}
		var results []Result
		var diff []string
		for i, body := range bodies {
			o := setup.take(ctx, server, delivery{body, mediaType, setup.options.Limits})
			results = append(results, o.result)
			diff = append(diff, wanted[i].compare(&o)...)
		}
		return results, diff
	}}, nil
}

// bodies reads the bodies as octets.
func (s *shape) bodies() [][]byte {
	encoding := ""
	if s.has("bodies_encoding") {
		if encoding = s.text("bodies_encoding"); encoding != "base64url" {
			s.fault("bodies_encoding", "%q: want base64url", encoding)
		}
	}
	var bodies [][]byte
	for i, text := range s.words("bodies") {
		body := []byte(text)
		if encoding != "" {
			var err error
			if body, err = seal.DecodeB64(text); err != nil {
				s.fault(fmt.Sprintf("bodies[%d]", i), "%v", err)
			}
		}
		bodies = append(bodies, body)
	}
	return bodies
}
