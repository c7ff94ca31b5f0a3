package endpoint

import (
	"runtime/debug"

	"github.com/slimwire/swp/profiles"
)

// conditions refuses the message being served if it may not act: it names a chain of
// credentials (extension 50) that is of no use, or a MUST of its sender is not kept. It is
// the only place that does so before a handler, for every profile. It is called only for
// messages with extensions, or with data that the Tracer has attached.
func (l *lane) conditions(profile *profiles.Profile) error {
	_, named := l.req.Extensions.Lookup(profiles.ExtChain)
	var policy profiles.Policy
	if l.carries {
		policy = profiles.PolicyOf(l.reqCtx)
	}
	if !named && policy == nil || l.req.Unsolicited {
		return nil
	}
	return l.judge(profile, named, policy)
}

// judge is conditions for a message with a chain, or under hints.
func (l *lane) judge(profile *profiles.Profile, named bool, policy profiles.Policy) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	act, err := l.act(profile)
	switch {
	case err != nil:
		return err
	case act.Ends:
		return nil
	case named:
		if err := profiles.Delegated(l.reqCtx); err != nil {
			return err
		}
	}
	if policy == nil {
		return nil
	}
	v := policy.Violated(l.reqCtx, &act)
	if v == nil {
		return nil
	}
	// A peer that may not use a name does not learn its declaration.
	rules := l.s.opts.Access
	if act.Ruled && rules != nil && !rules.Allowed(l.req.Identity(), act.Profile, act.Operation, act.Name) {
		return profiles.ErrDenied
	}
	if err := (*responder)(l).Send(v.Notice); err != nil {
		return err
	}
	return v.Refusal()
}

// act returns what the message being served asks for, and sets that as the subject of its
// exchange. A panic of the profile is an error.
func (l *lane) act(profile *profiles.Profile) (act profiles.Act, err error) {
	defer func() {
		if v := recover(); v != nil {
			act.Profile, err = profile.Name, &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	act, err = profile.ActOf(&l.req)
	if act.Operation != "" {
		l.account.subject = profiles.Subject{Profile: act.Profile, Operation: act.Operation, Name: act.Name}
	}
	return act, err
}
