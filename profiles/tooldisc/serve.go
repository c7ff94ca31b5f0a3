package tooldisc

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// CodeNotFound is the code of a TOOLDISC_ERR for a tool or version that does not exist or
// that this peer may not see. Other refusals have the alias of the canonical code, such as
// INVALID_PROFILE_PAYLOAD; RATE_LIMIT_EXCEEDED means that the same message may succeed
// later.
const CodeNotFound = "NOT_FOUND"

// ExtStale is the extension of a LIST_RESP or a GET_RESP with the milliseconds for which a partner with
// tools in it has been unreachable: their descriptions may be outdated.
const ExtStale = 16

// errUnknown refuses absent tools, and those that the peer may not see.
var errUnknown = &profiles.Error{Code: profiles.NotFound, Detail: "tooldisc_unknown", Text: "tool not found", Domain: true}

// errHidden is errUnknown for tools that the peer may not see. The peer cannot distinguish
// them.
var errHidden = profiles.Deny(errUnknown)

func (s *Service) serve(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
	switch req.MsgType {
	case TypeListReq:
		if err := new(ListReq).Decode(req.Payload); err != nil {
			return err
		}
		req.About("list", "")
		return req.Detach(s.list)
	case TypeGetReq:
		var in GetReq
		if err := in.Decode(req.Payload); err != nil {
			return err
		}
		req.About("get", string(in.ToolID))
		return req.Detach(s.get)
	}
	return check(&req.Envelope) // an answer to no call of ours: well formed it is counted and dropped
}

// list answers a LIST_REQ.
func (s *Service) list(ctx context.Context, req *profiles.Request, w profiles.Responder) error {
	var in ListReq
	if err := in.Decode(req.Payload); err != nil {
		return err
	}
	identity := req.Identity()
	var unread []Unread
	if len(in.PageToken) == 0 {
		unread = s.refresh(ctx, identity)
	}
	out, stale, err := s.page(identity, &in)
	if err != nil {
		return err
	}
	env := e1.Envelope{MsgType: TypeListResp, Payload: out.Append(make([]byte, 0, out.Size()))}
	if stale > 0 {
		env.Extensions = e1.AppendExtensionUvarint(nil, ExtStale, stale)
	}
	env.Extensions = appendUnread(env.Extensions, unread)
	return w.Finish(env)
}

// refresh waits for the servers and the partners of which an identity may see tools, at the same
// time, and returns those that are not known or may be outdated.
func (s *Service) refresh(ctx context.Context, identity string) []Unread {
	ctx, cancel := context.WithTimeout(ctx, s.patience(identity))
	defer cancel()
	var partners []Unread
	var asked sync.WaitGroup
	asked.Go(func() { partners = s.askPartners(ctx, identity) })
	servers := s.reached(identity)
	s.await(ctx, servers)
	asked.Wait()
	return s.unread(identity, servers, partners)
}

// patience returns how long an identity waits for servers. A partner has a caller that waits for it.
func (s *Service) patience(identity string) time.Duration {
	if s.opts.Partner != nil && s.opts.Partner(identity) {
		return s.opts.Behind
	}
	return s.opts.Wait
}

// reached returns the watches of the servers that an identity may use. Other identities
// neither start a server nor wait for it.
func (s *Service) reached(identity string) map[string]*watch {
	watches := *s.watches.Load()
	rules, ok := s.opts.Access.(profiles.Reacher)
	if !ok {
		return watches
	}
	some := make(map[string]*watch)
	for name, w := range watches {
		if rules.Reaches(identity, "mcp", name) {
			some[name] = w
		}
	}
	return some
}

// get answers a GET_REQ. The permission is checked first, so that the response time reveals
// nothing about hidden tools.
func (s *Service) get(ctx context.Context, req *profiles.Request, w profiles.Responder) error {
	var in GetReq
	if err := in.Decode(req.Payload); err != nil {
		return err
	}
	identity, id := req.Identity(), string(in.ToolID)
	if !s.mayGet(identity, id) {
		return errHidden
	}
	server, of := s.watch(id)
	if of != nil {
		ctx, cancel := context.WithTimeout(ctx, s.patience(identity))
		s.await(ctx, map[string]*watch{server: of})
		cancel()
	}
	e := s.catalogue.Load().find(id, string(in.Version))
	switch {
	case e == nil && of != nil && of.unread() != "":
		fault := *errUnknown
		fault.Text += fmt.Sprintf("; the tools of %s are not known: %.*s", server, maxReason, of.unread())
		return &fault
	case e == nil:
		return errUnknown
	}
	out := GetResp{Tool: e.descriptor()}
	return w.Finish(e1.Envelope{MsgType: TypeGetResp, Payload: out.Append(make([]byte, 0, out.Size()))})
}

// watch returns the watch of the server of a tool, with its name, or nil.
func (s *Service) watch(id string) (server string, w *watch) {
	server, _, ok := strings.Cut(id, "/")
	if !ok {
		return "", nil
	}
	return server, (*s.watches.Load())[server]
}

// mayGet decides whether an identity may get a tool. A tool that it may not call is not
// audited as an attempt to call it.
func (s *Service) mayGet(identity, id string) bool {
	if _, w := s.watch(id); w != nil {
		return s.mayCall(identity, id)
	}
	return s.opts.Access.Allowed(identity, s.profile.Name, "get", id)
}

// check returns an error for a malformed answer.
var check = p1.WellFormed(Messages)

// refusals are the TOOLDISC_ERRs of this endpoint and of peers.
var refusals = p1.Refusals{
	Profile: Name, Type: TypeErr, Of: []uint64{TypeListReq, TypeGetReq},
	New: func() (p1.ErrMessage, p1.ErrFields) {
		m := new(Err)
		return m, p1.ErrFields{Code: &m.Code, Message: &m.Message}
	},
}
