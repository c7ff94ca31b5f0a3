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

// callTime is how long a call may take that names no deadline.
const callTime = time.Hour

// ownMethods begins the names of the methods of this project. A second run of one that crosses
// does no harm: a test of profiles/all checks it.
const ownMethods = "swp."

// Method is rpc.Options.Resolve: partner/method is a method of a partner. Items and
// the outcome are returned unchanged. If the link is lost, the outcome of a call
// without an idempotency_key is unknown, and the call is never sent again.
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

// MethodAt is rpc.Options.Toward: the method of the endpoint at a target. A method of this
// project about one endpoint, such as swp.artifacts.list, is called in this way only.
func (d *Directory) MethodAt(target, method string) (rpc.Method, error) {
	first, rest, _ := strings.Cut(target, "/")
	l := d.find(first)
	if l == nil {
		return rpc.Method{}, errUnknown(first)
	}
	return l.method(method, target+"/"+method, rest), nil
}

// byName are the methods of this project that cross by their name. The others are about
// one connection, or about an endpoint, which a target says.
var byName = []string{rpc.MethodPing, rpc.MethodEcho, rpc.MethodInfo}

// method is a method at the partner, or at the endpoint at a target behind it. name is
// what it is called here.
func (l *Link) method(method, name, target string) rpc.Method {
	return rpc.Method{
		// The outcome of a call under a key is the partner's to keep.
		Repeatable: true,
		Held: func(p *rpc.Pending, params []byte) error {
			c := &call{link: l, name: name, target: target, pending: p}
			c.Method, c.Params = method, slices.Clone(params)
			if key := p.IdempotencyKey(); key != "" {
				c.IdempotencyKey = keyOf(p.Session().Peer().Identity, key)
			}
			go c.run()
			return nil
		},
	}
}

// keyOf is a key of a caller here as a key of this endpoint at the partner: the
// same one each time, and never that of another caller.
func keyOf(identity, key string) string {
	h := sha256.New()
	h.Write(e1.AppendBytes(nil, []byte(identity)))
	h.Write([]byte(key))
	return hex.EncodeToString(h.Sum(nil))
}

// call is a call on its way to a partner.
type call struct {
	rpc.Invocation
	link    *Link
	name    string // of the method, here
	target  string // behind the partner
	pending *rpc.Pending
}

func (c *call) run() {
	if err := c.pass(c.pending.Context()); err != nil {
		c.refused(err)
		c.pending.Fail(err)
	}
}

// pass makes the call at the partner, and passes back what comes.
func (c *call) pass(ctx context.Context) error {
	passage := c.pending.Passage()
	if passage.Deadline.IsZero() {
		passage.Deadline = time.Now().Add(callTime)
	}
	ctx, cancel := context.WithDeadline(ctx, passage.Deadline)
	defer cancel()
	up, err := c.link.Ready(ctx)
	if err != nil {
		return err
	}
	sendCtx, ext, err := c.link.onward(ctx, passage, profiles.Onward{Name: c.name, Scope: profiles.ScopeRPC}, rpc.Lifecycle)
	if err != nil {
		return err
	}
	if c.target != "" {
		if !profiles.Heeds(up.Session, 0, profiles.ExtTarget) {
			return c.link.ignorant("extension 52, targets")
		}
		ext = e1.AppendExtension(ext, profiles.ExtTarget, []byte(c.target))
	}
	c.Extensions = ext
	lane, err := up.Session.Open(ctx)
	if err != nil {
		return c.lost(up, err)
	}
	defer func() { _ = lane.Close() }()
	stream, err := c.Open(sendCtx, lane)
	if err != nil {
		return c.lost(up, err)
	}
	for {
		item, err := stream.Recv(ctx)
		if err == nil {
			if err = c.pending.Pace(ctx); err == nil {
				err = c.pending.Item(item)
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			err = c.pending.Return(stream.Result())
			stream.Close()
			if errors.Is(err, profiles.ErrFinished) {
				return nil // the caller was faster
			}
			return err
		case errors.Is(context.Cause(ctx), rpc.ErrStopped):
			stream.Abandon() // it goes on there under its key, and is asked for again
			return err
		default:
			stream.Close()
			return c.lost(up, err)
		}
	}
}

// Across prepares a call about a topic at a partner: it is relay.Options.Across.
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
		return nil, l.ignorant("profile " + relay.Name)
	case e.Target != "" && !profiles.Heeds(up.Session, 0, profiles.ExtTarget):
		return nil, l.ignorant("extension 52, targets")
	}
	ctx, ext, err := l.onward(ctx, e.Passage, profiles.Onward{Name: e.Topic, Scope: profiles.ScopeRPC}, rpc.Lifecycle)
	if err != nil {
		return nil, err
	}
	if e.Target != "" {
		ext = e1.AppendExtension(ext, profiles.ExtTarget, []byte(e.Target))
	}
	ctx, stop := l.while(ctx, up)
	return &relay.Way{Context: ctx, Session: up.Session, Extensions: ext, Close: stop, Ended: func(err error) (bool, error) {
		return l.attachEnded(err, Refusal{Partner: e.Partner, Caller: e.Identity, Profile: relay.Name, Operation: "consume", Name: e.Topic})
	}}, nil
}

// attachEnded is relay.Way.Ended. about is what the partner has refused, if it has.
func (l *Link) attachEnded(err error, about Refusal) (again bool, said error) {
	if refused, ok := errors.AsType[*rpc.Error](err); ok {
		l.refused(refused, about)
		return refused.Retryable, err
	}
	if fault, ok := errors.AsType[*profiles.Error](err); ok {
		return fault.Retryable, err
	}
	return true, &profiles.Error{
		Code: profiles.Internal, Detail: "partner_lost", Retryable: true, Domain: true, Cause: err,
		Text: "the link to partner " + l.opts.Name + " was lost, or it did not answer; attach again",
	}
}

// lost says what the caller is told of a call that ended with err. Under a key it
// may be made again, wherever it got to, and so may a method of this project.
func (c *call) lost(up *Up, err error) error {
	if up.Session.Context().Err() == nil || errors.As(err, new(*rpc.Error)) {
		return err
	}
	if c.IdempotencyKey != "" || strings.HasPrefix(c.Method, ownMethods) {
		return &rpc.Error{Code: rpc.CodeUnavailable, Message: "the link to the partner was lost", Retryable: true}
	}
	return &rpc.Error{Code: rpc.CodeInternal, Message: "the link to the partner was lost; whether the call had an effect is not known"}
}
