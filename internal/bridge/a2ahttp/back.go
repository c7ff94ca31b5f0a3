// Package a2ahttp connects to A2A 1.0 agents at URLs, by JSON-RPC or REST. A Back presents
// such an agent as Workers of profile 2: each operation is a task with the octets of the
// request as input, the events of the stream as Events, and the answer as output.
//
// Only the configuration decides the destination of requests; a card may choose among paths
// of that host. Callers choose neither host nor credentials, and URLs in their messages are
// never dialled.
//
// Specification: mcp-a2a mapping §4 and §5, ABUSE GW-08, GW-09, PR-04.
package a2ahttp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/internal/bridge/a2ajson"
	"github.com/slimwire/swp/internal/bridge/a2aowners"
	"github.com/slimwire/swp/internal/bridge/upstream"
	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/agdisc"
)

// Binding is how an agent at a URL is spoken to.
type Binding string

// The bindings of A2A 1.0 that run over HTTP.
const (
	JSONRPC Binding = "jsonrpc"
	REST    Binding = "rest"
)

// BackOptions configure a Back. Zero means the default that is named.
type BackOptions struct {
	// Name is the agent as peers know it. Required.
	Name string

	// URL is where requests go: the endpoint of JSON-RPC, or the prefix of the
	// paths of REST. Required. Nothing else is ever dialled but the card.
	URL string

	// Binding, if empty, is the binding of the first supported interface in the card, which
	// then also has the path on the host of URL.
	Binding Binding

	// CardURL is where the card is, default /.well-known/agent-card.json on the host
	// of URL.
	CardURL string

	// Told has the cards that callers get for agents in place of those at their URLs. Nil: none.
	Told agdisc.Source

	// Header is sent with every request: the credentials of this endpoint, not those
	// of callers.
	Header http.Header

	// Memory is the budget for long answers of the agent, see upstream.Options.
	Memory *memory.Budget

	// Records keep whose task each task of the agent is. Required; every store.Store
	// is one.
	Records a2aowners.Records

	// Access is asked for the operation extended_card on Name before credentials in
	// Header are used for the extended card of a caller. Nil allows everyone.
	Access profiles.Access

	Calls     int           // operations at once that are answered at once, default 64
	Streams   int           // and of those that are streams, default 256
	Silence   time.Duration // without an answer or an event, default 5 min
	Deadline  time.Duration // deadline of operations without one; default that of the Service
	Retention time.Duration // of the ownership of a task after its last use, default 30 days

	// Trouble gets errors of the agent. It must not block. It may be nil.
	Trouble func(operation string, err error)

	// Answered is called for each answer of the agent, by many goroutines at once. It may be nil.
	Answered func()

	// Now is the wall clock, default time.Now.
	Now func() time.Time
}

// Back is an agent of A2A 1.0 at a URL, as Workers of profile 2 and as a source of
// its card. Messages pass octet for octet; they are read only to find the owners
// of their tasks. It is safe for concurrent use.
type Back struct {
	opts   BackOptions
	client *upstream.Client
	owners *a2aowners.Owners
	card   cardCache
}

// cardPath is where cards are (RFC 8615).
const cardPath = "/.well-known/agent-card.json"

// NewBack returns a Back. It dials nothing. The caller closes it.
func NewBack(opts BackOptions) (*Back, error) {
	if opts.Name == "" || strings.Contains(opts.Name, "/") || opts.Records == nil {
		return nil, fmt.Errorf("a2ahttp: agent %q: a name without a slash, and records, are required", opts.Name)
	}
	if err := checkBase(opts.URL); err != nil {
		return nil, err
	}
	switch opts.Binding {
	case "", JSONRPC, REST:
	default:
		return nil, fmt.Errorf("a2ahttp: binding %q, want %s or %s", opts.Binding, JSONRPC, REST)
	}
	if opts.CardURL == "" {
		u, err := url.Parse(opts.URL)
		if err != nil {
			return nil, fmt.Errorf("a2ahttp: %w", err)
		}
		opts.CardURL = (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: cardPath}).String()
	}
	if err := upstream.CheckURL(opts.CardURL); err != nil {
		return nil, fmt.Errorf("a2ahttp: %w", err)
	}
	opts.Calls = cmp.Or(opts.Calls, 64)
	opts.Streams = cmp.Or(opts.Streams, 256)
	opts.Silence = cmp.Or(opts.Silence, 5*time.Minute)
	opts.Access = cmp.Or(opts.Access, profiles.Everyone)
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Trouble == nil {
		opts.Trouble = func(string, error) {}
	}
	if opts.Answered == nil {
		opts.Answered = func() {}
	}
	b := &Back{
		opts: opts,
		client: upstream.New(upstream.Options{
			Calls:   opts.Calls + opts.Streams + 1, // the card
			Silence: opts.Silence,
			Total:   maxTotal, // the deadline of the task is what counts
			MaxBody: maxBody, MaxLine: maxBody, Memory: opts.Memory,
		}),
		owners: a2aowners.New(a2aowners.Options{Records: opts.Records, Retention: opts.Retention, Now: opts.Now}),
	}
	b.card.init(b)
	return b, nil
}

