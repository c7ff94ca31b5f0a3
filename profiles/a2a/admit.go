package a2a

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// maxOffers is how many kinds a Result lists for an unsupported kind.
const maxOffers = 16

// maxReason bounds the description of a faulty input.
const maxReason = 1024

// admit decides whether a new task is executed. A nil input is read from the store.
func (t *task) admit(input []byte) {
	s := t.s
	if t.denied || !t.allowed() { // the rules may have changed while the request was stored
		t.fail(reasonDenied)
		return
	}
	if input == nil {
		var err error
		if input, err = t.input(); err != nil {
			return
		}
	}
	name := t.name()
	switch {
	case t.Hops > profiles.MaxHops:
		t.fail(reasonHops)
		return
	}
	if s.opts.Validate != nil && name == t.Kind {
		_, err := protect(func() (struct{}, error) { return struct{}{}, s.opts.Validate(t.Kind, input) })
		if err != nil {
			t.fail(cutReason(reasonMalformed + ": " + strings.ToValidUTF8(err.Error(), "\uFFFD")))
			return
		}
	}
	t.exec.dispatch(input, false)
}

// allowed reports whether the access rules in force allow the task to its owner, and that is
// still a partner if it was one.
func (t *task) allowed() bool {
	return (!t.Given || t.s.federation.Load().has(t.Owner)) && t.s.opts.Access.Allowed(t.Owner, "a2a", "task", t.name())
}

// cutReason shortens a reason for a Result.
func cutReason(reason string) string {
	return strings.ToValidUTF8(reason[:min(len(reason), maxReason)], "")
}

// Kinds returns the kinds of tasks that an identity may ask for, sorted: those of Workers and of
// agents of sessions, an agent of this process in front of its kinds. Operations of A2A 1.0
// are left out.
func (s *Service) Kinds(identity string) []string {
	names := append(s.pools.names(), s.agents.kinds()...)
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool {
		return isOperation(name[strings.IndexByte(name, '/')+1:]) || isOperation(name) || !profiles.Would(s.opts.Access, identity, "a2a", "task", name)
	})
}

// unsupported returns the reason for a kind without an executor, with the kinds that its
// owner may use. Kinds that the rules hide from the owner are not listed.
func (t *task) unsupported() string {
	offers := t.s.Kinds(t.Owner)
	said := "there is no kind that this identity may ask for"
	if len(offers) > 0 {
		said = "this identity may ask for " + strings.Join(offers[:min(len(offers), maxOffers)], ", ")
	}
	if more := len(offers) - maxOffers; more > 0 {
		said += fmt.Sprintf(" and %d more", more)
	}
	missing := fmt.Sprintf("nobody here carries out %q", t.Kind)
	isHere := func(a Agent) bool { return a.ID == t.Agent }
	switch {
	case t.Agent == "":
	case t.s.pools.hosts(t.Agent), slices.ContainsFunc(t.s.Agents(), isHere):
		missing += fmt.Sprintf(" as agent %q", t.Agent)
	default:
		missing = fmt.Sprintf("no agent and no partner is called %q here", t.Agent)
	}
	return cutReason(fmt.Sprintf("%s: %s; %s", reasonUnsupported, missing, said))
}

// begins returns ctx with the present delegation of a task that is about to begin. It may
// have waited: a rule may have been removed, its chain may have expired or been revoked, and
// its executor, with the declaration of an agent, may no longer keep the hints. reason is why
// it must not begin; empty if it may.
func (t *task) begins(ctx context.Context, a *agent) (_ context.Context, reason string) {
	if !t.allowed() {
		return ctx, reasonDenied
	}
	ctx, err := t.withDelegation(ctx)
	if err != nil {
		return ctx, chainReason(err)
	}
	if v := t.violated(a); v != nil {
		return ctx, cutReason(v.Text())
	}
	return ctx, ""
}

// violated returns the hint that forbids a task at an agent of a session, or at its Worker
// or partner if a is nil.
func (t *task) violated(a *agent) *profiles.Violation {
	if t.s.opts.Policy == nil || len(t.Hints) == 0 {
		return nil
	}
	act := profiles.Act{Profile: "a2a", Operation: "task", Name: t.name()}
	if a != nil && !a.partner() {
		act.Agents = []string{a.declared}
	}
	return t.s.opts.Policy.Violated(t.ctx, &act)
}

// withDelegation returns ctx with the present delegation of a task. It is called again when
// a waiting task starts, because its chain may have expired or been revoked.
func (t *task) withDelegation(ctx context.Context) (context.Context, error) {
	if t.Chain == "" {
		return ctx, nil
	}
	if t.s.opts.Chains == nil {
		return ctx, profiles.ErrChain
	}
	d, err := t.s.opts.Chains.Delegation(&profiles.Peer{Identity: t.Owner}, []byte(t.Chain))
	if err != nil {
		return ctx, err
	}
	return profiles.WithDelegation(ctx, d), nil
}

// chainReason is reasonChain, followed by the error of the chain.
func chainReason(err error) string {
	if _, why, ok := strings.Cut(profiles.AsError(err).Text, ": "); ok {
		return reasonChain + ": " + why
	}
	return reasonChain
}

// refusal answers a Task that is refused before it is stored, for its chain, its hints or
// the access rules, with a Result.
func refusal(req *profiles.Request, fault *profiles.Error) (e1.Envelope, bool) {
	var in TaskBody
	if req.MsgType != TypeTask || fault.Code != profiles.SecurityPolicy || in.Decode(req.Payload) != nil {
		return e1.Envelope{}, false
	}
	reason := fault.Text
	switch {
	case fault.Denied:
		reason = reasonDenied
	case fault.Detail == profiles.ErrChain.Detail:
		reason = chainReason(fault)
	}
	m := ResultBody{TaskID: in.TaskID, ErrorMessage: []byte(cutReason(reason))}
	if over := m.Size() - p1.MaxRefusal; over > 0 {
		m.ErrorMessage = p1.Clip(m.ErrorMessage, max(0, len(m.ErrorMessage)-over))
	}
	return resultOf(&m), len(m.ErrorMessage) > 0
}
