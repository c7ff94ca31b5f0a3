package sdlagent

import (
	"context"
	"encoding/hex"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/slimwire/swp/internal/backoff"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/relay"
	carriage "github.com/slimwire/swp/profiles/sdl"
	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
)

// Values of /status in the state of a task.
const (
	statusAccepted  = "accepted" // sent in the answer to task.v1
	statusWorking   = "working"
	statusCompleted = "completed"
	statusFailed    = "failed"
)

// Topic returns the relay topic with the undelivered events of an agent.
func Topic(agentID string) string { return carriage.Topic + agentID }

// states sends the states of one task, in order. The base of each is the hash of the
// previous state.
type states struct {
	agent *Agent
	from  *origin
	work  *work
	key   string
	state canonical.Value
	n     int // number of the last state
}

// working reports once that work on the task has begun.
func (s *states) working() {
	if s.n == 0 {
		s.send(statusWorking, canonical.Value{}, "")
	}
}

// end reports the outcome of the task.
func (s *states) end(r *a2a.Result) {
	status := statusCompleted
	if !r.OK {
		status = statusFailed
	}
	var result canonical.Value
	if len(r.Output) > 0 {
		result = valueOf(r.Output)
	}
	if !s.send(status, result, r.Reason) && s.agent.ctx.Err() == nil {
		s.send(status, canonical.Value{}, r.Reason) // the result does not fit into an envelope
	}
}

// valueOf converts an output for a state: JSON unchanged, other text as a string, other
// octets in hexadecimal.
func valueOf(output []byte) canonical.Value {
	if v, err := canonical.ParseJSON(output); err == nil {
		return v
	}
	if utf8.Valid(output) {
		return canonical.String(string(output))
	}
	return canonical.String(hex.EncodeToString(output))
}

// send sends the next state. It returns false if the state does not fit into an envelope.
func (s *states) send(status string, result canonical.Value, reason string) bool {
	was := s.state
	if was.IsNull() {
		was = canonical.Object(
			canonical.Member{Name: "goal", Value: canonical.String(s.work.Goal)},
			canonical.Member{Name: "status", Value: canonical.String(statusAccepted)},
		)
	}
	now := was.With("status", canonical.String(status))
	patch := []canonical.Value{change("replace", "/status", canonical.String(status))}
	if !result.IsNull() {
		now = now.With("result", result)
		patch = append(patch, change("add", "/result", result))
	}
	if reason != "" {
		now = now.With("reason", canonical.String(reason))
		patch = append(patch, change("add", "/reason", canonical.String(reason)))
	}
	body, err := s.envelope(canonical.Object(
		canonical.Member{Name: "base", Value: canonical.String(canonical.Hash(was))},
		canonical.Member{Name: "patch", Value: canonical.Array(patch...)},
	))
	if err != nil {
		s.agent.opts.Report(fmt.Errorf("sdlagent: state of task %s: %w", s.key, err))
		return false
	}
	s.state = now
	s.n++
	s.deliver(fmt.Sprintf("%s-%s", s.key, status), body)
	return true
}

func change(op, path string, v canonical.Value) canonical.Value {
	return canonical.Object(
		canonical.Member{Name: "op", Value: canonical.String(op)},
		canonical.Member{Name: "path", Value: canonical.String(path)},
		canonical.Member{Name: "value", Value: v},
	)
}

// envelope returns the event with a payload: one hop more than the request, secured as the
// request was.
func (s *states) envelope(payload canonical.Value) ([]byte, error) {
	language := s.agent.language.Load()
	o := &language.Options
	request, err := canonical.ParseJSON(s.work.Request)
	if err != nil {
		return nil, err
	}
	v := sdl.Response(request, sdl.CTState, payload, sdl.Writing{Limits: o.Limits, Now: o.Now, NewID: o.NewID}).
		With("type", canonical.String(sdl.TypeEvt))
	v, refused := language.Secure(v, s.work.Signed, s.work.Sealed, s.work.Agent)
	if refused != nil {
		return nil, refused
	}
	form := sdl.JSON
	if s.work.CBOR {
		form = sdl.CBOR
	}
	return form.Append(nil, v), nil
}

// Limits of the delivery of one state.
const (
	tellTime  = 30 * time.Second // for one try
	tellTries = 8                // of the relay
)

// deliver sends an event to the session of the request, else to the last one of the agent,
// after the answer to the request. If that fails, it stores the event in the relay.
func (s *states) deliver(id string, body []byte) {
	a, w := s.agent, s.work
	if s.from.answered != nil {
		select {
		case <-s.from.answered:
		case <-a.ctx.Done():
			return
		}
	}
	var err error
	for n := range tellTries {
		if n > 0 && backoff.Wait(a.ctx, pauses.After(n)) != nil {
			return
		}
		if err = s.deliverOnce(id, body); err == nil || a.ctx.Err() != nil {
			return
		}
	}
	a.opts.Report(fmt.Errorf("sdlagent: %q as %q was not notified about task %s: %w", w.Identity, w.Agent, id, err))
}

func (s *states) deliverOnce(id string, body []byte) error {
	a, w := s.agent, s.work
	ctx, cancel := context.WithTimeout(a.ctx, tellTime)
	defer cancel()
	if a.opts.Partner != nil {
		if known, err := a.opts.Partner(ctx, w.Identity, w.Agent, body); known {
			return err
		}
	}
	session, ok := a.asker(s.from)
	if !ok {
		session, ok = a.opts.Told(w.Identity, w.Agent)
	}
	if ok && session.Context().Err() == nil {
		if err := a.opts.Tell(ctx, session, body); err == nil {
			return nil
		}
	}
	link, release, err := a.links.use(a.links.Self)
	if err != nil {
		return err
	}
	defer release()
	_, err = relay.Send(ctx, link.session, &relay.Publication{ID: []byte(id), Topic: Topic(w.Agent), Payload: body})
	return err
}
