package slip

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/agents/slipa2a"
	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/rpc"
	messages "github.com/slimwire/swp/profiles/slip"
	"github.com/slimwire/swp/slip/slipstream"
	"github.com/slimwire/swp/slip/ucr"
)

// bridge is between profile 1025 and SLIP-A2A: a line for an agent of A2A becomes the message
// of a task, and a message for an agent that hears profile 1025 becomes a line. Both go through
// a door under the identity of the sender, so that the rules, limits and hints of the other side
// hold for it as for every peer. It implements Bridge of profile 1025.
type bridge struct {
	w    *Words
	way  *part.Door
	work sync.WaitGroup // lines that wait for their answers

	refusals sync.Map // chan *profiles.PeerError by the msg_id of a line
}

// bridgeExchanges is the limit of concurrent exchanges of one crossing, which makes one task, or
// sends one line.
const bridgeExchanges = 4

// refusalWait is how long a message waits for its agent to refuse it.
const refusalWait = 500 * time.Millisecond

// sending is the kind of a task that has a message.
var sending = func() string {
	o, _ := a2abinding.Named(a2abinding.SendMessage)
	return o.Kind()
}()

func newBridge(w *Words, door part.DoorOptions) (*bridge, error) {
	b := &bridge{w: w}
	var err error
	b.way, err = part.NewDoor(door, all.Options{
		A2A: a2a.Options{Carrier: w.o.Served.Inside()},
		SLIP: messages.Options{
			Receive: func(profiles.Session, *messages.Message) error {
				return messages.Refuse(messages.CodeUnknownDestination, "there is no agent here")
			},
			Returned: func(_ profiles.Session, msgID []byte, why *profiles.PeerError) {
				if c, ok := b.refusals.Load(string(msgID)); ok {
					select {
					case c.(chan *profiles.PeerError) <- why: //nolint:errcheck // the map holds nothing else
					default: // there is one already
					}
				}
			},
		},
	})
	return b, err
}

// speaks returns the extension of an agent of this endpoint that gets messages of A2A now, nil
// for another.
func (b *bridge) speaks(agentID string) *A2A {
	if s := b.w.now.Load().agents[agentID]; s != nil && b.w.o.Served.Set().A2A.Takes(agentID, sending) {
		return s
	}
	return b.w.o.Remote(agentID)
}

// Has implements Bridge of profile 1025.
func (b *bridge) Has(agentID string) bool { return b.speaks(agentID) != nil }

// Cross implements Bridge of profile 1025.
func (b *bridge) Cross(ctx context.Context, c *messages.Crossing, answered func(messages.Answered)) error {
	s := b.speaks(c.Dst)
	if s == nil {
		return messages.Refuse(messages.CodeUnknownDestination, fmt.Sprintf("agent %.100q has just left", c.Dst))
	}
	input, err := s.x.FromLine(rand.Text(), slipa2a.Line{Text: c.Line, Same: c.Same})
	if err != nil {
		return messages.Refuse(string(slipstream.TooLong), err.Error())
	}
	session, err := b.way.Pass(c.Identity)
	if err != nil {
		return messages.Refuse(messages.CodeDenied, err.Error())
	}
	task := &a2a.Task{Kind: sending, Input: input, Params: []string{"a2a-version=1.0", slipa2a.Param}}
	d, err := b.way.Profiles().A2A.Send(ctx, session, task, a2a.SendOptions{Agent: c.Dst, Hops: c.Hops})
	if err != nil {
		session.Close(profiles.OK)
		return err
	}
	src, dst := c.Src, c.Dst
	b.work.Go(func() {
		defer session.Close(profiles.OK)
		defer d.Close()
		answered(answerOf(d, s, src, dst))
	})
	return nil
}