// maxTotal limits a stream by the maximum deadline of a Task.
const maxTotal = 7 * 24 * time.Hour

// maxBody bounds an answer and an event, in octets after decompression: what fits
// into a message of profile 2.
const maxBody = 8<<20 - 16<<10

// checkBase wants a URL that paths can be appended to.
func checkBase(raw string) error {
	if err := upstream.CheckURL(raw); err != nil {
		return fmt.Errorf("a2ahttp: %w", err)
	}
	if strings.Contains(raw, "?") {
		return errors.New("a2ahttp: a URL with a query")
	}
	return nil
}

// Registrations are the Workers of the agent, for a2a.Options.
func (b *Back) Registrations() []a2a.Registration {
	calls := a2a.Registration{Agent: b.opts.Name, Worker: a2a.WorkerFunc(b.call), Tasks: b.opts.Calls, Deadline: b.opts.Deadline}
	streams := a2a.Registration{Agent: b.opts.Name, Worker: (*streaming)(b), Tasks: b.opts.Streams, Deadline: b.opts.Deadline}
	for _, o := range a2abinding.Operations() {
		if o.Streams {
			streams.Kinds = append(streams.Kinds, o.Kind())
		} else {
			calls.Kinds = append(calls.Kinds, o.Kind())
		}
	}
	return []a2a.Registration{calls, streams}
}

// Close ends what is under way for the card, and gives back the connections that
// no task is using.
func (b *Back) Close() {
	b.card.close()
	b.client.Close()
}

// call carries out an operation that has one answer.
func (b *Back) call(ctx context.Context, t *a2a.Task, _ func(string, []byte) error) ([]byte, error) {
	output, err := b.answer(ctx, t)
	return output, b.ended(ctx, t, err)
}

func (b *Back) answer(ctx context.Context, t *a2a.Task) ([]byte, error) {
	o, ok := a2abinding.OfKind(t.Kind)
	if !ok {
		return nil, a2abinding.Fail(a2abinding.CodeUnknownMethod, "no such operation")
	}
	input, err := a2ajson.Parse(t.Input)
	if err != nil {
		return nil, err
	}
	whose, err := b.admit(ctx, o, t, input)
	if err != nil {
		return nil, err
	}
	output, err := b.ask(ctx, o, t, t.Input, input)
	if err != nil {
		return nil, err
	}
	return whose.Output(ctx, output)
}

// admit refuses what is not the caller's to do.
func (b *Back) admit(ctx context.Context, o a2abinding.Operation, t *a2a.Task, input a2ajson.Object) (*a2aowners.Operation, error) {
	if o.Name == a2abinding.GetExtendedAgentCard && len(b.opts.Header) > 0 &&
		!b.opts.Access.Allowed(t.Peer, "a2a", "extended_card", b.opts.Name) {
		return nil, a2abinding.Own(a2abinding.Denied, "the extended card needs a rule of its own")
	}
	whose, err := b.owners.Operation(b.opts.Name, t.Peer, o, input)
	if err == nil {
		err = whose.Admit(ctx)
	}
	if errors.As(err, new(*a2abinding.Failure)) && !a2aowners.Offered(ctx, o, b.told) {
		err = o.Unoffered()
	}
	return whose, err
}

// ask makes the request of an operation and reads its answer.
func (b *Back) ask(ctx context.Context, o a2abinding.Operation, t *a2a.Task, octets []byte, input a2ajson.Object) ([]byte, error) {
	r, q, err := b.open(ctx, o, t, octets, input)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return q.read(r)
}

