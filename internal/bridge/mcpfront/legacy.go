package mcpfront

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/slimwire/swp/internal/bridge/mcpheader"
	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// sessionGone is the answer to a request that names no session of the caller.
// That it is another caller's is not said (ABUSE GW-05).
func (f *Front) sessionGone(w http.ResponseWriter, id []byte) {
	f.refuse(w, http.StatusNotFound, refusal{code: mcpmap.CodeInternal, text: "unknown session", id: id, swp: profiles.NotFound})
}

// legacy takes a message of a client that has a session, or opens one. It reports whether it
// has passed held on, which is then released elsewhere.
func (f *Front) legacy(w http.ResponseWriter, r *http.Request, target string, m *mcpmap.Message, held *memory.Hold) (passed bool) {
	id := m.ID()
	if m.Kind() != mcpmap.Request {
		id = nil
	}
	if m.Is(mcpmap.MethodInitialize) && m.Kind() == mcpmap.Request {
		return f.initialize(w, r, target, m, held)
	}
	if r.Header.Get(mcpheader.Session) == "" {
		f.refuse(w, http.StatusBadRequest, refusal{
			code: mcpmap.CodeInvalidRequest, id: id,
			text: mcpheader.Session + " is missing: a request that is not of " + mcpmap.ModernVersion + " is part of a session, which initialize opens",
		})
		return false
	}
	s := f.session(r, target)
	if s == nil {
		f.sessionGone(w, id)
		return false
	}
	defer s.release()
	if !s.speaks(r) {
		f.refuse(w, http.StatusBadRequest, refusal{code: mcpmap.CodeInvalidRequest, id: id, text: "MCP-Protocol-Version is not a version of this session"})
		return false
	}
	switch m.Kind() {
	case mcpmap.Response:
		s.answer(w, m)
	case mcpmap.Notification:
		s.notify(w, r, m)
	default:
		return s.request(w, r, m, held)
	}
	return false
}

// speaks says whether the version that a request names, if it does, is one that the
// session can have.
func (s *frontSession) speaks(r *http.Request) bool {
	v := r.Header.Get(mcpheader.Version)
	s.mu.Lock()
	defer s.mu.Unlock()
	return v == "" || v == s.version || slices.Contains(legacyVersions, v)
}

// open says whether initialize has opened the session at the other end.
func (s *frontSession) open() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.remote != ""
}

// initialize opens a session. Its id goes with the head of the response, unless the
// answer is there by then and opens none.
func (f *Front) initialize(w http.ResponseWriter, r *http.Request, target string, m *mcpmap.Message, held *memory.Hold) (passed bool) {
	caller := f.opts.Caller(r)
	link, err := f.opts.Connect(r.Context(), caller)
	if err != nil {
		f.writeJSON(w, http.StatusOK, f.failure(m.ID(), err))
		return false
	}
	s, ok := f.open(r.Context(), caller, target, link)
	if !ok {
		f.refuse(w, http.StatusTooManyRequests, busy(m.ID(), "too many sessions"))
		return false
	}
	defer s.release()
	w.Header().Set(mcpheader.Session, s.id)
	return s.request(w, r, m, held)
}

// ended reports whether a request was ended at this side, not by its client.
func ended(ctx context.Context) bool {
	return ctx.Err() != nil && context.Cause(ctx) != context.Canceled //nolint:errorlint // the cause of net/http
}

// request passes a request on. It goes on when the client is gone, but not when its request
// was ended here. held is released with the end of the call.
func (s *frontSession) request(w http.ResponseWriter, r *http.Request, m *mcpmap.Message, held *memory.Hold) (passed bool) {
	fd, err := s.openFeed()
	switch {
	case errors.Is(err, errDropped): // since it was found
		s.f.sessionGone(w, m.ID())
		return false
	case err != nil:
		s.f.refuse(w, http.StatusTooManyRequests, busy(m.ID(), "too many exchanges of this session"))
		return false
	}
	s.f.counts.legacy.Add(1)
	me := &reader{left: make(chan struct{})}
	s.claim(fd, me)
	s.use()
	ctx, cancel := context.WithCancel(s.f.onward(s.ctx, r))
	context.AfterFunc(r.Context(), func() {
		if ended(r.Context()) {
			cancel()
		}
	})
	go func() {
		defer s.work.Done()
		defer s.release()
		defer cancel()
		defer held.Release()
		s.call(ctx, fd, m)
	}()
	s.serve(w, r, fd, me, 0)
	return true
}

