package mcpmap

import (
	"context"
	"strings"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// Serve implements profiles.Handler. It validates the same octets that are forwarded.
func (m *Mapping) Serve(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
	var msg Message
	if err := msg.Scan(req.Payload); err != nil {
		return err
	}
	if err := msg.Check(Kind(req.MsgType)); err != nil {
		return err
	}
	c := m.conn(req.Session)
	if method := msg.Method(); len(method) > 0 {
		req.About(string(method), "")
	}
	switch Kind(req.MsgType) {
	case Request:
		if client := c.calling(); client != nil {
			if took, err := client.asked(req, &msg); took {
				return err
			}
		}
		return m.request(c, req, &msg)
	case Notification:
		if confirmed, err := c.confirmed(req); confirmed || err != nil {
			return err
		}
		if client := c.calling(); client != nil && client.receiveNotification(req, &msg) {
			return nil
		}
		return m.notification(c, req, &msg)
	case Response:
		// An answer without a call: the endpoint counts it.
	}
	return nil
}

// request starts an exchange with the server that the request is for.
func (m *Mapping) request(c *conn, req *profiles.Request, msg *Message) error {
	if id, ok := req.Extensions.Lookup(ExtSession); ok {
		s := m.session(string(id), req.Peer(), target(req))
		if s == nil || !req.Inherit(s.peer) {
			return m.sessionGone(req, msg)
		}
		if err := m.allowed(req, msg, s.target); err != nil {
			return err
		}
		if _, err := m.concerned(req, msg, s.target, s); err != nil {
			return err
		}
		return s.request(c, req, msg)
	}
	server, name, err := m.route(c, req, msg)
	if err != nil {
		return err
	}
	s := c.sessionFor(req, msg, name)
	holder, err := m.concerned(req, msg, name, s)
	switch {
	case err != nil:
		return err
	case s != nil:
		return s.request(c, req, msg)
	case msg.Is(MethodInitialize):
		return m.open(c, req, msg, server, name, false)
	case msg.Modern():
		x, err := m.newExchange(c, nil, name, server, req, msg)
		if err != nil {
			return err
		}
		if holder != nil {
			holder.Do(x)
		} else {
			server.Do(x)
		}
		x.watch()
		return nil
	}
	return m.open(c, req, msg, server, name, true)
}

// sessionFor returns the session of a request that names none, or nil.
func (c *conn) sessionFor(req *profiles.Request, msg *Message, target string) *serverSession {
	if msg.Is(MethodInitialize) || msg.Modern() {
		return nil
	}
	return c.currentSession(target, req.Identity())
}

// notification forwards a notification of a client. One without a receiver is dropped,
// because a notification has no answer. A cancellation belongs to the exchange that it ends
// and needs no permission.
func (m *Mapping) notification(c *conn, req *profiles.Request, msg *Message) error {
	if msg.Is(MethodCancelled) {
		if x := c.related(req, msg); x != nil && !x.initialize {
			// This ends the exchange for both ends; later messages of the server about it
			// are dropped (MCP: the sender of a cancellation ignores later responses).
			x.abandon(msg.Octets(), nil)
			return nil
		}
	}
	var s *serverSession
	if id, ok := req.Extensions.Lookup(ExtSession); ok {
		if s = m.session(string(id), req.Peer(), target(req)); s != nil && !req.Inherit(s.peer) {
			s = nil
		}
	} else if name, ok := m.named(req); ok {
		s = c.currentSession(name, req.Identity())
	}
	if s == nil {
		m.stats.dropped.Add(1)
		return nil
	}
	if err := m.allowed(req, msg, s.target); err != nil {
		return err
	}
	s.notify(c, msg)
	return nil
}

// nameOf is the name of a message to a server in the access rules.
func nameOf(msg *Message, server string) string {
	if msg.Is(MethodToolsCall) {
		return server + "/" + string(msg.Tool())
	}
	return server
}

// allowed asks whether the peer may send a message to a server. It uses the same octets
// that are forwarded.
func (m *Mapping) allowed(req *profiles.Request, msg *Message, server string) error {
	if req.May(m.opts.Access, profileName, string(msg.Method()), nameOf(msg, server)) {
		return nil
	}
	return profiles.ErrDenied
}

// act is a request or a notification for a server. Messages for calls and sessions of this
// side are answers to requests of this side.
func (m *Mapping) act(req *profiles.Request) (profiles.Act, error) {
	var msg Message
	if err := msg.Scan(req.Payload); err != nil {
		return profiles.Act{}, err
	}
	if err := msg.Check(Kind(req.MsgType)); err != nil {
		return profiles.Act{}, err
	}
	c := m.conn(req.Session)
	act := profiles.Act{Operation: string(msg.Method()), Ruled: true}
	if _, ok := req.Extensions.Lookup(ExtTaken); ok && Kind(req.MsgType) == Notification {
		act.Free = true
		return act, nil
	}
	if client := c.calling(); client != nil && client.owns(req) {
		act.Free = true
		return act, nil
	}
	if msg.Is(MethodCancelled) {
		if x := c.related(req, &msg); x != nil && !x.initialize {
			act.Ends = true
			return act, nil
		}
	}
	server, named := m.named(req)
	if id, ok := req.Extensions.Lookup(ExtSession); ok {
		s := m.session(string(id), req.Peer(), target(req))
		if named = s != nil; named {
			server = s.target
		}
	}
	if !named {
		act.Free = true // without a server the handler refuses or drops it
		return act, nil
	}
	act.Name, act.Targets = nameOf(&msg, server), []string{server}
	return act, nil
}

func target(req *profiles.Request) string {
	name, _ := req.Extensions.Lookup(ExtTarget)
	return string(name)
}

// named returns the name of the server of a message.
func (m *Mapping) named(req *profiles.Request) (string, bool) {
	if name, ok := req.Extensions.Lookup(ExtTarget); ok {
		return string(name), true
	}
	if m.opts.Backend == nil {
		return "", false
	}
	_, def := m.opts.Backend.Targets()
	return def, def != ""
}

// Targets returns the names of the servers that a peer may use.
func (m *Mapping) Targets(peer *profiles.Peer) []string {
	names := []string{}
	if m.opts.Backend == nil {
		return names
	}
	all, _ := m.opts.Backend.Targets()
	for _, name := range all {
		if profiles.Reaches(m.opts.Access, peer.Identity, profileName, name) {
			names = append(names, name)
		}
	}
	return names
}

// route finds the server of a request, and checks whether the peer may send the request
// there. That check comes first, so that a hidden server looks like an absent one. The
// error is a JSON-RPC error; if there is no such server it lists the existing ones. A
// session and a task outlive their server in the Backend: then Server is nil.
func (m *Mapping) route(c *conn, req *profiles.Request, msg *Message) (Server, string, error) {
	name, ok := m.named(req)
	if ok {
		if err := m.allowed(req, msg, name); err != nil {
			return nil, "", err
		}
	}
	if m.opts.Backend != nil && ok {
		if server, found := m.opts.Backend.Server(name); found {
			return server, name, nil
		}
	}
	if ok && (c.sessionFor(req, msg, name) != nil || m.remains(req, msg, name)) {
		return nil, name, nil
	}
	names := m.Targets(req.Peer())
	text := "no target given"
	if ok {
		text = "unknown target"
	}
	if len(names) == 0 {
		text += "; no servers here"
	} else {
		text += "; choose one of: " + strings.Join(names, ", ")
	}
	fault := &profiles.Error{Code: profiles.NotFound, Detail: "mcp_target", Text: text, Domain: true}
	fault.Answer = e1.Envelope{MsgType: uint64(Response), MsgID: req.MsgID, Payload: m.unknownTarget(req.Scratch(512), msg.ID(), fault)}
	return nil, "", fault
}

// unknownTarget appends the answer to a request for an unknown server. Details beyond the
// requirements of MCP are added only if this endpoint has an identity.
func (m *Mapping) unknownTarget(dst, id []byte, fault *profiles.Error) []byte {
	if m.opts.Identity == "" {
		return appendError(dst, id, CodeInvalidParams, fault.Text)
	}
	return appendData(appendErrorHead(dst, id, CodeInvalidParams, fault.Text, textRoom(id, m.opts.Identity)), fault, m.opts.Identity)
}

// sessionGone is the answer to a request for a session that has ended or belongs to another
// peer. It does not say which.
func (m *Mapping) sessionGone(req *profiles.Request, msg *Message) error {
	fault := &profiles.Error{Code: profiles.NotFound, Detail: detailSession, Text: "unknown session", Domain: true}
	fault.Answer = e1.Envelope{
		MsgType:    uint64(Response),
		MsgID:      req.MsgID,
		Extensions: e1.AppendExtensionUvarint(nil, ExtHTTPStatus, 404),
		Payload:    AppendFailureOf(req.Scratch(512), msg.ID(), fault, m.opts.Identity),
	}
	return fault
}

// appendUnsupported appends the answer to a modern request for a server that is not.
//
//	{"jsonrpc":"2.0","id":7,"error":{"code":-32022,"message":"…","data":{"supported":["2025-11-25"],"requested":"2026-07-28"}}}
func appendUnsupported(dst []byte, msg *Message, supported []string) []byte {
	dst = appendErrorHead(dst, msg.ID(), CodeUnsupportedVersion, "unsupported protocol version", maxErrorText)
	dst = append(dst, `,"data":{"supported":[`...)
	for i, v := range supported[:min(len(supported), 6)] {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendQuoted(dst, v, 32)
	}
	dst = append(dst, `],"requested":`...)
	dst = appendQuoted(dst, msg.Version(), 32)
	return append(dst, "}}}"...)
}

// FailStatus is Fail with an HTTP status (extension 20). The failure is not reported.
func (x *Exchange) FailStatus(err *profiles.Error, status int) {
	if !x.pin() {
		return // ended: the octets of the request may be released
	}
	defer x.unpin()
	x.FinishFailed(AppendFailureOf(nil, x.Message.ID(), err, x.m.opts.Identity), status)
}

// FailVersion ends a modern exchange whose server supports only the given versions of the
// legacy era. Eras are never translated into each other.
func (x *Exchange) FailVersion(supported []string) {
	if !x.pin() {
		return // ended: the octets of the request may be released
	}
	defer x.unpin()
	x.FinishFailed(appendUnsupported(nil, &x.Message, supported), 0)
}
