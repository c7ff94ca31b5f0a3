package partner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
)

// callTime is the time limit of a call without a deadline: the partner, whose method it is, has its
// own limit, and the link notices a partner that is gone.
const callTime = profiles.BehindWork

// ownMethods is the prefix of the methods of this project. Repeating one that is forwarded
// is harmless; a test of profiles/all checks that.
const ownMethods = "swp."

// Method implements rpc.Options.Resolve: partner/method is a method of a partner. Items and
// outcome are returned unchanged. If the link is lost, the outcome of a call without an
// idempotency_key is unknown, and the call is not repeated.
func (d *Directory) Method(name string) (rpc.Method, bool) {
	l, method, ok := d.Split(name)
	if !ok {
		return rpc.Method{}, false
	}
	if strings.HasPrefix(method, ownMethods) && !slices.Contains(byName, method) {
		return rpc.Method{Inline: func(*profiles.Request, []byte) ([]byte, error) {
			return nil, &rpc.Error{
				Code:    rpc.CodeInvalidRequest,
				Message: method + " is about one connection or one endpoint, and does not cross by its name; a target (extension 52) says the endpoint",
			}
		}}, true
	}
	return l.method(method, name, ""), true
}

// MethodAt implements rpc.Options.Toward: it returns a method of the endpoint at a target.
// Methods of this project about one endpoint, such as swp.artifacts.list, are forwarded
// only in this way.
func (d *Directory) MethodAt(target, method string) (rpc.Method, error) {
	first, rest, _ := strings.Cut(target, "/")
	l := d.find(first)
	if l == nil {
		return rpc.Method{}, errUnknown(first)
	}
	return l.method(method, target+"/"+method, rest), nil
}

// byName are the methods of this project that can be forwarded by name. The others concern
// one connection, or an endpoint that needs a target.
var byName = []string{rpc.MethodPing, rpc.MethodEcho, rpc.MethodInfo}

// method returns a method at the partner, or at the endpoint at a target behind it. name is
// its local name.
func (l *Link) method(method, name, target string) rpc.Method {
	return rpc.Method{
		// The partner stores the outcome of a call with a key.
		Repeatable: true,
		Held: func(p *rpc.Pending, params []byte) error {
			c := &call{link: l, name: name, target: target, pending: p}
			c.Method, c.Params = method, slices.Clone(params)
			if key := p.IdempotencyKey(); key != "" {
				c.IdempotencyKey = keyOf(p.Peer().Identity, key)
			}
			go c.run()
			return nil
		},
	}
}

// keyOf derives the idempotency key for the partner from the key of a caller here. It is
// stable, and differs for different callers.
func keyOf(identity, key string) string {
	h := sha256.New()
	h.Write(e1.AppendBytes(nil, []byte(identity)))
	h.Write([]byte(key))
	return hex.EncodeToString(h.Sum(nil))
}

// call is a call that is being forwarded.
type call struct {
	rpc.Invocation
	link    *Link
	name    string // local name of the method
	target  string // target behind the partner
	pending *rpc.Pending
}

func (c *call) run() {
	if err := c.pass(c.pending.Context()); err != nil {
		c.refused(err)
		c.pending.Fail(err)
	}
}