// answerOf waits for the answer of an agent to a line.
func answerOf(d *a2a.Delivery, s *A2A, src, dst string) messages.Answered {
	for {
		_, err := d.Recv(context.Background()) // it ends with the session, and the task at its deadline
		switch {
		case err == nil: // an Event, which no agent has for this kind
		case errors.Is(err, io.EOF):
			return answerIn(d.Result(), s, src, dst)
		default:
			return messages.Answered{Code: messages.CodeUnanswered, Text: "slip: the answer of the agent is lost: " + err.Error()}
		}
	}
}

func answerIn(r *a2a.Result, s *A2A, src, dst string) messages.Answered {
	if r.OK {
		line, err := s.x.ToLine(r.Output, dst, src)
		if err != nil {
			return messages.Answered{Code: messages.CodeUnanswered, Text: fmt.Sprintf("slip: agent %.100q has the message, and its answer is no line: %v", dst, err)}
		}
		return messages.Answered{Line: line.Text, Same: line.Same}
	}
	f, _ := a2abinding.OfResult(r)
	code := messages.CodeRefused
	if class := slipa2a.ClassOf(f); class != "" && f.Code == a2abinding.CodeInvalidParams {
		code = string(class)
	} else if refused, ok := a2a.RefusalCode(r.Reason); ok && len(r.Output) == 0 {
		switch refused {
		case profiles.SecurityPolicy:
			code = messages.CodeDenied
		case profiles.NotFound:
			code = messages.CodeUnknownDestination
		default:
			code = refused.Alias()
		}
	}
	return messages.Answered{Code: code, Text: "slip: " + f.Message}
}

// carry passes a line on to an agent of this endpoint that hears profile 1025, or for which the
// relay keeps it. One of the same name at a partner is not the agent of the task.
func (b *bridge) carry(ctx context.Context, agent string, t *a2a.Task, line slipa2a.Line) error {
	if _, known := b.w.o.Served.Set().A2A.Owner(agent); !known && !b.w.Keeps(agent) {
		return a2abinding.Own(a2abinding.NoRoute, messages.CodeUnknownDestination+": agent "+agent+" is not here").Result()
	}
	session, err := b.way.Pass(t.Peer)
	if err != nil {
		return a2abinding.Own(a2abinding.Denied, err.Error()).Result()
	}
	defer session.Close(profiles.OK)
	lane, err := session.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = lane.Close() }()
	env := e1.Envelope{ProfileID: messages.ProfileID, MsgType: messages.TypeSLIP, MsgID: profiles.NewMsgID(), Payload: []byte(line.Text)}
	if line.Same {
		env.Extensions = e1.AppendExtension(env.Extensions, messages.ExtUCRHash, []byte(ucr.CoreHash))
	}
	if t.Hops > 0 {
		env.Extensions = e1.AppendExtensionUvarint(env.Extensions, profiles.ExtHops, t.Hops)
	}
	refused := make(chan *profiles.PeerError, 1)
	b.refusals.Store(string(env.MsgID), refused)
	defer b.refusals.Delete(string(env.MsgID))
	if err := lane.Send(profiles.WithForward(ctx, b.w.o.Served.Inside(), profiles.Onward{}, nil), env); err != nil {
		return err
	}
	if err := rpc.Sync(ctx, lane); err != nil {
		return err
	}
	select {
	case why := <-refused:
		return failureOf(why).Result()
	case <-time.After(refusalWait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// failureOf is a SLIP_ERR as the failure of a task.
func failureOf(why *profiles.PeerError) *a2abinding.Failure {
	text := why.Code + ": " + why.Message
	switch why.Code {
	case messages.CodeDenied:
		return a2abinding.Own(a2abinding.Denied, text)
	case messages.CodeUnknownDestination:
		return a2abinding.Own(a2abinding.NoRoute, text)
	}
	return a2abinding.Own(a2abinding.LinkLost, text)
}

// close ends what is under way.
func (b *bridge) close() {
	b.way.End()
	b.work.Wait()
	b.way.Close()
}
