package swpecho

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/test/bench/cert"
	"github.com/slimwire/swp/test/bench/echo"
	"github.com/slimwire/swp/test/bench/swpd"
)

// perConn is how many subscribers of DialFanOut share a connection.
const perConn = 100

// DialFanOut connects a publisher to the far swpd of a route, and to the near one as many
// subscribers as given, for the events of the far one, over TLS. An exchange is one event
// with the payload as its body: the far swpd has confirmed that it is stored, and every
// subscriber has it.
func DialFanOut(subscribers int) echo.Dial {
	return func(ctx context.Context, addr string, files cert.Files) (echo.Conn, error) {
		route := swpd.ParseRoute(addr)
		publisher, err := dialAll(ctx, route.Far, files, all.Options{})
		if err != nil {
			return nil, err
		}
		f := &fanOut{peer: publisher, subscribers: subscribers, arrivals: newArrivals()}
		if err := f.subscribe(route, files); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return f, nil
	}
}

type fanOut struct {
	*peer       // the publisher, whose name is the type of the events
	subscribers int
	near        []*peer // sessions of the subscribers
	arrivals    *arrivals
	receiving   sync.WaitGroup
}

// subscribe opens the sessions of the subscribers and all subscriptions.
func (f *fanOut) subscribe(route swpd.Route, files cert.Files) error {
	var opening errgroup.Group
	for left := f.subscribers; left > 0; left -= perConn {
		p, err := dialAll(f.ctx, route.Near, files, all.Options{})
		if err != nil {
			return errors.Join(err, opening.Wait())
		}
		f.near = append(f.near, p)
		opening.Go(func() error {
			for range min(left, perConn) {
				sub, err := events.Open(f.ctx, toward(p.session, route), events.SubscribeOptions{Filter: "type:" + f.name})
				if err != nil {
					return err
				}
				f.receiving.Go(func() { f.arrivals.fail(f.receive(sub)) })
			}
			return nil
		})
	}
	return opening.Wait()
}

// receive takes the events of one subscriber until its session ends, and returns why.
func (f *fanOut) receive(sub *events.Subscription) error {
	defer sub.Close()
	for {
		got, err := sub.Recv(f.ctx)
		if err != nil {
			return err
		}
		for i := range got.Events {
			if err := f.arrivals.came(got.Events[i].EventID, got.Events[i].Body); err != nil {
				return err
			}
		}
	}
}

// Close ends all sessions.
func (f *fanOut) Close() error {
	err := f.peer.Close()
	for _, p := range f.near {
		err = errors.Join(err, p.Close())
	}
	f.receiving.Wait()
	return err
}

func (f *fanOut) Caller() echo.Caller {
	lane, err := f.session.Open(f.ctx)
	if err != nil {
		return failing{err}
	}
	return &announcer{f, &publisher{f.peer, events.NewPublisher(lane, confirm)}}
}

type announcer struct {
	*fanOut
	out *publisher
}

func (a *announcer) Echo(payload []byte, use func([]byte) error) error {
	id := a.nextID()
	wait := a.arrivals.expect(id, payload, a.subscribers)
	if err := a.out.publish(id, a.name, payload); err != nil {
		return err
	}
	return wait(a.ctx, use)
}
