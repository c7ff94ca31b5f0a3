package partner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/rpc"
)

// Hop wraps the handler of a profile so that messages for partners are forwarded: messages
// with a target (extension 52), and messages whose names begin with a partner. Other
// messages go to the original handler. Access rules are checked with local names before
// anything is stored.
//
// Messages of one lane are forwarded in order. A message without a success answer counts as
// accepted here after the partner has confirmed its acceptance by swp.sync.
func (d *Directory) Hop(p *profiles.Profile, access profiles.Access) profiles.Handler {
	if access == nil {
		access = profiles.Everyone
	}
	return &hop{
		d: d, profile: p, next: p.Handler, access: access,
		heeds: slices.Contains(p.Extensions, profiles.ExtTarget),
	}
}

// hop is the handler that Hop returns.
type hop struct {
	d       *Directory
	profile *profiles.Profile
	next    profiles.Handler
	access  profiles.Access
	heeds   bool // the profile handles targets itself
}

// Serve implements profiles.Handler.
func (h *hop) Serve(ctx context.Context, req *profiles.Request, w profiles.Responder) error {
	if req.Unsolicited || h.heeds {
		return h.next.Serve(ctx, req, w)
	}
	target, err := h.target(req)
	switch c := h.profile.Crossing; {
	case err != nil:
		return err
	case target != "" && c == nil:
		return profiles.ErrTarget
	case target == "" && (c == nil || c.Rename == nil || !h.d.any() || bytes.IndexByte(req.Payload, '/') < 0):
		return h.next.Serve(ctx, req, w)
	}
	errand, err := h.profile.Crossing.Read(&req.Envelope)
	if err != nil {
		return err
	}
	r, err := h.route(target, &errand)
	switch {
	case err != nil:
		return err
	case r == nil, errand.Answers == profiles.Here:
		return h.next.Serve(ctx, req, w)
	}
	return h.begin(ctx, r, &errand, req)
}

// target returns the target of a message; empty if its names decide.
func (h *hop) target(req *profiles.Request) (string, error) {
	target, err := profiles.TargetOf(req.Extensions)
	if c := h.profile.Crossing; target == "" && err == nil && c != nil && c.Target != nil && h.d.any() {
		return c.Target(&req.Envelope), nil
	}
	return target, err
}

// route is the destination of a message.
type route struct {
	link   *Link  // nil: there is no such partner; only callers allowed to use it learn that
	rest   string // rest of the target, after the partner
	named  bool   // the names of the message decided, without a target
	prefix string // prefix of local names for names at the partner
}

// here converts a name at the partner to a local name.
func (r *route) here(name string) string {
	switch {
	case r.named:
		return name
	case name == "":
		return strings.TrimSuffix(r.prefix, "/")
	}
	return r.prefix + name
}

// route returns the destination of a message; nil if it stays here.
func (h *hop) route(target string, errand *profiles.Errand) (r *route, err error) {
	if target != "" {
		first, rest, _ := strings.Cut(target, "/")
		return &route{link: h.d.find(first), rest: rest, prefix: target + "/"}, nil
	}
	for i, name := range errand.Names {
		link, _, ok := h.d.Split(name)
		switch {
		case i == 0 && ok:
			r = &route{link: link, named: true, prefix: link.Name() + "/"}
		case i > 0 && (ok != (r != nil) || ok && r.link != link):
			return nil, errMixed
		}
	}
	return r, nil
}

// errMixed refuses a message with names of several endpoints.
var errMixed = &profiles.Error{
	Code: profiles.InvalidProfilePayload, Detail: "partner_mixed", Domain: true,
	Text: "all names have to be behind the same partner, or all here",
}

func errUnknown(name string) *profiles.Error {
	return &profiles.Error{
		Code: profiles.NotFound, Detail: "partner_unknown", Domain: true, Text: fmt.Sprintf("there is no partner %.80q", name),
	}
}

