package crash

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/relay"
)

// inFlight is how many deliveries a consumer has of one topic at once.
const inFlight = 32

// consumer processes the deliveries of all topics, and writes down what it does.
type consumer struct {
	j    *journal
	name string
	set  *all.Set
}

func newConsumer(dir, name string) (*consumer, error) {
	j, err := openJournal(dir, name)
	if err != nil {
		return nil, err
	}
	set, err := all.New(all.Options{})
	return &consumer{j: j, name: name, set: set}, err
}

// run consumes on one connection after the other until ctx ends.
func (c *consumer) run(ctx context.Context, dial dialer) {
	defer c.set.Close()
	luck := chances(c.name)
	for ctx.Err() == nil {
		since := clock()
		conn, err := dial(ctx, c.set)
		if err != nil {
			wait(ctx, 5*time.Millisecond) // another process is awaited
			continue
		}
		lasting := time.Second + upTo(luck, 10*time.Second)
		c.serve(ctx, conn, c.j.begin(entry{What: didConnect, Since: since}), lasting)
	}
}

// serve consumes on a connection until it ends, or as long as it is to last.
func (c *consumer) serve(ctx context.Context, conn *client.Client, number uint64, lasting time.Duration) {
	bounded, cancel := context.WithTimeout(ctx, lasting)
	defer cancel()
	why := make(chan error, topics)
	var all sync.WaitGroup
	for n := range uint32(topics) {
		all.Go(func() { why <- c.consume(bounded, conn, topicName(n), number) })
	}
	err := <-why // one ends for the same reason as all
	if bounded.Err() != nil {
		c.j.write(entry{Op: number, What: didDrop})
	}
	conn.Close()
	all.Wait()
	c.j.write(entry{Op: number, What: wasDropped, Text: err.Error()})
}

// consume processes the deliveries of a topic, some at once.
func (c *consumer) consume(ctx context.Context, conn *client.Client, topic string, number uint64) error {
	from, err := c.set.Relay.Consume(ctx, conn.Session, topic, inFlight)
	if err != nil {
		return err
	}
	defer from.Close()
	luck := chances(fmt.Sprint(c.name, topic, number))
	for {
		d, err := from.Recv(ctx)
		if err != nil {
			return err
		}
		id := named(d.Payload)
		op := c.j.begin(entry{What: didGet, ID: id, Topic: d.Topic, Payload: digest(d.Payload), Conn: number})
		go c.process(d, id, op, upTo(luck, 100*time.Millisecond), luck.IntN(1000))
	}
}

// process takes a moment, and answers as the plan of the delivery has it. That it
// is not processed at first happens to any.
func (c *consumer) process(d *relay.Delivery, id string, op uint64, moment time.Duration, luck int) {
	time.Sleep(moment) // a process that is killed has unanswered deliveries
	switch {
	case luck == 0:
		c.j.write(entry{Op: op, What: didIgnore, ID: id})
	case luck < 20 || plan(id) == poison:
		c.j.write(entry{Op: op, What: didNack, ID: id})
		_ = d.Nack(true, "busy") // or it is made again anyhow
	case plan(id) == refusing:
		c.j.write(entry{Op: op, What: didReject, ID: id})
		_ = d.Nack(false, "refused")
	default:
		c.j.write(entry{Op: op, What: didAck, ID: id})
		_ = d.Ack()
	}
}
