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
}

// SessionParams returns the params by which MethodRPCListen and MethodRPCClose name a
// session of a target.
func SessionParams(target, session string) []byte {
	params, err := json.Marshal(sessionParams{target, session})
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
	s, err := m.addressed(of, params)
	if err != nil {
		return nil, err
	}
	profiles.Learn(sess, profiles.Offer{Profiles: []uint64{ProfileID}}) // on this connection nothing of it may have come yet
	c := m.conn(sess)
	s.setConn(c)
	l := &listener{conn: c, lane: lane, ended: ended}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, unknownSession()
	}
	old := s.listener
	s.listener = l
	s.startPump()
	s.mu.Unlock()
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
	defer s.mu.Unlock()
	if s.listener == l {
		s.listener = nil
		s.room.Open()
	}
}

// End serves swp.mcp.close: it ends a session and its conversation with the server. The
// error is that of Listen.
func (m *Mapping) End(of *profiles.Peer, params []byte) error {
	s, err := m.addressed(of, params)
	if err != nil {
		return err
	}
	s.close()
	return nil
}

// addressed returns the session in params.
func (m *Mapping) addressed(of *profiles.Peer, params []byte) (*serverSession, error) {
	var p sessionParams
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, profiles.Errorf(profiles.InvalidProfilePayload, `params are not {"target": string, "session": string}`)
	}
	if s := m.session(p.Session, of, p.Target); s != nil {
		return s, nil
	}
	return nil, unknownSession()
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