// begin checks the access rules for a forwarded message, and forwards it.
func (h *hop) begin(ctx context.Context, r *route, errand *profiles.Errand, req *profiles.Request) error {
	t := &trip{
		hop: h, route: r, ctx: context.WithoutCancel(ctx), passage: profiles.PassageOf(req.Extensions, time.Now()),
		caller: req.Identity(), operation: errand.Operation, by: errand.By,
	}
	names := errand.Names
	if len(names) == 0 {
		names = []string{""}
	}
	t.name = r.here(names[0])
	req.Exchange.About(profiles.Subject{Operation: errand.Operation, Name: t.name, Part: errand.Part && !errand.Sole.Ends})
	for _, name := range names {
		if !errand.Free && !t.allowed(req, r.here(name)) {
			return profiles.Deny(profiles.Errorf(profiles.SecurityPolicy, "%s: not allowed to %s %.200s", h.profile.Name, errand.Operation, r.here(name)))
		}
	}
	if r.link == nil {
		partner, _, _ := strings.Cut(r.prefix, "/")
		return errUnknown(partner)
	}
	if fault := t.passage.Spent(); fault != nil {
		return fault
	}
	if fault := r.link.claims.take(errand.Sole, t.caller); fault != nil {
		return fault
	}
	if admit := h.profile.Crossing.Admit; admit != nil {
		if err := admit(req, errand, r.link.Identity()); err != nil {
			return err
		}
	}
	if answer, ok := t.kept(req); ok {
		_, w, err := req.Hold()
		if err == nil {
			err = w.Finish(answer)
		}
		return err
	}
	switch errand.Answers {
	case profiles.Many, profiles.Endless:
		return t.pass(req, errand.Answers == profiles.Endless)
	case profiles.Refusal:
		h.d.sequences.push(req.Lane, r.link, &transit{trip: t, env: req.Envelope.Clone(), done: req.Defer()})
	default:
		held, w, err := req.Hold()
		if err != nil {
			return err
		}
		h.d.sequences.push(req.Lane, r.link, &transit{trip: t, env: held.Envelope, w: w})
	}
	return nil
}

// trip is a forwarded message with its context.
type trip struct {
	*hop
	*route
	passage   profiles.Passage
	ctx       context.Context // with the metadata to send along; it is never canceled
	caller    string
	operation string
	by        []uint64 // msg_types that answer it
	name      string   // its subject in access rules here
	anyones   bool     // its answers are for every caller: the partner is told of none
}

// allowed checks the access rules for the message and a local name.
func (t *trip) allowed(req *profiles.Request, name string) bool {
	if t.profile.Crossing.May == nil {
		return profiles.Allowed(req.Exchange, t.access, t.caller, t.profile.Name, t.operation, name)
	}
	return t.may(t.access, name)
}

// may checks the access rules for a local name.
func (t *trip) may(access profiles.Access, name string) bool {
	if may := t.profile.Crossing.May; may != nil {
		return may(access, t.caller, t.operation, name)
	}
	return access.Allowed(t.caller, t.profile.Name, t.operation, name)
}

// kept returns the answer to a message from earlier answers of a partner that cannot be
// reached.
func (t *trip) kept(req *profiles.Request) (answer e1.Envelope, ok bool) {
	kept := t.profile.Crossing.Kept
	if kept == nil {
		return answer, false
	}
	away := t.link.away()
	if away == 0 {
		return answer, false
	}
	return kept(t.name, t.keeper(), &req.Envelope, away)
}

// keep keeps an answer for times when the partner cannot be reached. An answer under
// credentials or hints may be for this caller only, and is not kept.
func (t *trip) keep(req, answer *e1.Envelope) {
	if keep := t.profile.Crossing.Keep; keep != nil && profiles.DelegationOf(t.ctx) == nil && len(profiles.AllHints(t.ctx)) == 0 {
		t.link.unlessClosed(func() { keep(t.name, t.keeper(), req, answer) })
	}
}

// keeper returns the caller that answers of the partner are for; empty: every caller, because the
// partner does not distinguish them.
func (t *trip) keeper() string {
	if t.link.telling() {
		return t.caller
	}
	return ""
}

// span returns the context that limits the time for the answer.
func (t *trip) span() (context.Context, context.CancelFunc) {
	deadline := t.passage.Deadline
	if deadline.IsZero() {
		patience := answerTime
		if of := t.profile.Crossing.Patience; of != nil {
			patience = of()
		}
		deadline = time.Now().Add(patience)
	}
	return context.WithDeadline(t.ctx, deadline)
}

// ready returns the session for the message.
func (t *trip) ready(ctx context.Context) (*Up, error) {
	up, err := t.link.Ready(ctx)
	switch {
	case err != nil:
		return nil, err
	case !profiles.Serves(up.Session, t.profile.ID):
		return nil, t.link.ignorant(up, "profile "+t.profile.Name)
	case t.rest != "" && !profiles.Heeds(up.Session, 0, profiles.ExtTarget):
		return nil, t.link.ignorant(up, "extension 52, targets")
	}
	return up, nil
}

