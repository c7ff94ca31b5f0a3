package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
)

// strictKind takes a JSON object and nothing else.
const strictKind = "vector.strict"

// a2aProfiles are the A2A profile with a worker that does what the script says,
// for two kinds. The application sends tasks to the peers, too.
func a2aProfiles(s *stage) ([]*profiles.Profile, error) {
	db, err := s.store()
	if err != nil {
		return nil, err
	}
	service, err := a2a.New(a2a.Options{
		Store:   db,
		Workers: []a2a.Registration{{Kinds: []string{"vector.summarise", strictKind}, Worker: a2a.WorkerFunc(s.work)}},
		Validate: func(kind string, input []byte) error {
			var object map[string]any
			if kind == strictKind && json.Unmarshal(input, &object) != nil {
				return errors.New("the input is no JSON object")
			}
			return nil
		},
		Now: s.clock.now, After: s.clock.after,
	})
	if err != nil {
		return nil, err
	}
	s.onClose(service.Close)
	d := &delegate{s: s, service: service}
	s.app.opens = d.opens
	w := witnessed(s, service.Profile())
	w.Handler = d.after(w.Handler)
	return []*profiles.Profile{w}, nil
}

// work is a worker that the script leads. It ends when the script has a Result,
// or the task is over for another reason.
func (s *stage) work(ctx context.Context, t *a2a.Task, event func(string, []byte) error) ([]byte, error) {
	type outcome struct {
		output []byte
		err    error
	}
	ended := make(chan outcome, 1)
	m := a2a.TaskBody{TaskID: t.ID, Kind: []byte(t.Kind), Input: t.Input}
	s.app.record(a2a.ProfileID, a2a.TypeTask, m.Append(nil))
	answered := s.app.stops(ctx, func() {
		over := a2a.ResultBody{TaskID: t.ID}
		s.app.record(a2a.ProfileID, a2a.TypeResult, over.Append(nil))
	})
	s.app.hold(heldExchange{
		takes: func(conn string, a *e1.Envelope) bool {
			id, err := firstField(a)
			return err == nil && peerIdentity+conn == t.Peer && bytes.Equal(id, t.ID)
		},
		answer: func(a *e1.Envelope) (bool, error) {
			if a.MsgType == a2a.TypeEvent {
				var m a2a.EventBody
				if err := m.Decode(a.Payload); err != nil {
					return false, err
				}
				return false, event(string(m.Message), m.Payload)
			}
			answered()
			var m a2a.ResultBody
			if err := m.Decode(a.Payload); err != nil {
				return false, err
			}
			o := outcome{output: bytes.Clone(m.Output)}
			if !m.OK {
				o.err = &a2a.Failure{Reason: string(m.ErrorMessage), Output: o.output}
			}
			ended <- o
			return true, nil
		},
		drop:  func() { ended <- outcome{err: &a2a.Failure{Reason: "the script has no result"}} },
		waits: func() bool { return ctx.Err() == nil },
	})
	select {
	case o := <-ended:
		return o.output, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// delegate is the application that has work for the peers.
type delegate struct {
	s       *stage
	service *a2a.Service
}

// opens sends a Task to a peer. Answers are reported as they arrive; the script
// may end the task with its own Result.
func (d *delegate) opens(ctx context.Context, conn string, env *e1.Envelope) (opened bool, err error) {
	if env.MsgType != a2a.TypeTask {
		return false, nil
	}
	var m a2a.TaskBody
	if err := m.Decode(env.Payload); err != nil {
		return false, err
	}
	session := d.s.sessions[conn]
	if session == nil {
		return false, fmt.Errorf("there is no connection %q", conn)
	}
	id := bytes.Clone(m.TaskID)
	delivery, err := d.service.Send(ctx, session, &a2a.Task{ID: id, Kind: string(m.Kind), Input: bytes.Clone(m.Input)}, a2a.SendOptions{})
	if err != nil {
		return false, err
	}
	d.s.tasks.Go(func() {
		defer delivery.Close()
		d.receive(d.s.ctx, delivery, id)
	})
	d.s.app.hold(heldExchange{
		takes: func(to string, a *e1.Envelope) bool {
			own, err := firstField(a)
			return err == nil && to == conn && bytes.Equal(own, id) && a.MsgType == a2a.TypeResult
		},
		answer: func(a *e1.Envelope) (bool, error) {
			var m a2a.ResultBody
			if err := m.Decode(a.Payload); err != nil {
				return false, err
			}
			return true, delivery.Cancel(d.s.ctx, string(m.ErrorMessage))
		},
		drop: func() {},
	})
	return true, nil
}

func (d *delegate) receive(ctx context.Context, delivery *a2a.Delivery, id []byte) {
	for {
		event, err := delivery.Recv(ctx)
		switch {
		case err == nil:
			m := a2a.EventBody{TaskID: id, Message: []byte(event.Message), Payload: event.Payload}
			d.s.app.record(a2a.ProfileID, a2a.TypeEvent, m.Append(nil))
			continue
		case errors.Is(err, io.EOF):
			r := delivery.Result()
			m := a2a.ResultBody{TaskID: id, OK: r.OK, Output: r.Output, ErrorMessage: []byte(r.Reason)}
			d.s.app.record(a2a.ProfileID, a2a.TypeResult, m.Append(nil))
		}
		return
	}
}

// after tells the application of each agent that a Handshake made known, as it
// can look it up from then on.
func (d *delegate) after(h profiles.Handler) profiles.Handler {
	return profiles.HandlerFunc(func(ctx context.Context, req *profiles.Request, w profiles.Responder) error {
		err := h.Serve(ctx, req, w)
		var m a2a.HandshakeBody
		if req.MsgType != a2a.TypeHandshake || err != nil || m.Decode(req.Payload) != nil {
			return err
		}
		for _, agent := range d.service.Agents() {
			if agent.ID != string(m.AgentID) || !agent.Online {
				continue
			}
			known := a2a.HandshakeBody{AgentID: []byte(agent.ID)}
			for _, kind := range agent.Capabilities {
				known.Capabilities = append(known.Capabilities, []byte(kind))
			}
			d.s.app.record(a2a.ProfileID, a2a.TypeHandshake, known.Append(nil))
		}
		return nil
	})
}
