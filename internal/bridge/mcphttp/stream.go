package mcphttp

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/slimwire/swp/internal/backoff"
	"github.com/slimwire/swp/internal/bridge/mcpheader"
	"github.com/slimwire/swp/internal/bridge/upstream"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// pauses are those before a stream is opened again that has ended, if the server asks
// for no other, and after each try that brought no event.
var pauses = backoff.Exponential{First: time.Second, Longest: time.Minute}

// leastPause is the shortest pause that a server can ask for.
const leastPause = 100 * time.Millisecond

// pause is how long to wait before the stream is opened again.
func pause(retry time.Duration, failures int) time.Duration {
	if retry > 0 && failures == 0 {
		return max(min(retry, pauses.Longest), leastPause)
	}
	return backoff.Jitter(min(max(pauses.After(failures), retry), pauses.Longest))
}

// errNoStream: the server offers no GET stream.
var errNoStream = errors.New("mcphttp: the server has no GET stream")

// resume opens a stream again where it was left off, after a pause. It tries until
// it has failed limit times in a row; failures is how often it has.
func (s *backSession) resume(ctx context.Context, client *upstream.Client, at *upstream.Position, failures *int, limit int) (*upstream.Response, error) {
	for ; *failures < limit; *failures++ {
		if err := backoff.Wait(ctx, pause(at.Retry, *failures)); err != nil {
			return nil, err
		}
		r, err := s.get(ctx, client, at)
		switch {
		case err == nil:
			return r, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.Is(err, statusFault(http.StatusNotFound)):
			s.lost() // there was a stream, so it is the session that is not there
			return nil, err
		case final(err):
			return nil, err
		}
	}
	return nil, upstream.ErrLost
}

// final says whether an error of get will be the same the next time.
func final(err error) bool {
	var status statusFault
	return errors.Is(err, errNoStream) || errors.As(err, &status) && status < 500 && status != http.StatusTooManyRequests
}

// get opens a stream of the session.
func (s *backSession) get(ctx context.Context, client *upstream.Client, at *upstream.Position) (*upstream.Response, error) {
	h, err := s.b.header(mcpheader.Events)
	if err != nil {
		return nil, err
	}
	s.mark(h)
	if at.ID != "" {
		h.Set(mcpheader.Last, at.ID)
	}
	r, err := client.Do(ctx, http.MethodGet, s.b.opts.URL, h, nil)
	switch {
	case err != nil:
		return nil, err
	case r.Status == http.StatusOK && r.MediaType() == mcpheader.Events:
		return r, nil
	case r.Status == http.StatusMethodNotAllowed, r.Status >= 200 && r.Status <= 299:
		err = errNoStream
	default:
		err = statusFault(r.Status)
	}
	r.Close()
	return nil, err
}

// hear opens the stream on which the server tells what belongs to no request. A
// server need not have one.
func (s *backSession) hear() {
	s.mu.Lock()
	first := !s.hears && !s.closed
	s.hears = true
	s.mu.Unlock()
	if first {
		s.b.spawn(s.listen)
	}
}

// listen reads that stream as long as the session lasts.
func (s *backSession) listen() {
	var at upstream.Position
	r, err := s.get(s.ctx, s.b.streams, &at)
	for failures := 0; ; failures++ {
		if err == nil {
			s.read(r, &at)
		} else if final(err) {
			break
		}
		if at.Moved {
			at.Moved, failures = false, 0
		}
		if r, err = s.resume(s.ctx, s.b.streams, &at, &failures, math.MaxInt); err != nil {
			break
		}
	}
	if s.ctx.Err() == nil && !errors.Is(err, errNoStream) {
		s.b.trouble(fmt.Errorf("mcphttp: GET stream: %w", err))
	}
}

// read passes the messages of the stream to the client until it ends, for any
// reason, and closes it.
func (s *backSession) read(r *upstream.Response, at *upstream.Position) {
	defer r.Close()
	stream := r.Events(s.b.opts.MaxMessage, at)
	for {
		ev, err := stream.Next()
		if err != nil {
			return
		}
		if isMessage(&ev) {
			s.heard()
			s.take(ev.Data)
		}
	}
}

// take brings a message to the client, or to the call that it says it is about.
func (s *backSession) take(octets []byte) {
	var m mcpmap.Message
	if !scanMessage(&m, octets) {
		s.b.stats.noise.Add(1)
		return
	}
	switch m.Kind() {
	case mcpmap.Notification:
		if token := mcpmap.TokenKey(m.Progressed()); token != "" && m.Is(mcpmap.MethodProgress) {
			if c := s.progressing(token, nil); c != nil {
				c.notify(s.ctx, octets)
				return
			}
		}
		_ = s.client.Pace(s.ctx)
		if !s.client.Notify(octets) {
			s.b.stats.dropped.Add(1)
		}
	case mcpmap.Request:
		s.ask(nil, &m)
	case mcpmap.Response:
		s.b.stats.dropped.Add(1) // responses come on the stream of their request
	}
}