// pass calls the method at the partner and returns its items and outcome.
func (c *call) pass(ctx context.Context) error {
	passage := c.pending.Passage()
	if passage.Deadline.IsZero() {
		passage.Deadline = time.Now().Add(callTime)
	}
	ctx, cancel := context.WithDeadline(ctx, passage.Deadline)
	defer cancel()
	up, err := c.link.Ready(ctx)
	switch {
	case err != nil:
		return err
	case !profiles.Serves(up.Session, rpc.ProfileID):
		return c.link.ignorant(up, "profile rpc")
	}
	sendCtx, ext, err := c.link.Onward(ctx, c.pending.Peer().Identity, passage, profiles.Onward{Name: c.name, Scope: profiles.ScopeRPC}, rpc.Lifecycle)
	if err != nil {
		return err
	}
	if c.target != "" {
		if !profiles.Heeds(up.Session, 0, profiles.ExtTarget) {
			return c.link.ignorant(up, "extension 52, targets")
		}
		ext = e1.AppendExtension(ext, profiles.ExtTarget, []byte(c.target))
	}
	c.Extensions = ext
	lane, err := up.Session.Open(sendCtx)
	if err != nil {
		return c.lost(ctx, up, err)
	}
	defer func() { _ = lane.Close() }()
	stream, err := c.Open(sendCtx, lane)
	if err != nil {
		return c.lost(ctx, up, err)
	}
	for {
		item, err := stream.Recv(ctx)
		if err == nil {
			if err = c.pending.Pace(ctx); err == nil {
				err = c.pending.ForwardItem(item, stream.Keeps())
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			err = c.pending.ForwardResult(stream.Result(), stream.Keeps())
			stream.Close()
			if errors.Is(err, profiles.ErrFinished) {
				return nil // the caller has canceled already
			}
			return err
		case errors.Is(context.Cause(ctx), rpc.ErrStopped):
			stream.Abandon() // the call continues there under its key and is repeated later
			return err
		default:
			stream.Close()
			return c.lost(ctx, up, err)
		}
	}
}

// Carries implements relay.Options.Carries: the error says that the partnership has ended, or that
// the partner is known not to serve the profile, by its entry or over the current session.
func (d *Directory) Carries(partner string) error {
	l := d.find(partner)
	if l == nil {
		return errUnknown(partner)
	}
	if l.opts.Over {
		return l.barred()
	}
	known := l.opts.Profiles != nil && !slices.Contains(l.opts.Profiles, relay.ProfileID)
	if up := l.Now(); known || up != nil && up.asked && !profiles.Serves(up.Session, relay.ProfileID) {
		return l.ignorant(up, "profile "+relay.Name)
	}
	return nil
}

// Across implements relay.Options.Across: it prepares a call about a topic at a partner.
func (d *Directory) Across(ctx context.Context, e *relay.Errand) (*relay.Way, error) {
	l := d.find(e.Partner)
	if l == nil {
		return nil, errUnknown(e.Partner)
	}
	up, err := l.Ready(ctx)
	switch {
	case err != nil:
		return nil, err
	case !profiles.Serves(up.Session, relay.ProfileID) || !profiles.Serves(up.Session, rpc.ProfileID):
		return nil, l.ignorant(up, "profile "+relay.Name)
	case e.Target != "" && !profiles.Heeds(up.Session, 0, profiles.ExtTarget):
		return nil, l.ignorant(up, "extension 52, targets")
	}
	ctx, ext, err := l.Onward(ctx, e.Identity, e.Passage, profiles.Onward{Name: e.Topic, Scope: profiles.ScopeRPC}, rpc.Lifecycle)
	if err != nil {
		return nil, err
	}
	if e.Target != "" {
		ext = e1.AppendExtension(ext, profiles.ExtTarget, []byte(e.Target))
	}
	ctx, stop := l.while(ctx, up)
	unwatch := context.AfterFunc(l.ctx, stop)
	end := func() {
		unwatch()
		stop()
	}
	return &relay.Way{Context: ctx, Session: up.Session, Extensions: ext, Close: end, Ended: func(err error) (bool, error) {
		return l.attachEnded(err, e)
	}}, nil
}

// attachEnded implements relay.Way.Ended.
func (l *Link) attachEnded(err error, e *relay.Errand) (again bool, said error) {
	if refused, ok := errors.AsType[*rpc.Error](err); ok {
		l.refused(refused, Refusal{Partner: e.Partner, Caller: e.Identity, Profile: relay.Name, Operation: "consume", Name: e.Topic})
		return refused.Retryable, err
	}
	err = l.wrong(err, Wrong{Caller: e.Identity, Profile: relay.Name, Operation: "consume", Name: e.Topic})
	if fault, ok := errors.AsType[*profiles.Error](err); ok {
		return fault.Retryable, err
	}
	return true, l.lost(context.Background(), nil, err, true)
}

// lost returns the error for the caller of a call that ended with err. A call with a key
// can be repeated in any case, and so can a method of this project.
func (c *call) lost(ctx context.Context, up *Up, err error) error {
	if profiles.Misanswered(err) {
		return c.link.wrong(err, Wrong{Caller: c.pending.Peer().Identity, Profile: "rpc", Operation: "call", Name: c.name})
	}
	if errors.As(err, new(*rpc.Error)) || errors.Is(err, profiles.ErrFinished) || ctx.Err() != nil {
		return err // of the method, of the caller, or its deadline
	}
	return c.link.lost(ctx, up, err, c.IdempotencyKey != "" || strings.HasPrefix(c.Method, ownMethods))
}