// onward returns the message to send and the context for sending it.
func (t *trip) onward(ctx context.Context, env *e1.Envelope) (context.Context, e1.Envelope, error) {
	ctx, ext, err := t.carried(ctx)
	if err != nil {
		return nil, e1.Envelope{}, err
	}
	on := e1.Envelope{ProfileID: t.profile.ID, MsgType: env.MsgType, Extensions: append(t.crossing(env.Extensions), t.mark(ext)...), Payload: env.Payload}
	if t.named {
		on.Payload, err = t.profile.Crossing.Rename(env, func(name []byte) []byte { return bytes.TrimPrefix(name, []byte(t.prefix)) })
	}
	return ctx, on, err
}

// carried returns the context that sends the data of the message ahead of it, and the
// extensions for the partner.
func (t *trip) carried(ctx context.Context) (context.Context, e1.Extensions, error) {
	return t.link.Onward(profiles.Carrying(ctx, t.ctx), t.caller, t.passage, profiles.Onward{Name: t.name, Scope: t.profile.Scope}, t.profile.Lifecycle)
}

// mark appends the rest of the target.
func (t *trip) mark(ext e1.Extensions) e1.Extensions {
	if t.rest != "" {
		ext = e1.AppendExtension(ext, profiles.ExtTarget, []byte(t.rest))
	}
	return ext
}

// back returns an answer, for the caller.
func (t *trip) back(env *e1.Envelope) (answer e1.Envelope, err error) {
	c, seen := t.profile.Crossing, *env
	if c.Visible != nil {
		if err := c.Visible(&seen, t.shows); err != nil {
			return answer, err
		}
	}
	if t.named {
		seen.Payload, err = c.Rename(&seen, func(name []byte) []byte { return slices.Concat([]byte(t.prefix), name) })
	}
	return e1.Envelope{MsgType: env.MsgType, Extensions: t.crossing(seen.Extensions), Payload: seen.Payload}, err
}

// shows reports whether the caller sees a part of an answer: it may use that, and the tools that are
// pinned do not exclude it.
func (t *trip) shows(name string) bool {
	local := t.prefix + name
	return t.may(profiles.Forecast(t.access), local) && !t.link.withholds(strings.TrimPrefix(local, t.link.Name()+"/"))
}

// crossing returns the extensions that are forwarded because this endpoint knows them: those
// of the profile, and the author of an error. Others common to all profiles concern one hop.
func (t *trip) crossing(ext e1.Extensions) e1.Extensions {
	var on e1.Extensions
	for typ, value := range ext.All() {
		if typ < profiles.ExtHops && slices.Contains(t.profile.Extensions, typ) || typ == profiles.ExtEndpoint {
			on = e1.AppendExtension(on, typ, value)
		}
	}
	return on
}

// refusal returns the *Error of a refusing answer; nil for another answer.
func (t *trip) refusal(env *e1.Envelope) *profiles.Error {
	refused := t.profile.Crossing.Refused(env)
	if refused == nil {
		return nil
	}
	return t.fault(refused)
}

// fault converts a refusal by an endpoint behind the partner to an *Error, and reports it.
func (t *trip) fault(refused *profiles.PeerError) *profiles.Error {
	code, ok := profiles.ParseCode(refused.Code)
	if !ok {
		code = profiles.InvalidProfilePayload
	}
	if refused.Endpoint != "" {
		t.link.opts.Refused(Refusal{
			Partner: t.link.opts.Name, Caller: t.caller, Profile: t.profile.Name, Operation: t.operation, Name: t.name,
			Code: code, Endpoint: refused.Endpoint,
		})
	}
	return &profiles.Error{Code: code, Detail: "partner_refused", Text: refused.Message, Domain: true}
}

// fits returns why an answer does not belong to the message that was sent.
func (t *trip) fits(asked, answer *e1.Envelope) error {
	c := t.profile.Crossing
	switch {
	case c.Refused(answer) != nil:
		return nil
	case !slices.Contains(t.by, answer.MsgType):
		return profiles.Errorf(profiles.InvalidProfilePayload, "msg_type %d does not answer msg_type %d", answer.MsgType, asked.MsgType)
	case c.Fits == nil:
		return nil
	}
	return c.Fits(asked, answer)
}