// open makes the request of an operation.
func (b *Back) open(ctx context.Context, o a2abinding.Operation, t *a2a.Task, octets []byte, input a2ajson.Object) (*upstream.Response, *request, error) {
	at, err := b.address(ctx)
	if err != nil {
		return nil, nil, err
	}
	q, err := newRequest(at, o, octets, input)
	if err != nil {
		return nil, nil, err
	}
	if q.header, err = b.header(ctx, o, t); err != nil {
		return nil, nil, err
	}
	r, err := b.client.Do(ctx, q.method, q.url, q.header, q.body)
	if err != nil {
		return nil, nil, err
	}
	return r, q, nil
}

// params are the service parameters that cross, and the headers that they become.
// Nothing else a caller says becomes a header.
var params = map[string]string{a2abinding.ParamVersion: "A2A-Version", a2abinding.ParamExtensions: "A2A-Extensions"}

// header returns the header of a request.
func (b *Back) header(ctx context.Context, o a2abinding.Operation, t *a2a.Task) (http.Header, error) {
	h := http.Header{"Accept": {"application/json"}, "Content-Type": {"application/json"}}
	if o.Streams {
		h.Set("Accept", "text/event-stream")
	}
	for _, p := range t.Params {
		name, value, _ := strings.Cut(p, "=")
		if key, ok := params[name]; ok {
			if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
				return nil, a2abinding.Fail(a2abinding.CodeInvalidRequest, "a service parameter contains a control character")
			}
			h[http.CanonicalHeaderKey(key)] = append(h[http.CanonicalHeaderKey(key)], value)
		}
	}
	if len(h["A2a-Version"]) == 0 {
		h.Set("A2A-Version", a2abinding.Version)
	}
	if hints := profiles.HintsOf(ctx, t.Kind); len(hints) > 0 {
		h.Set(profiles.HeaderPolicy, profiles.FormatHints(hints))
	}
	if d := profiles.DelegationOf(ctx); d != nil {
		h.Set("Swp-Delegation", profiles.FormatDelegation(d))
	}
	if trace := profiles.TraceOf(ctx); trace.Parent != "" {
		h.Set("Traceparent", trace.Parent)
		if trace.State != "" {
			h.Set("Tracestate", trace.State)
		}
	}
	for name, values := range b.opts.Header {
		h[http.CanonicalHeaderKey(name)] = values
	}
	return h, nil
}

// ended makes of an error what the caller may learn, and tells who looks after the
// agent of those that are not the caller's.
func (b *Back) ended(ctx context.Context, t *a2a.Task, err error) error {
	if err == nil {
		b.opts.Answered()
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	if f, ok := errors.AsType[*a2abinding.Failure](err); ok {
		return f.Result()
	}
	if told, ok := errors.AsType[*answered](err); ok {
		b.opts.Answered()
		return &told.failure
	}
	b.opts.Trouble(strings.TrimPrefix(t.Kind, "a2a/"+a2abinding.Version+"/"), err)
	return b.own(err).Result()
}

// own is the failure of this side for an error of the connection (R6). Its text has
// the name of the agent, and names no host.
func (b *Back) own(err error) *a2abinding.Failure {
	for _, row := range []struct {
		err    error
		reason a2abinding.Reason
		text   string
	}{
		{upstream.ErrUnreached, a2abinding.NoRoute, "agent %s cannot be reached"},
		{upstream.ErrBusy, a2abinding.NoRoute, "too many calls of agent %s at once"},
		{upstream.ErrSilent, a2abinding.Deadline, "agent %s was silent for too long"},
		{upstream.ErrTotal, a2abinding.Deadline, "agent %s took too long"},
		{upstream.ErrTooLarge, a2abinding.TooLarge, "the answer of agent %s is too large"},
		{upstream.ErrLost, a2abinding.LinkLost, "the connection to agent %s was lost"},
		{upstream.ErrBroken, a2abinding.NoRoute, "agent %s answered in a way that is not understood"},
		{errRefused, a2abinding.NoRoute, "agent %s refused the request"},
		{errNoInterface, a2abinding.NoRoute, "agent %s offers no interface that can be used"},
	} {
		if errors.Is(err, row.err) {
			return a2abinding.Own(row.reason, fmt.Sprintf(row.text, b.opts.Name))
		}
	}
	return a2abinding.Own(a2abinding.LinkLost, "the operation was not completed")
}
