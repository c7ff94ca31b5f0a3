// Package sdlagent serves A2A-SDL: it connects the language to the profile that carries it,
// and to this endpoint:
//
//	toolcall.v1  server/tool or partner/server/tool calls a tool of an MCP server;
//	             a name without a slash is a function of serve.Options.Tools
//	task.v1      becomes a task of kind sdl/task.v1 for the worker of that kind.
//	             Its progress is sent as evt state.v1 to the agent that asked: on
//	             the last session of the agent, or through the relay under
//	             sdl/<agent_id>
//	artifact.v1  stores and reads artifacts of profile 14
//	state.v1     adds patches to states of profile 17, and reads them
//
// It acts for a peer over a separate session to this endpoint under the identity of the
// peer: rules, quotas, hints and the audit trail apply as to direct requests.
//
// Nonces, sessions, the trust registry and unfinished tasks are stored in Records and
// survive a restart.
//
// Specification: A2A-SDL §16.
package sdlagent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/profiles"
	carriage "github.com/slimwire/swp/profiles/sdl"
	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/serve"
)

// Options configure an Agent. Language and Records are required.
type Options struct {
	// Language configures the SDL server, until SetLanguage. Names of its Tools have no
	// slash; New sets Tasks.
	Language serve.Options

	// May reports whether an identity may act as an agent. It must not block. Nil allows
	// all.
	May func(identity, agentID string) bool

	// Fetches reports whether the messages of a peer may name their schemas by address, if
	// Language can load them. Nil: none may.
	Fetches func(*profiles.Peer) bool

	// Allowed reports whether the access rules let an identity do an operation of a profile on
	// a name. Answers list only what the caller may use. It must not block. Nil allows all.
	Allowed func(identity, profile, operation, name string) bool

	// Records stores the state that survives a restart.
	Records Records

	// Inside configures sessions to this endpoint. Without Inside.Connect, tools of servers
	// and tasks are not available.
	Inside Inside

	// Target splits the name of a tool with a slash into an MCP server and its tool. Nil
	// knows none.
	Target func(name string) (server, tool string, ok bool)

	// Told returns a session on which an identity acts as an agent. Nil knows none.
	Told func(identity, agentID string) (profiles.Session, bool)

	// Tell delivers an event on a session. Nil: carriage.Tell.
	Tell func(ctx context.Context, s profiles.Session, body []byte) error

	// Answered returns what is closed once the answer to the message that a session has
	// under way has gone to the program behind the session. Nil, and a nil channel:
	// Message.Answered.
	Answered func(s profiles.Session) <-chan struct{}

	// Partner delivers an event to an agent of a partner. known is false if identity is not
	// a partner. Nil: there are no partners.
	Partner func(ctx context.Context, identity, agentID string, body []byte) (known bool, err error)

	Tasks int // most unfinished tasks, default 1,024; see SetTasks

	// Report receives errors that are not sent to peers. It must not block. May be nil.
	Report func(error)
}

// Agent implements sdl.Server of the profile. It is safe for concurrent use.
type Agent struct {
	opts     Options
	language atomic.Pointer[language]
	links    *links

	ctx    context.Context // canceled by Close
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	most   int                // tasks
	tasks  map[string]*origin // unfinished tasks, by key
	going  sync.WaitGroup
}

// language is the SDL server with the options that it was made from.
type language struct {
	*serve.Server
	serve.Options
}

// New returns an Agent. It restores sessions from Records; Start continues stored tasks.
// The caller must call Close.
func New(ctx context.Context, o Options) (*Agent, error) {
	if o.May == nil {
		o.May = func(string, string) bool { return true }
	}
	if o.Allowed == nil {
		o.Allowed = func(string, string, string, string) bool { return true }
	}
	if o.Fetches == nil {
		o.Fetches = func(*profiles.Peer) bool { return false }
	}
	if o.Report == nil {
		o.Report = func(error) {}
	}
	if o.Told == nil {
		o.Told = func(string, string) (profiles.Session, bool) { return nil, false }
	}
	if o.Tell == nil {
		o.Tell = func(ctx context.Context, s profiles.Session, body []byte) error { return carriage.Tell(ctx, s, body) }
	}
	if o.Answered == nil {
		o.Answered = func(profiles.Session) <-chan struct{} { return nil }
	}
	if o.Tasks == 0 {
		o.Tasks = 1024
	}
	if o.Records == nil {
		return nil, errors.New("sdlagent: no Records")
	}
	a := &Agent{opts: o, most: o.Tasks, links: newLinks(o.Inside), tasks: make(map[string]*origin)}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	if err := a.SetLanguage(o.Language); err != nil {
		return nil, err
	}
	if err := a.recallSessions(ctx); err != nil {
		return nil, err
	}
	return a, nil
}