// call executes a request. ctx is the context of the session.
func (s *frontSession) call(ctx context.Context, fd *feed, m *mcpmap.Message) {
	call := &mcpmap.Call{Target: s.target, Octets: m.Octets(), Events: s.eventsOf(fd)}
	var link *Link
	var err error
	initialize := m.Is(mcpmap.MethodInitialize)
	if initialize {
		link = s.link // no other goroutine has it yet
		call.Events = s.initial(fd)
	} else if link, call.Session, err = s.way(s.ctx); err != nil {
		s.finish(fd, m.ID(), http.StatusOK, s.f.failure(m.ID(), err))
		return
	}
	result, err := link.MCP.Do(ctx, call)
	switch {
	case errors.Is(err, mcpmap.ErrCancelled): // who cancels wants no answer
		s.finish(fd, m.ID(), http.StatusOK, nil)
	case err != nil:
		s.finish(fd, m.ID(), http.StatusOK, s.f.failure(m.ID(), err))
	default:
		s.tasks.See(result.Octets)
		s.finish(fd, m.ID(), max(result.Status, http.StatusOK), s.opened(initialize, m, result))
		if result.Status == http.StatusNotFound && !initialize {
			s.gone()
		}
	}
	if initialize && (err != nil || result.Session == "") {
		s.drop()
	}
}

// initial are the events of initialize: they also carry messages of the session
// that belong to no other call, once it is answered.
func (s *frontSession) initial(fd *feed) mcpmap.Events {
	where := func() *feed {
		s.mu.Lock()
		defer s.mu.Unlock()
		if fd.over {
			return s.feeds[0]
		}
		return fd
	}
	return mcpmap.Events{
		Notification: func(octets []byte) { s.append(where(), octets) },
		Request:      func(a *mcpmap.Asked) { s.ask(where(), a) },
	}
}

// opened notes what the answer to initialize says, and returns what the client is
// told.
func (s *frontSession) opened(initialize bool, m *mcpmap.Message, result *mcpmap.Result) []byte {
	if !initialize {
		return result.Octets
	}
	var answer struct {
		Result *struct {
			Version string `json:"protocolVersion"`
		} `json:"result"`
	}
	_ = json.Unmarshal(result.Octets, &answer) // or it agreed upon nothing
	if answer.Result == nil {
		return result.Octets
	}
	if result.Session == "" {
		return s.f.failure(m.ID(), &profiles.Error{
			Code: profiles.Internal, Detail: "mcp_session", Text: "the other end gives its sessions no names, so two of them could be taken for one",
		})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remote, s.version = result.Session, answer.Result.Version
	return result.Octets
}

// notify passes a notification on.
func (s *frontSession) notify(w http.ResponseWriter, r *http.Request, m *mcpmap.Message) {
	link, remote, err := s.way(r.Context())
	if err == nil {
		err = link.MCP.Notify(r.Context(), s.target, remote, m.Octets())
	}
	if err != nil {
		s.f.writeJSON(w, http.StatusServiceUnavailable, s.f.failure(nil, err))
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// answer passes the client's answer to a request of the server.
func (s *frontSession) answer(w http.ResponseWriter, m *mcpmap.Message) {
	if a := s.take(mcpmap.TokenKey(m.ID())); a == nil || a.Answer(m.Octets()) != nil {
		s.f.refuse(w, http.StatusBadRequest, invalid("no request of the server waits for this answer"))
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// get serves the stream of messages that the server starts, or resumes a lost
// stream.
func (f *Front) get(w http.ResponseWriter, r *http.Request, target string) {
	if r.Header.Get(mcpheader.Session) == "" || modern(r) {
		f.notAllowed(w)
		return
	}
	if !accepts(r, mcpheader.Events) {
		f.refuse(w, http.StatusNotAcceptable, invalid("Accept has to name "+mcpheader.Events))
		return
	}
	s := f.session(r, target)
	if s == nil {
		f.sessionGone(w, nil)
		return
	}
	defer s.release()
	me := &reader{left: make(chan struct{})}
	last := r.Header.Get(mcpheader.Last)
	s.mu.Lock()
	fd := s.feeds[0]
	after := fd.read
	s.mu.Unlock()
	if last != "" {
		var err error
		if fd, after, err = s.place(last); err != nil {
			f.refuse(w, http.StatusBadRequest, invalid(err.Error()))
			return
		}
	}
	s.claim(fd, me)
	if fd.n == 0 {
		ctx, cancel := context.WithCancel(s.ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.listen(ctx, me)
		}()
		defer func() {
			cancel()
			<-done
		}()
	}
	s.serve(w, r, fd, me, after)
}

// delete ends a session.
func (f *Front) delete(w http.ResponseWriter, r *http.Request, target string) {
	if r.Header.Get(mcpheader.Session) == "" {
		f.notAllowed(w)
		return
	}
	s := f.session(r, target)
	if s == nil {
		f.sessionGone(w, nil)
		return
	}
	defer s.release()
	ctx, cancel := context.WithTimeout(r.Context(), leaveTime)
	defer cancel()
	s.end(ctx)
	w.WriteHeader(http.StatusNoContent)
}
