package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/profiles/slip"
	"github.com/slimwire/swp/slip/nslip"
	"github.com/slimwire/swp/slip/ucr"
	"github.com/slimwire/swp/transport/endpoint"
)

// SLIPMessage is a message of nSLIP or SLIP v1.
type SLIPMessage struct {
	// Text is the line. nSLIP begins with "@"; it may have arrived in the binary form.
	Text string

	// Handles are the known values of the slots of nSLIP.
	Handles []slip.Meaning
}

// SLIPOptions configure NewSLIP.
type SLIPOptions struct {
	// Anchors are the anchors of this side, default the core of UCR 1.0.0.
	Anchors *ucr.Table

	// Heard receives the messages for the agents of this side, in order within a lane. It
	// must not block. The sender gets its error. Nil refuses all messages.
	Heard func(SLIPMessage) error

	// Refused is called for messages of this side that were not delivered. It must not
	// block. It may be nil.
	Refused func(msgID []byte, err *profiles.PeerError)
}

// NewSLIP returns profiles that receive messages of nSLIP and SLIP v1, for
// Options.Profiles. The caller closes them.
func NewSLIP(o SLIPOptions) (*all.Set, error) {
	receive := func(_ profiles.Session, m *slip.Message) error {
		if o.Heard == nil {
			return slip.Refuse(slip.CodeUnknownDestination, "there is no agent here")
		}
		text, err := lineOf(m)
		if err != nil {
			return err
		}
		return o.Heard(SLIPMessage{text, slices.Clone(m.Handles)})
	}
	returned := func(_ profiles.Session, msgID []byte, err *profiles.PeerError) {
		if o.Refused != nil {
			o.Refused(msgID, err)
		}
	}
	return all.New(all.Options{SLIP: slip.Options{Anchors: o.Anchors, Receive: receive, Returned: returned}})
}

// lineOf returns a message as a line of text.
func lineOf(m *slip.Message) (string, error) {
	text := m.Payload
	if m.Type == slip.TypeBinary {
		var err error
		// Every message that was read can be written; escapes may make it longer than the
		// usual bounds.
		if text, err = (nslip.Codec{MaxMessage: math.MaxInt, MaxString: math.MaxInt}).Append(nil, &m.NSLIP); err != nil {
			return "", err
		}
	}
	return string(bytes.Trim(text, " \t\r\n")), nil
}

// SendSLIP sends a message and returns its msg_id when the peer has accepted or refused it;
// a refusal has then been passed to Refused of the profiles. Another endpoint on the way
// may refuse it later. The text begins with "@" if it is nSLIP.
func (c *Client) SendSLIP(ctx context.Context, m SLIPMessage) (msgID []byte, err error) {
	info, err := c.Info(ctx)
	failed, answered := errors.AsType[*rpc.Error](err)
	unknown := answered && failed.Code == rpc.CodeUnknownMethod
	if err != nil && !answered && endpoint.OverProfile(err) && c.admitted(ctx) {
		err = c.reconnect(ctx) // the peer has ended the connection over swp.info
		unknown = err == nil
	}
	if err != nil && !unknown {
		return nil, err
	}
	if !unknown && !slices.ContainsFunc(info.Profiles, func(p rpc.ProfileInfo) bool { return p.ID == slip.ProfileID }) {
		return nil, fmt.Errorf("%s does not serve profile %d, messages of SLIP", c.address, slip.ProfileID)
	}
	text := bytes.Trim([]byte(m.Text), " \t\r\n")
	msgType := uint64(slip.TypeSLIP)
	if bytes.HasPrefix(text, []byte("@")) {
		msgType = slip.TypeNSLIP
	}
	err = c.onLane(ctx, func(lane profiles.Lane) error {
		if msgID, err = slip.Send(ctx, lane, msgType, text, m.Handles...); err != nil {
			return err
		}
		return c.sync(ctx, lane)
	})
	return msgID, err
}

// SLIPListener receives messages as an agent of an endpoint, over as many connections as
// necessary. Connect, Agent and Heard are required.
type SLIPListener struct {
	// Connect makes a connection with profiles. It is called again after each loss.
	Connect func(ctx context.Context, set *all.Set) (*Client, error)
	Agent   string     // agent_id to declare
	Anchors *ucr.Table // default the core of UCR 1.0.0

	// Heard is called with each message, one at a time. If it returns an error, Listen ends
	// with that error.
	Heard func(SLIPMessage) error

	// Count is how many messages are received before Listen ends; 0 means no limit. Further
	// messages are refused.
	Count uint64

	// Silence is how long the endpoint may take to answer a request for a sign of life;
	// default 10 s.
	Silence time.Duration

	// Attached is called when the endpoint has accepted the agent. Lost is called with the
	// reason why a connection ended and the pause before the next attempt. Both may be nil.
	Attached func(c *Client)
	Lost     func(err error, pause time.Duration)
}

// maxUnheard is how many messages wait for Heard; more are refused.
const maxUnheard = 256

var (
	errUnheard = profiles.Busy("unheard", "client: the agent does not keep up")
	errEnough  = profiles.Busy("enough", "client: the agent is about to leave")
)

// Listen receives messages until ctx ends or Count is reached. Neither is an error.
func (l SLIPListener) Listen(ctx context.Context) error {
	heard := make(chan SLIPMessage, maxUnheard)
	var came atomic.Uint64
	set, err := NewSLIP(SLIPOptions{Anchors: l.Anchors, Heard: func(m SLIPMessage) error {
		if n := came.Add(1); l.Count > 0 && n > l.Count {
			came.Add(^uint64(0))
			return errEnough
		}
		select {
		case heard <- m:
			return nil
		default:
			came.Add(^uint64(0))
			return errUnheard
		}
	}})
	if err != nil {
		return err
	}
	defer set.Close()
	w := &listening{SLIPListener: l, set: set, heard: heard}
	connect := func(ctx context.Context) (*Client, error) { return l.Connect(ctx, set) }
	again := again{connect: connect, silence: cmp.Or(l.Silence, 10*time.Second), lost: l.Lost}
	err = again.run(ctx, w.run)
	if ctx.Err() == nil || errors.As(err, new(*finalError)) {
		return err
	}
	return w.rest()
}

// listening is the state of Listen.
type listening struct {
	SLIPListener
	set   *all.Set
	heard <-chan SLIPMessage
	n     uint64
}

// run listens over one connection, and closes it at once when it is done: during a drain
// more messages would arrive, and nothing would process them.
func (w *listening) run(ctx context.Context, c *Client, moved func()) error {
	if err := w.set.A2A.Declare(ctx, c.Session, w.Agent, nil); err != nil {
		return err
	}
	if err := c.agentTaken(ctx, w.Agent); err != nil {
		return err
	}
	moved()
	if w.Attached != nil {
		w.Attached(c)
	}
	for w.Count == 0 || w.n < w.Count {
		select {
		case m := <-w.heard:
			if err := w.hear(m); err != nil {
				return err
			}
		case <-c.Context().Done():
			return context.Cause(c.Context())
		case <-ctx.Done():
			c.Close()
			return nil
		}
	}
	c.Close()
	return nil
}

func (w *listening) hear(m SLIPMessage) error {
	w.n++
	if err := w.Heard(m); err != nil {
		return &finalError{err}
	}
	return nil
}

// rest processes the messages that arrived before the end, because their senders consider
// them delivered.
func (w *listening) rest() error {
	for {
		select {
		case m := <-w.heard:
			if err := w.hear(m); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}
