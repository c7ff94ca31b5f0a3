package swpecho

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/store/sqlstore"
	"github.com/slimwire/swp/test/bench/cert"
	"github.com/slimwire/swp/test/bench/echo"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/tlsconn"
)

// dialAll connects over mutual TLS with all profiles at this end, too.
func dialAll(ctx context.Context, addr string, files cert.Files, opts all.Options) (*peer, error) {
	policy, err := policy(files)
	if err != nil {
		return nil, err
	}
	set, err := all.New(opts)
	if err != nil {
		return nil, err
	}
	ep, err := endpoint.New(endpoint.Options{Registry: set.Registry})
	if err != nil {
		return nil, err
	}
	conn, err := tlsconn.Dial(ctx, addr, policy, tlsconn.Options{})
	if err != nil {
		return nil, errors.Join(err, ep.Close())
	}
	return &peer{ctx: ctx, set: set, ep: ep, session: ep.Attach(conn), name: rand.Text()}, nil
}

// peer is one session with all profiles.
type peer struct {
	ctx     context.Context
	set     *all.Set
	ep      *endpoint.Endpoint
	session *endpoint.Session
	name    string // unlike any other
	count   atomic.Uint64
	close   func() error // besides; may be nil
}

// Close ends the session.
func (p *peer) Close() error {
	err := p.ep.Close()
	p.set.Close()
	if p.close != nil {
		err = errors.Join(err, p.close())
	}
	return err
}

// nextID returns an id unlike any other, of idSize octets.
func (p *peer) nextID() string { return fmt.Sprintf("%s%016x", p.name, p.count.Add(1)) }

func (p *peer) idSize() int { return len(p.name) + 16 }

// DialPublish connects over TLS. An exchange is one event with the payload as its
// body, and the confirmation that it is stored: EVT_PUBLISH, then swp.sync.
func DialPublish(ctx context.Context, addr string, files cert.Files) (echo.Conn, error) {
	p, err := dialAll(ctx, addr, files, all.Options{})
	if err != nil {
		return nil, err
	}
	return publishing{p}, nil
}

type publishing struct{ *peer }

func (p publishing) Caller() echo.Caller {
	lane, err := p.session.Open(p.ctx)
	if err != nil {
		return failing{err}
	}
	return &publisher{p.peer, events.NewPublisher(lane, confirm)}
}

func confirm(ctx context.Context, lane profiles.Lane) error {
	_, err := rpc.Call(ctx, lane, rpc.MethodSync, nil)
	return err
}

type publisher struct {
	*peer
	out *events.Publisher
}

func (p *publisher) Echo(payload []byte, use func([]byte) error) error {
	if err := p.publish(p.nextID(), "bench", payload); err != nil {
		return err
	}
	return use(payload)
}

// publish returns when the event is stored.
func (p *publisher) publish(id, typ string, body []byte) error {
	err := p.out.Publish(p.ctx, &events.Record{
		EventID: []byte(id), EventType: []byte(typ), Severity: []byte("info"), Timestamp: uint64(time.Now().UnixMilli()), MsgID: []byte(id), Body: body,
	})
	if err != nil {
		return err
	}
	return p.out.Sync(p.ctx)
}

// failing is a caller that could not be made.
type failing struct{ err error }

func (f failing) Echo([]byte, func([]byte) error) error { return f.err }

// Steps is how many Events a task of DialTasks has.
const Steps = 10

// DialTasks connects over TLS both as an agent and as an initiator of tasks. An exchange is
// one task: it goes to the server and to the agent; the agent returns ten Events with the
// input as payload and a Result with the input as output. The server stores each step
// before it continues.
func DialTasks(ctx context.Context, addr string, files cert.Files) (echo.Conn, error) {
	// The store of the agent need not survive the process.
	own, err := sqlstore.Open(ctx, sqlstore.Options{})
	if err != nil {
		return nil, err
	}
	kind := "bench." + rand.Text()
	p, err := dialAll(ctx, addr, files, all.Options{A2A: a2a.Options{
		Store:   own,
		Workers: []a2a.Registration{{Kinds: []string{kind}, Worker: a2a.WorkerFunc(work), Tasks: 1024}},
	}})
	if err != nil {
		return nil, errors.Join(err, own.Close())
	}
	p.close = own.Close
	if err := p.set.A2A.Declare(ctx, p.session, kind, []string{kind}); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return tasks{p, kind}, nil
}

func work(_ context.Context, t *a2a.Task, event func(string, []byte) error) ([]byte, error) {
	for range Steps {
		if err := event("", t.Input); err != nil {
			return nil, err
		}
	}
	return t.Input, nil
}

type tasks struct {
	*peer
	kind string
}

func (t tasks) Caller() echo.Caller { return t }

func (t tasks) Echo(payload []byte, use func([]byte) error) error {
	d, err := t.set.A2A.Send(t.ctx, t.session, &a2a.Task{Kind: t.kind, Input: payload}, a2a.SendOptions{})
	if err != nil {
		return err
	}
	defer d.Close()
	steps := 0
	for {
		e, err := d.Recv(t.ctx)
		switch {
		case errors.Is(err, io.EOF):
			r := d.Result()
			if !r.OK || steps != Steps {
				return fmt.Errorf("swpecho: a task ended with %v %q after %d of %d Events", r.OK, r.Reason, steps, Steps)
			}
			return use(r.Output)
		case err != nil:
			return err
		case len(e.Payload) > 0: // not "accepted"
			steps++
		}
	}
}
