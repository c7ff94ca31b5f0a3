package endpoint_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// cutConn is a multiplexed connection whose streams end inside a frame, for the reason
// why, before the connection says that it has ended, as those of QUIC may.
type cutConn struct {
	transport.Conn
	why error
}

func (c *cutConn) Open(ctx context.Context) (transport.Stream, error) {
	s, err := c.Conn.Open(ctx)
	if err != nil {
		return nil, err
	}
	return &cutStream{s, strings.NewReader("\x00\x00\x00\x20\x01"), c.why}, nil
}

type cutStream struct {
	transport.Stream
	front io.Reader
	why   error
}

func (s *cutStream) Read(p []byte) (int, error) {
	if n, err := s.front.Read(p); err == nil {
		return n, nil
	}
	return 0, s.why
}

// TestAConnectionThatEndsInsideAFrameRefusesNothing wants a call to see that the session
// is over: a refusal would be final.
func TestAConnectionThatEndsInsideAFrameRefusesNothing(t *testing.T) {
	for name, why := range map[string]error{
		"closed": &transport.CloseError{Remote: true},
		"broken": &transport.BrokenError{Err: errors.New("silent for too long")},
	} {
		t.Run(name, func(t *testing.T) {
			ep, rec := newEndpoint(t, endpoint.Options{}, profile(echo))
			here, there := transport.MuxPipe()
			defer func() { _ = there.Close(0) }()
			session := ep.Attach(&cutConn{here, why})
			call, err := session.Call(t.Context(), e1.Envelope{ProfileID: testProfile, MsgType: typeRequest, Payload: []byte("x")})
			if err == nil {
				_, err = call.Recv(t.Context())
				call.Close()
			}
			if err == nil || errors.As(err, new(*profiles.Error)) {
				t.Errorf("the call failed with %v, want the end of the session", err)
			}
			rec.await(t, "the session is over", func(r *recorder) bool { return len(r.closed) > 0 })
			if n := rec.count(); n > 0 {
				t.Errorf("%d verdicts over octets that nobody sent wrongly, the first %+v", n, rec.verdict(t, 1))
			}
		})
	}
}