// SetTasks changes how many unfinished tasks there may be. Tasks above a lower bound
// continue.
func (a *Agent) SetTasks(most int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.most = most
}

// SetLanguage replaces the options for new messages. Its Sessions must be those of the
// previous options, or nil. Messages in progress finish with the previous options.
func (a *Agent) SetLanguage(o serve.Options) error {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Tools = &tools{Agent: a, own: o.Tools}
	if a.opts.Inside.Connect != nil {
		o.Tasks, o.Handlers = a, a.contents(o.Handlers)
	}
	o.Offers, o.Keep = a.offers, a.keep
	failed := o.Failed
	o.Failed = func(r *serve.Request, err error) {
		a.opts.Report(fmt.Errorf("sdlagent: %s of %q: %w", r.Envelope.CT, r.Caller.Identity, err))
		if failed != nil {
			failed(r, err)
		}
	}
	server, err := serve.New(o)
	if err != nil {
		return err
	}
	a.language.Store(&language{server, o})
	return nil
}

// Start continues the tasks that the previous process left unfinished. Call it once, when
// this endpoint accepts requests.
func (a *Agent) Start(ctx context.Context) error { return a.recallTasks(ctx) }

// Close ends all activity and waits for it. Unfinished tasks stay in Records.
func (a *Agent) Close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.cancel()
	a.going.Wait()
	a.links.close()
}

// messageKey is the context key of Handle, and message its value.
type messageKey struct{}

type message struct {
	origin
	form sdl.Form
}

func messageOf(ctx context.Context) message {
	m, _ := ctx.Value(messageKey{}).(message)
	return m
}

// Handle implements the Server of the profile.
func (a *Agent) Handle(ctx context.Context, m *carriage.Message) carriage.Answer {
	identity, language := m.From, a.language.Load()
	judged := false // refusals after this point are security decisions
	denied, claimed := false, ""
	form, caller := formOf(m.Form), serve.Caller{
		Identity: identity, Type: sdl.TypeReq, MayUse: func(agentID string) bool {
			judged, claimed = true, agentID
			may := a.opts.May(identity, agentID)
			denied = !may
			return may
		},
	}
	if a.opts.Fetches(m.Session.Peer()) {
		caller.Fetches = func() { carriage.Rest(ctx) }
	}
	from := origin{session: m.Session, answered: m.Answered}
	if own := a.opts.Answered(m.Session); own != nil {
		from.answered = own
	}
	ctx = context.WithValue(ctx, messageKey{}, message{from, form})
	if m.Type == carriage.TypeEvt {
		// Events have no consumer here: valid, trusted and fresh ones are counted and
		// dropped.
		caller.Type = sdl.TypeEvt
		r, refused := language.Receive(ctx, m.Body, form, caller)
		if refused != nil {
			fault := faultOf(refused, judged)
			fault.Denied = denied
			return carriage.Answer{Claimed: claimed, Fault: fault}
		}
		return carriage.Answer{Agent: r.Agent(), Claimed: claimed}
	}
	out := language.Handle(ctx, m.Body, form, caller)
	answer := carriage.Answer{Body: out.Answer, Claimed: claimed}
	if out.Request != nil {
		answer.Agent = out.Request.Agent()
	}
	if out.Err != nil {
		answer.Fault = faultOf(out.Err, judged && out.Request == nil)
		answer.Fault.Mismatch, answer.Fault.Denied = out.Answer == nil, denied
	}
	return answer
}

// Refusal implements Server of the profile. The error repeats nothing of the message, which
// was not parsed.
func (a *Agent) Refusal(form carriage.Form, f *carriage.Fault) []byte {
	return formOf(form).Append(nil, a.language.Load().Refuse(errorOf(f)).Response)
}

func formOf(f carriage.Form) sdl.Form {
	if f == carriage.CBOR {
		return sdl.CBOR
	}
	return sdl.JSON
}

func faultOf(e *sdl.Error, security bool) *carriage.Fault {
	f := &carriage.Fault{Code: string(e.Code), Retryable: e.Retryable, Security: security}
	f.Reason, _ = e.Details.Get("reason").Text()
	if e.Reason != "" {
		f.Cause = errors.New(e.Reason) // without the code, which the Fault has
	}
	return f
}

// spawn runs f on a goroutine that Close waits for. It returns false after Close.
func (a *Agent) spawn(f func()) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return false
	}
	a.going.Go(f)
	return true
}

var errClosed = errors.New("sdlagent: closed")
