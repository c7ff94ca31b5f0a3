package hosting

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/slimwire/swp/internal/bridge/proc"
	"github.com/slimwire/swp/internal/passing"
	"github.com/slimwire/swp/transport"
)

// patience is how long a host may take for the next message that it owes at once.
const patience = 5 * time.Second

// Start has a process run the program of an entry of the configuration, with additional entries of the
// environment. The link is lost when Until of the place, which is required, ends. The caller sets Leaving
// of the link. The error is passing.ErrRefused if the process can be reached and does not run the program.
func Start(ctx context.Context, by *passing.Passer, at passing.Place, entry string, program *proc.Config, env []string) (*proc.Link, error) {
	conn, streams, err := by.Work(ctx, at, request{entry, digest(program), env})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var is started
	control, err := conn.Accept(ctx)
	if err == nil {
		_ = control.SetReadDeadline(time.Now().Add(patience))
	}
	news := json.NewDecoder(io.LimitReader(control, maxControl))
	if err == nil {
		err = news.Decode(&is)
	}
	if err != nil {
		_ = conn.Close(0)
		return nil, err
	}
	_ = control.SetReadDeadline(time.Time{})
	end := func() { _ = conn.Close(0) }
	still := context.AfterFunc(at.Until, end)
	return &proc.Link{
		Node: at.Name, PID: is.PID, Streams: streams, Errors: &second{conn: conn},
		Stop: func(grace time.Duration) {
			_ = control.SetWriteDeadline(time.Now().Add(patience))
			_ = json.NewEncoder(control).Encode(stop{grace})
		},
		Wait: func() error {
			var how ended
			if err := news.Decode(&how); err != nil {
				end()
				return fmt.Errorf("the link to node %s is lost: %w", at.Name, err)
			}
			if how.Status == "" {
				return nil
			}
			return errors.New(how.Status)
		},
		Close: func() { still(); end() },
	}, nil
}

// second reads a stream that the other side opens, from its first octet on.
type second struct {
	conn   transport.Conn
	stream transport.Stream
}

func (s *second) Read(p []byte) (int, error) {
	if s.stream == nil {
		var err error
		if s.stream, err = s.conn.Accept(s.conn.Context()); err != nil {
			return 0, err
		}
	}
	return s.stream.Read(p)
}
