package partner

import (
	"bytes"
	"cmp"
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

// Hop returns the handler of a profile with what is for partners passed on to them: a
// message with a target (extension 52), and one whose names begin with a partner. What
// else comes goes to the profile's own handler. The rules are asked about names as they
// are here, before anything is kept.
//
// Messages of one lane go to a partner in the order in which they came. One that has no
// success answer counts as accepted here once the partner has confirmed by swp.sync that
// it has accepted it.
func (d *Directory) Hop(p *profiles.Profile, access profiles.Access) profiles.Handler {
	if access == nil {
		access = profiles.Everyone
	}
	return &hop{
		d: d, profile: p, next: p.Handler, access: access,
		heeds: slices.Contains(p.Extensions, profiles.ExtTarget),
	}
}

// hop is the handler of a profile with partners.
type hop struct {
	d       *Directory
	profile *profiles.Profile
	next    profiles.Handler
	access  profiles.Access
	heeds   bool // the profile sees to targets itself
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

// target returns where a message says that it goes; empty: its names decide.
func (h *hop) target(req *profiles.Request) (string, error) {
	target, err := profiles.TargetOf(req.Extensions)
	if c := h.profile.Crossing; target == "" && err == nil && c != nil && c.Target != nil && h.d.any() {
		return c.Target(&req.Envelope), nil
	}
	return target, err
}

// route is where a message goes.
type route struct {
	link   *Link  // nil: there is no such partner, which is told to who may use it
	rest   string // of the target, behind the partner
	named  bool   // by the names of the message, without a target
	prefix string // of names of what is there, as they are here
}

// here returns the name here of what a message or an answer calls name.
func (r *route) here(name string) string {
	switch {
	case r.named:
		return name
	case name == "":
		return strings.TrimSuffix(r.prefix, "/")
	}
	return r.prefix + name
}

// route returns where a message goes, nil if it stays here.
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

// errMixed refuses a message that would have to go to several endpoints.
var errMixed = &profiles.Error{
	Code: profiles.InvalidProfilePayload, Detail: "partner_mixed", Domain: true,
	Text: "all names have to be behind the same partner, or all here",
}

func errUnknown(name string) *profiles.Error {
	return &profiles.Error{
		Code: profiles.NotFound, Detail: "partner_unknown", Domain: true, Text: fmt.Sprintf("there is no partner %.80q", name),
	}
}

// begin asks the rules about a message that goes on, and has it go.
func (h *hop) begin(ctx context.Context, r *route, errand *profiles.Errand, req *profiles.Request) error {
	if _, err := profiles.Delegated(ctx, req.Extensions); err != nil {
		return err
	}
	t := &trip{
		hop: h, route: r, ctx: context.WithoutCancel(ctx), passage: profiles.PassageOf(req.Extensions, time.Now()),
		caller: req.Session.Peer().Identity, operation: errand.Operation,
	}
	names := errand.Names
	if len(names) == 0 {
		names = []string{""}
	}
	t.name = r.here(names[0])
	req.Exchange.About(profiles.Subject{Operation: errand.Operation, Name: t.name, Part: errand.Part})
	for _, name := range names {
		if !t.allowed(errand, r.here(name)) {
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
	switch errand.Answers {
	case profiles.Many, profiles.Endless:
		return t.pass(req, errand.Answers == profiles.Endless)
	case profiles.Refusal:
		h.d.lanes.push(req.Lane, r.link, &transit{trip: t, env: req.Envelope.Clone(), done: req.Defer()})
	default:
		held, w, err := req.Hold()
		if err != nil {
			return err
		}
		h.d.lanes.push(req.Lane, r.link, &transit{trip: t, env: held.Envelope, w: w})
	}
	return nil
}

// trip is what a message is for, and what it takes along.
type trip struct {
	*hop
	*route
	passage   profiles.Passage
	ctx       context.Context // with what travels along; it does not end
	caller    string
	operation string
	name      string // what the rules here call what it is about
}

// allowed reports whether the caller may do its errand about a name as it is here. Where
// the rules are asked later, about what comes, they have to let it have something there.
func (t *trip) allowed(errand *profiles.Errand, name string) bool {
	if !errand.Free {
		return t.may(t.access, name)
	}
	rules, ok := t.access.(profiles.Reacher)
	return !ok || errand.Part || t.profile.Crossing.Visible != nil || rules.Reaches(t.caller, t.profile.Name, strings.TrimSuffix(t.prefix, "/"))
}

// may asks the rules here about a name as it is here.
func (t *trip) may(access profiles.Access, name string) bool {
	if may := t.profile.Crossing.May; may != nil {
		return may(access, t.caller, t.operation, name)
	}
	return access.Allowed(t.caller, t.profile.Name, t.operation, name)
}

// span returns the context in which the partner has to answer.
func (t *trip) span() (context.Context, context.CancelFunc) {
	deadline := t.passage.Deadline
	if deadline.IsZero() {
		deadline = time.Now().Add(cmp.Or(t.profile.Crossing.Patience, answerTime))
	}
	return context.WithDeadline(t.ctx, deadline)
}

// ready returns the session on which the message goes.
func (t *trip) ready(ctx context.Context) (*Up, error) {
	up, err := t.link.Ready(ctx)
	switch {
	case err != nil:
		return nil, err
	case !profiles.Serves(up.Session, t.profile.ID):
		return nil, t.link.ignorant("profile " + t.profile.Name)
	case t.rest != "" && !profiles.Heeds(up.Session, 0, profiles.ExtTarget):
		return nil, t.link.ignorant("extension 52, targets")
	}
	return up, nil
}

// onward returns the message as it goes on, and the context to send it in.
func (t *trip) onward(ctx context.Context, env *e1.Envelope) (context.Context, e1.Envelope, error) {
	ctx, ext, err := t.link.onward(ctx, t.passage, profiles.Onward{Name: t.name, Scope: t.profile.Scope}, t.profile.Lifecycle)
	if err != nil {
		return nil, e1.Envelope{}, err
	}
	on := e1.Envelope{ProfileID: t.profile.ID, MsgType: env.MsgType, Extensions: append(crossing(env.Extensions), t.mark(ext)...), Payload: env.Payload}
	if t.named {
		on.Payload, err = t.profile.Crossing.Rename(env, func(name []byte) []byte { return bytes.TrimPrefix(name, []byte(t.prefix)) })
	}
	return ctx, on, err
}

// mark appends the rest of the target.
func (t *trip) mark(ext e1.Extensions) e1.Extensions {
	if t.rest != "" {
		ext = e1.AppendExtension(ext, profiles.ExtTarget, []byte(t.rest))
	}
	return ext
}

// back returns the payload of an answer as the caller gets it.
func (t *trip) back(env *e1.Envelope) (payload []byte, err error) {
	c, seen := t.profile.Crossing, *env
	if c.Visible != nil {
		seen.Payload, err = c.Visible(&seen, func(name string) bool { return t.may(profiles.Forecast(t.access), t.prefix+name) })
		if err != nil {
			return nil, err
		}
	}
	if !t.named {
		return seen.Payload, nil
	}
	return c.Rename(&seen, func(name []byte) []byte { return slices.Concat([]byte(t.prefix), name) })
}

// crossing returns the extensions of a message or of an answer that go on. Those of any
// profile are about one hop, but for the author of an error.
func crossing(ext e1.Extensions) e1.Extensions {
	var on e1.Extensions
	for typ, value := range ext.All() {
		if typ < profiles.ExtHops || typ >= profiles.ExtEndpoint {
			on = e1.AppendExtension(on, typ, value)
		}
	}
	return on
}

// refusal returns an answer by which the message was refused as an *Error, nil if it is
// another one.
func (t *trip) refusal(env *e1.Envelope) *profiles.Error {
	refused := t.profile.Crossing.Refused(env)
	if refused == nil {
		return nil
	}
	return t.fault(refused)
}

// fault returns what an endpoint there has refused as an *Error, and tells of it.
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

// lost says what the sender of a message is told that ended with err on its way. Whether
// the partner has taken it is not known; sent again it does no harm, because what crosses
// in this way has a name of its own.
func (t *trip) lost(ctx context.Context, up *Up, err error) error {
	switch {
	case errors.As(err, new(*profiles.Error)) && (up == nil || up.Session.Context().Err() == nil):
		return err
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &profiles.Error{
			Code: profiles.Internal, Detail: "partner_silent", Retryable: true, Domain: true, Cause: err,
			Text: "partner " + t.link.opts.Name + " did not answer in time",
		}
	}
	return &profiles.Error{
		Code: profiles.Internal, Detail: "partner_lost", Retryable: true, Domain: true, Cause: err,
		Text: "the link to partner " + t.link.opts.Name + " was lost on the way; send it again",
	}
}

// pass has a message answered that has several answers.
func (t *trip) pass(req *profiles.Request, endless bool) error {
	hold := req.Hold
	if endless {
		hold = req.HoldLong
	}
	held, w, err := hold()
	if err != nil {
		return err
	}
	way := &profiles.Way{Shared: t.anybodys(), Prefix: t.prefix, Named: t.named, Session: t.session, Sync: rpc.Sync}
	run, err := t.profile.Crossing.Pass(way, held, w)
	if err != nil {
		w.Fail(err)
		return nil
	}
	go func() {
		ctx, cancel := context.WithCancelCause(t.ctx)
		defer cancel(nil)
		defer context.AfterFunc(w.Context(), func() { cancel(context.Cause(w.Context())) })()
		if endless { // others have the time that is left to what is under way
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

// anybodys reports whether the message is like those of others: nothing travels along, it
// has no deadline and has come from nobody else.
func (t *trip) anybodys() bool {
	return t.passage == profiles.Passage{} && profiles.DelegationOf(t.ctx) == nil && len(profiles.AllHints(t.ctx)) == 0
}

// errClosed ends what has no end because its link has one: this endpoint stops, or the
// entry of the partner has changed.
var errClosed = profiles.Busy("partner_closed", "the link to the partner was closed here; ask again")

// ended returns the error of Fail for that of Crossing.Pass: a refusal of the partner, one
// of this endpoint, or the loss of the link.
func (t *trip) ended(ctx context.Context, err error) error {
	if refused, ok := errors.AsType[*profiles.PeerError](err); ok {
		fault := t.fault(refused)
		fault.Answer = t.profile.Crossing.Refuse(refused)
		return fault
	}
	if err == nil || ctx.Err() != nil || errors.As(err, new(*profiles.Error)) {
		return err
	}
	return t.lost(ctx, nil, err)
}

// session returns a session to the partner whose messages take along what the message
// does.
func (t *trip) session(ctx context.Context) (profiles.Session, error) {
	up, err := t.ready(ctx)
	if err != nil {
		return nil, err
	}
	return profiles.Marked(up.Session, func(ext e1.Extensions) e1.Extensions { return t.mark(t.passage.Append(ext, time.Now())) }), nil
}
