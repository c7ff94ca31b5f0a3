package partner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/slimwire/swp/internal/farend"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// worthwhile is how long a session lasts that the partner accepts. One that the partner was not asked on
// is the link from then on: over TLS nothing else shows that the partner accepts this endpoint. A partner
// that has not answered before has the same time to answer, before its session is used without.
const worthwhile = time.Second

// told is the answer to swp.info, or the error in its place.
type told struct {
	info rpc.Info
	err  error
}

// meet returns a session that the partner has accepted, with the offer of the partner if it is asked and
// answers. The question is optional: a session that stays without an answer is used as well, and after
// one that has ended the partner is not asked on the next session. dialled says that this endpoint has
// dialled it.
func (l *Link) meet(s *endpoint.Session, dialled bool) (*Up, error) {
	if !l.asks() {
		if dialled {
			if err := l.stays(s); err != nil {
				return nil, err
			}
		}
		return l.unasked(s, dialled), nil
	}
	ctx, cancel := context.WithTimeout(l.ctx, l.opts.DialTimeout)
	answer := make(chan told, 1)
	l.work.Go(func() { // the caller is in work, too
		defer cancel()
		info, err := l.question(ctx, s)
		answer <- told{info, err}
	})
	if l.answers() {
		return l.settle(s, dialled, <-answer)
	}
	soon := time.NewTimer(worthwhile)
	defer soon.Stop()
	select {
	case a := <-answer:
		return l.settle(s, dialled, a)
	case <-soon.C:
	}
	up := l.unasked(s, dialled)
	up.pending = true
	l.work.Go(func() {
		if a := <-answer; a.err == nil {
			l.update(up, a.info)
		} else if l.ctx.Err() == nil {
			l.unanswered()
		}
	})
	return up, nil
}

// stays waits until a session has lasted long enough to be accepted. Else the question was not the reason
// for the end of the session before, if there was one.
func (l *Link) stays(s *endpoint.Session) error {
	accepted := time.NewTimer(worthwhile)
	defer accepted.Stop()
	select {
	case <-accepted.C:
		return nil
	case <-s.Context().Done():
		l.mu.Lock()
		l.mute, l.turned, l.known, l.doubts = false, true, l.kept.Answers, 0
		l.mu.Unlock()
		end := context.Cause(s.Context())
		return refusal(farend.Of(end), end)
	case <-l.ctx.Done():
		return l.ctx.Err()
	}
}

// unasked returns a session without an answer to swp.info. The partner serves there the profiles of which
// it has sent messages before.
func (l *Link) unasked(s *endpoint.Session, dialled bool) *Up {
	l.mu.Lock()
	sent := l.kept.Sent
	l.mu.Unlock()
	profiles.Learn(s, profiles.Offer{Profiles: sent})
	l.learn(s, new(rpc.Info))
	return &Up{Session: s, Dialled: dialled}
}

// settle returns a session after the question.
func (l *Link) settle(s *endpoint.Session, dialled bool, a told) (*Up, error) {
	if a.err == nil {
		l.learn(s, &a.info)
		return &Up{Session: s, Dialled: dialled, asked: true, info: a.info}, nil
	}
	end := endOf(s, a.err)
	switch {
	case l.ctx.Err() != nil, l.trusts():
	case end == nil && refusedQuestion(a.err):
		l.unanswered()
		return l.unasked(s, dialled), nil
	case end != nil && endpoint.OverProfile(end):
		l.unanswered()
		if l.turnedAway() {
			break
		}
		return nil, fmt.Errorf("partner: it has ended the session after %s, and is not asked on the next one; list its profiles in partners.%s.profiles: %w", rpc.MethodInfo, l.opts.Name, end)
	}
	if end != nil {
		return nil, refusal(farend.Of(end), end)
	}
	return nil, fmt.Errorf("partner: %s: %w", rpc.MethodInfo, a.err)
}

// endOf returns why a session has ended after the failure of a call, nil if it goes on.
func endOf(s *endpoint.Session, err error) error {
	if !refusedQuestion(err) || errors.Is(err, endpoint.ErrNoAnswer) { // the end follows
		moment := time.NewTimer(worthwhile)
		defer moment.Stop()
		select {
		case <-s.Context().Done():
		case <-moment.C:
		}
	}
	return context.Cause(s.Context())
}

// refusedQuestion reports whether a session can go on whose partner has not answered swp.info: it has reset or
// finished the stream, refused the message by the error path, or was silent.
func refusedQuestion(err error) bool {
	closed, reset := errors.AsType[*transport.CloseError](err)
	fault, said := errors.AsType[*profiles.Error](err)
	return reset && closed.Stream || said && fault.Detail == profiles.DetailRemote || errors.Is(err, endpoint.ErrNoAnswer) || errors.Is(err, context.DeadlineExceeded)
}

// question asks the partner what it offers. An endpoint that does not know swp.info, or does not let this
// endpoint call it, offers nothing that it would say.
func (l *Link) question(ctx context.Context, s *endpoint.Session) (rpc.Info, error) {
	result, err := rpc.Call(profiles.Probing(ctx), s.Control(), rpc.MethodInfo, nil)
	if errors.As(err, new(*rpc.Error)) {
		l.answered(nil)
		return rpc.Info{}, nil
	}
	if err == nil {
		var info rpc.Info
		if info, err = readInfo(result); err == nil {
			l.answered(&info)
			return info, nil
		}
	}
	return rpc.Info{}, l.wrong(err, Wrong{Profile: "rpc", Operation: "call", Name: rpc.MethodInfo})
}

// update takes a new answer of the partner on a session. If it is the first one there, the session is
// entered again, because those that wait for the partner are told of a session once.
func (l *Link) update(up *Up, info rpc.Info) {
	l.learn(up.Session, &info)
	l.mu.Lock()
	if up.asked {
		up.info = info
		l.mutual = l.mutual || info.Partner
		l.mu.Unlock()
		l.choose(nil)
		return
	}
	now := &Up{Session: up.Session, Dialled: up.Dialled, since: up.since, asked: true, info: info}
	up.leaving = true
	l.open = slices.DeleteFunc(l.open, func(other *Up) bool { return other == up })
	l.mu.Unlock()
	l.enter(now)
}
