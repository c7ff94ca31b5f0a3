package swpecho

import (
	"bytes"
	"context"
	"errors"
	"sync"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/test/bench/cert"
	"github.com/slimwire/swp/test/bench/echo"
	"github.com/slimwire/swp/test/bench/swpd"
)

// DialRelay connects a publisher to the near swpd of a route and a consumer to the far one,
// over TLS. An exchange is one delivery with the payload: the near swpd has confirmed its
// custody, the far one has delivered it, and the consumer has acknowledged it.
func DialRelay(ctx context.Context, addr string, files cert.Files) (echo.Conn, error) {
	route := swpd.ParseRoute(addr)
	publisher, err := dialAll(ctx, route.Near, files, all.Options{})
	if err != nil {
		return nil, err
	}
	consumer, err := dialAll(ctx, route.Far, files, all.Options{})
	if err != nil {
		return nil, errors.Join(err, publisher.Close())
	}
	d := &deliveries{peer: publisher, to: toward(publisher.session, route), consumer: consumer, arrivals: newArrivals()}
	from, err := consumer.set.Relay.Consume(ctx, consumer.session, publisher.name, 0)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	d.receiving.Go(func() { d.arrivals.fail(d.consume(from)) })
	return d, nil
}

// toward is a session with the near swpd of a route, for messages to the far one.
func toward(near profiles.Session, route swpd.Route) profiles.Session {
	if route.Partner == "" {
		return near
	}
	return profiles.Toward(near, route.Partner)
}

type deliveries struct {
	*peer     // the publisher, whose name is the topic
	to        profiles.Session
	consumer  *peer
	arrivals  *arrivals
	receiving sync.WaitGroup
}

// Close ends both sessions.
func (d *deliveries) Close() error {
	err := errors.Join(d.peer.Close(), d.consumer.Close())
	d.receiving.Wait()
	return err
}

// consume acknowledges deliveries until the session ends, and returns why.
func (d *deliveries) consume(from *relay.Consumer) error {
	defer from.Close()
	for {
		got, err := from.Recv(d.ctx)
		if err != nil {
			return err
		}
		// At a partner the id has octets in front, and after Ack nothing of got is read.
		id, payload := bytes.Clone(got.ID[max(0, len(got.ID)-d.idSize()):]), bytes.Clone(got.Payload)
		if err := got.Ack(); err != nil {
			return err
		}
		if err := d.arrivals.came(id, payload); err != nil {
			return err
		}
	}
}

func (d *deliveries) Caller() echo.Caller { return d }

func (d *deliveries) Echo(payload []byte, use func([]byte) error) error {
	id := d.nextID()
	wait := d.arrivals.expect(id, payload, 1)
	if _, err := relay.Send(d.ctx, d.to, &relay.Publication{ID: []byte(id), Topic: d.name, Payload: payload}); err != nil {
		return err
	}
	return wait(d.ctx, use)
}