// wrong returns what the sender of a message is told of an answer by which the partner has
// broken the protocol.
func (t *trip) wrong(err error) error {
	return t.link.wrong(err, Wrong{Caller: t.caller, Profile: t.profile.Name, Operation: t.operation, Name: t.name})
}

// lost returns the error for the sender of a message that was lost with err. Whether the
// partner has it is unknown. Sending it again is harmless, because each message that is
// forwarded in this way has its own id.
func (t *trip) lost(ctx context.Context, up *Up, err error) error {
	return t.link.lost(ctx, up, err, true)
}

// unanswered is lost of a message whose answer is err.
func (t *trip) unanswered(ctx context.Context, up *Up, err error) error {
	if profiles.Misanswered(err) {
		return t.wrong(err)
	}
	return t.lost(ctx, up, err)
}

// pass forwards a message with several answers.
func (t *trip) pass(req *profiles.Request, endless bool) error {
	hold := req.Hold
	if endless {
		hold = req.HoldLong
	}
	held, w, err := hold()
	if err != nil {
		return err
	}
	caller := t.keeper()
	t.anyones = t.plain() && caller == ""
	way := &profiles.Way{Shared: t.plain(), Caller: caller, Prefix: t.prefix, Named: t.named, Session: t.session, Sync: rpc.Sync}
	run, err := t.profile.Crossing.Pass(way, held, w)
	if err != nil {
		w.Fail(err)
		return nil
	}
	go func() {
		ctx, cancel := context.WithCancelCause(t.ctx)
		defer cancel(nil)
		defer context.AfterFunc(w.Context(), func() { cancel(context.Cause(w.Context())) })()
		if endless { // others end within the time for draining
			defer context.AfterFunc(t.link.ctx, func() { cancel(errClosed) })()
		}
		if !t.passage.Deadline.IsZero() {
			var end context.CancelFunc
			ctx, end = context.WithDeadline(ctx, t.passage.Deadline)
			defer end()
		}
		w.Fail(t.ended(ctx, run(ctx)))
	}()
	return nil
}

// plain reports whether the message has no metadata, deadline or original caller. Such
// messages can share a stream.
func (t *trip) plain() bool {
	return t.passage == profiles.Passage{} && profiles.EndToEndIn(t.ctx) == profiles.EndToEnd{} && profiles.DelegationOf(t.ctx) == nil && len(profiles.AllHints(t.ctx)) == 0
}

// errClosed ends an endless request because its link ends: this endpoint stops, or the
// entry of the partner has changed.
var errClosed = profiles.Busy("partner_closed", "the link to the partner was closed here; ask again")

// ended converts an error of Crossing.Pass for Fail: a refusal by the partner, a refusal
// here, or the loss of the link.
func (t *trip) ended(ctx context.Context, err error) error {
	if refused, ok := errors.AsType[*profiles.PeerError](err); ok {
		fault := t.fault(refused)
		fault.Answer = t.profile.Crossing.Refuse(refused)
		return fault
	}
	switch {
	case profiles.Misanswered(err):
		return t.wrong(err)
	case err == nil, ctx.Err() != nil, errors.As(err, new(*profiles.Error)):
		return err
	}
	return t.lost(ctx, nil, err)
}

// session returns a session to the partner that sends the metadata of the message along
// with each of its messages.
func (t *trip) session(ctx context.Context) (profiles.Session, error) {
	up, err := t.ready(ctx)
	if err != nil {
		return nil, err
	}
	if t.anyones { // it carries nothing, on behalf of nobody in particular
		return profiles.Marked(up.Session, func(env *e1.Envelope) {
			t.along(env)
			profiles.EndToEndIn(t.ctx).Put(env)
		}), nil
	}
	if _, _, err := t.carried(ctx); err != nil {
		return nil, err
	}
	return profiles.MarkedIn(up.Session, t.along, func(ctx context.Context) context.Context {
		within, _, err := t.carried(ctx)
		if err != nil { // the time of the message is up
			return profiles.WithAhead(ctx, func(context.Context, profiles.Lane, *e1.Envelope) error { return err })
		}
		return within
	}), nil
}

// along adds what each message of a session carries.
func (t *trip) along(env *e1.Envelope) {
	env.Extensions = t.mark(t.passage.Append(env.Extensions, time.Now()))
}
