package mcpmap

import (
	"slices"
	"sync"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// maxEarly is how many messages are kept that arrived before the msg_id of their call, or
// the id of their session, was known. This happens between writing a request and entering
// it.
const (
	maxEarly       = 64
	maxEarlyOctets = 1 << 20
)

// Asked is a request of a server to the client of a legacy session. It must be answered
// once, by any goroutine.
type Asked struct {
	// Message is the request, unchanged. The callee may keep its octets.
	Message Message

	w     profiles.Responder
	leave func() // ends the use of the lane on which the answer goes
	timer *time.Timer
	once  sync.Once
}

// Answer sends the response, octet for octet. The error is an *Error if it is not a
// JSON-RPC response; then the request must still be answered.
func (a *Asked) Answer(octets []byte) error {
	var msg Message
	if err := msg.Scan(octets); err != nil {
		return err
	}
	if err := msg.Check(Response); err != nil {
		return err
	}
	err := profiles.ErrFinished
	a.timer.Stop()
	a.once.Do(func() {
		err = a.w.Finish(e1.Envelope{MsgType: uint64(Response), Payload: octets})
		a.leave()
	})
	return err
}

// Refuse answers with a JSON-RPC error that carries the id of the request.
func (a *Asked) Refuse(fault *profiles.Error) {
	a.timer.Stop()
	a.refuse(fault)
}

func (a *Asked) refuse(fault *profiles.Error) {
	a.once.Do(func() {
		domain := *fault
		domain.Domain = true
		a.w.Fail(&domain)
		a.leave()
	})
}

// ownerOf is owner of a message that may also be for a call that is being opened; mine says
// whether it is for a call or a session of this side at all.
func (c *Client) ownerOf(e *early) (events Events, box *inbox, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	events, box = c.owner(e)
	return events, box, box != nil || c.mayBe(e)
}

// owns reports whether a message of the peer is for a call or a session of this side.
func (c *Client) owns(req *profiles.Request) bool {
	e := earlyOf(req)
	_, _, mine := c.ownerOf(&e)
	return mine
}

// asked handles a request of the peer for a call or a session of this side; took is false
// if there is no such call or session.
func (c *Client) asked(req *profiles.Request, msg *Message) (took bool, err error) {
	e := earlyOf(req)
	events, box, mine := c.ownerOf(&e)
	if !mine {
		return false, nil
	}
	if box != nil && events.Request == nil {
		return true, &profiles.Error{
			Code: profiles.NotFound, Detail: "mcp_not_asked", Text: "this client answers no requests", Domain: true,
			Answer: e1.Envelope{
				MsgType: uint64(Response), MsgID: req.MsgID,
				Payload: appendError(req.Scratch(512), msg.ID(), CodeMethodNotFound, "this client answers no requests"),
			},
		}
	}
	held, w, err := req.Hold()
	if err != nil {
		return true, err
	}
	a := &Asked{Message: msg.On(slices.Clone(held.Payload)), w: w, leave: c.stay(e.session, held.Lane)}
	a.timer = time.AfterFunc(c.m.opts.LongIdle, func() {
		a.refuse(&profiles.Error{Code: profiles.Internal, Detail: detailDeadline, Text: "the client did not answer in time"})
	})
	e.asked = a
	c.deliver(&e)
	return true, nil
}

// receiveNotification handles a notification of the peer for a call or a session of this
// side; it returns false if there is no such call or session.
func (c *Client) receiveNotification(req *profiles.Request, msg *Message) bool {
	e := earlyOf(req)
	if _, _, mine := c.ownerOf(&e); !mine {
		return false
	}
	if e.related != "" {
		req.Exchange.About(profiles.Subject{Operation: string(msg.Method()), Part: true})
	}
	e.octets, e.keeps = slices.Clone(msg.Octets()), profiles.EndToEndOf(&req.Envelope)
	e.mark, _, _ = profiles.Uvarint(req.Extensions, ExtWindow) // a malformed one is not confirmed
	c.deliver(&e)
	return true
}

func earlyOf(req *profiles.Request) early {
	related, _ := req.Extensions.Lookup(ExtRelated)
	session, _ := req.Extensions.Lookup(ExtSession)
	return early{kind: Kind(req.MsgType), related: string(related), session: string(session)}
}

// size returns the number of octets of the message.
func (e *early) size() int {
	if e.asked != nil {
		return len(e.asked.Message.Octets())
	}
	return len(e.octets)
}

// hears reports whether there is a callback for a kind of message.
func (e *Events) hears(kind Kind) bool {
	if kind == Request {
		return e.Request != nil
	}
	return e.Notification != nil || e.Forward != nil
}

// owner finds the receiver of a message: its call, or its session if the call has ended or
// has no callback for it. It returns nil for a message that may belong to a call that is
// being opened. The caller holds mu.
func (c *Client) owner(e *early) (Events, *inbox) {
	out := c.calls[e.related]
	switch {
	case out != nil && out.events.hears(e.kind):
		return out.events, &out.inbox
	case out == nil && e.related != "" && c.opening > 0:
		return Events{}, nil
	}
	if s := c.sessions[e.session]; s != nil {
		return s.events, s.inbox
	}
	if out != nil {
		return out.events, &out.inbox
	}
	if e.related == "" && e.session == "" && len(c.sessions) == 1 {
		// If the peer does not support session ids, there is one session for each target.
		for key, s := range c.sessions {
			if key[0] == 0 {
				return s.events, s.inbox
			}
		}
	}
	return Events{}, nil
}

// mayBe reports whether a message without an owner could belong to a call that is being
// opened, or to a session. A message with the id of an exchange or a session of the peer is
// for the serving side. The caller holds mu.
func (c *Client) mayBe(e *early) bool {
	return e.related != "" && c.opening > 0 && !c.c.serves(e.related) ||
		e.session != "" && c.initializing > 0 && !c.m.serves(e.session)
}

func (c *conn) serves(msgID string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.exchanges[msgID] != nil
}

func (m *Mapping) serves(session string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sessions[session] != nil
}

// deliver passes a message to its owner, or keeps it until the owner is known.
func (c *Client) deliver(e *early) {
	c.mu.Lock()
	defer c.mu.Unlock()
	events, box := c.owner(e)
	switch {
	case box != nil:
		c.hand(e, events, box)
	case c.mayBe(e) && len(c.early) < maxEarly && c.earlyOctets+e.size() <= maxEarlyOctets:
		c.early = append(c.early, *e)
		c.earlyOctets += e.size()
	default:
		c.drop(e)
	}
}

// deliverEarly delivers early messages whose owner is now known, and drops those that
// cannot have one any more. The caller holds mu.
func (c *Client) deliverEarly() {
	kept := c.early
	c.early, c.earlyOctets = nil, 0
	for i := range kept {
		e := &kept[i]
		events, box := c.owner(e)
		switch {
		case box != nil:
			c.hand(e, events, box)
		case c.mayBe(e):
			c.early = append(c.early, *e)
			c.earlyOctets += e.size()
		default:
			c.drop(e)
		}
	}
}

func (c *Client) hand(e *early, events Events, box *inbox) {
	ok := false
	switch {
	case e.asked != nil && events.Request != nil:
		asked := e.asked
		ok = box.push(e.size(), func() { events.Request(asked) })
	case e.asked == nil && events.Forward != nil:
		octets, keeps, took := e.octets, e.keeps, c.taker(e)
		ok = box.push(e.size(), func() { events.Forward(octets, keeps); took() })
	case e.asked == nil && events.Notification != nil:
		octets, took := e.octets, c.taker(e)
		ok = box.push(e.size(), func() { events.Notification(octets); took() })
	default:
		c.drop(e)
		return
	}
	if !ok {
		c.overrun(e)
		c.drop(e)
	}
}

// errOverrun ends a call whose notifications were not taken in time. The server may have executed
// it.
var errOverrun = &profiles.Error{
	Code: profiles.RateLimitExceeded, Detail: "mcp_overrun", Pace: true, Domain: true,
	Text: "the notifications of this call came faster than they were read, so some were lost; the call was cancelled",
}

// overrun ends the call that a notification belongs to, because there is no room for it. One of
// a session belongs to no call: it is only counted. The caller holds mu.
func (c *Client) overrun(e *early) {
	if out := c.calls[e.related]; out != nil && e.asked == nil {
		c.m.stats.overrun.Add(1)
		out.cancel(errOverrun)
	}
}

// takenNote is the payload of a confirmation, which no server gets.
var takenNote = []byte(`{"jsonrpc":"2.0","method":"swp.mcp.taken"}`)

// taker returns a function to call when a notification was taken: it confirms the number that
// the notification carries, if any. The caller holds mu.
func (c *Client) taker(e *early) func() {
	out, mark := c.calls[e.related], e.mark
	switch {
	case mark == 0 || out == nil && e.related != "":
		return func() {}
	case out == nil:
		session := e.session
		return func() { c.tookOf(session, mark) }
	}
	return func() {
		c.mu.Lock()
		open := c.all[out]
		if open {
			out.route.users.Add(1)
		}
		c.mu.Unlock()
		if !open {
			return // nothing waits for the confirmation
		}
		defer out.route.release()
		_ = out.route.lane.Send(c.c.sess.Context(), e1.Envelope{ // without a connection it is not needed
			ProfileID: ProfileID, MsgType: uint64(Notification), Payload: takenNote,
			Extensions: e1.AppendExtensionUvarint(e1.AppendExtension(nil, ExtRelated, out.msgID), ExtTaken, mark),
		})
	}
}

// tookOf confirms notifications of a session that belong to no call.
func (c *Client) tookOf(session string, mark uint64) {
	_ = c.c.sess.Send(c.c.sess.Context(), e1.Envelope{ // without a connection it is not needed, and a later one stands for it
		ProfileID: ProfileID, MsgType: uint64(Notification), Payload: takenNote,
		Extensions: e1.AppendExtensionUvarint(e1.AppendExtension(nil, ExtSession, []byte(session)), ExtTaken, mark),
	})
}

// drop gives a message up. The caller holds mu.
func (c *Client) drop(e *early) {
	c.m.stats.dropped.Add(1)
	if e.mark > 0 && e.related == "" {
		go c.tookOf(e.session, e.mark) // its server waits for that
	}
	if e.asked != nil {
		go e.asked.Refuse(profiles.Busy("mcp_not_asked", "nobody answers here"))
	}
}

// open is called before a call is sent; opened is called when its msg_id is known, or it
// was not sent.
func (c *Client) open(out *outgoing, initialize bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all[out] = true
	c.opening++
	if initialize {
		c.initializing++
	}
}

func (c *Client) opened(out *outgoing, msgID []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opening--
	if msgID != nil {
		out.msgID = slices.Clone(msgID)
		c.calls[string(msgID)] = out
	}
	close(out.sent)
	c.deliverEarly()
}

// initialized is called when the session of an initialize is known, or will not come.
func (c *Client) initialized() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.initializing--
	c.deliverEarly()
}

func (c *Client) unregister(out *outgoing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.all, out)
	delete(c.calls, string(out.msgID))
}
