package mcpmap

import (
	"context"
	"encoding/json"

	"github.com/slimwire/swp/profiles"
)

// Names of the built-in RPC methods by which a client looks after a legacy
// session. Their params are those of SessionParams.
const (
	MethodRPCListen = "swp.mcp.listen"
	MethodRPCClose  = "swp.mcp.close"
)

type sessionParams struct {
	Target  string `json:"target"` // may be absent
	Session string `json:"session"`
	Idle    bool   `json:"idle,omitempty"`    // of MethodRPCClose: only if the session is idle
	Standby bool   `json:"standby,omitempty"` // of MethodRPCListen: no program waits, the session may be idle
}

// ListenParams returns the params of MethodRPCListen. With standby, the endpoint that listens has no
// client that waits for messages now; the session may be idle nevertheless.
func ListenParams(target, session string, standby bool) []byte {
	return marshal(sessionParams{Target: target, Session: session, Standby: standby})
}

// IdleParams returns the params of MethodRPCClose for a session that is to end only if it is idle.
func IdleParams(target, session string) []byte {
	return marshal(sessionParams{Target: target, Session: session, Idle: true})
}

// SessionParams returns the params by which MethodRPCListen and MethodRPCClose name a
// session of a target.
func SessionParams(target, session string) []byte {
	return marshal(sessionParams{Target: target, Session: session})
}

func marshal(p sessionParams) []byte {
	params, err := json.Marshal(p)
	if err != nil {
		panic(err) // of strings it does not fail
	}
	return params
}

// Listen serves swp.mcp.listen of a peer, or of one of its callers: later messages of the server of a session are sent on lane,
// which must stay open until ended is called. ended is called once: when the session ends,
// another call of Listen replaces it, or after release; with a retryable error when the
// Mapping is drained. The RPC is held open until then.
//
// The error is an *Error of NotFound if the session is unknown or belongs to another
// identity.
func (m *Mapping) Listen(sess profiles.Session, of *profiles.Peer, lane profiles.Lane, params []byte, ended func(error)) (release func(), err error) {
	s, p, err := m.addressed(of, params)
	if err != nil {
		return nil, err
	}
	profiles.Learn(sess, profiles.Offer{Profiles: []uint64{ProfileID}}) // on this connection nothing of it may have come yet
	c := m.conn(sess)
	s.setConn(c)
	l := &listener{conn: c, lane: lane, standby: p.Standby, ended: ended}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, unknownSession()
	}
	old := s.listener
	s.listener = l
	s.startPump()
	s.mu.Unlock()
	s.tellListened()
	if old != nil {
		old.end(nil)
	}
	if m.draining.Load() { // Drain may have missed it
		s.unheard(l)
		l.end(errDraining)
	}
	stays := profiles.OnDraining(sess, func() {
		s.unheard(l)
		l.end(errDraining)
	})
	return func() {
		stays()
		s.unheard(l)
		l.end(nil)
	}, nil
}

// unheard removes a listener from its session, if it is still there.
func (s *serverSession) unheard(l *listener) {
	s.mu.Lock()
	if s.listener == l {
		s.listener = nil
		s.room.Open()
	}
	s.mu.Unlock()
	s.tellListened()
}

// tellListened tells the conversation whether the client listens.
func (s *serverSession) tellListened() {
	s.telling.Lock()
	defer s.telling.Unlock()
	s.mu.Lock()
	conv, listens := s.conv, s.listener != nil && !s.listener.standby
	s.mu.Unlock()
	if conv, ok := conv.(Listened); ok {
		conv.Listen(listens)
	}
}

// End serves swp.mcp.close: it ends a session and its conversation with the server. The
// error is that of Listen.
func (m *Mapping) End(of *profiles.Peer, params []byte) error {
	s, p, err := m.addressed(of, params)
	if err != nil {
		return err
	}
	if _, idle := s.idleSince(); p.Idle && !idle {
		return profiles.Busy(detailSession, "the session is in use")
	}
	s.close()
	return nil
}

// addressed returns the session in params, and the params.
func (m *Mapping) addressed(of *profiles.Peer, params []byte) (s *serverSession, p sessionParams, err error) {
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, p, profiles.Errorf(profiles.InvalidProfilePayload, `params are not {"target": string, "session": string}`)
	}
	if s := m.session(p.Session, of, p.Target); s != nil {
		return s, p, nil
	}
	return nil, p, unknownSession()
}

func unknownSession() *profiles.Error {
	return &profiles.Error{Code: profiles.NotFound, Detail: detailSession, Text: "unknown session", Domain: true}
}

// listen implements swp.mcp.listen: it stays open while the caller receives the messages of
// the server of a session.
func (m *Mapping) listen(p profiles.Pending, params []byte) error {
	release, err := m.Listen(p.Session(), p.Peer(), p.Lane(), params, profiles.Done(p))
	if err != nil {
		return err
	}
	context.AfterFunc(p.Context(), release)
	return nil
}

// end implements swp.mcp.close.
func (m *Mapping) end(req *profiles.Request, params []byte) ([]byte, error) {
	return nil, m.End(req.Peer(), params)
}
