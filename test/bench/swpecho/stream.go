package swpecho

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/test/bench/cert"
)

// Streamer moves many messages through a swpd over TLS, as the commands of swp-client with --lines
// and --count do.
type Streamer struct {
	Dial client.Dialer
	Size int // octets of a body
}

// NewStreamer returns one for a swpd.
func NewStreamer(addr string, files cert.Files, size int) Streamer {
	return Streamer{client.To("swp+tls://"+addr, client.Options{
		Identity: client.Identity{Cert: files.Cert, Key: files.Key, CA: files.CA},
	}), size}
}

// silence is how long an answer may take.
const silence = time.Minute

// PublishEvents publishes events by one publisher that does not wait for each, and returns how
// long it took until all were confirmed.
func (s Streamer) PublishEvents(ctx context.Context, id string, n uint64) (time.Duration, error) {
	c, err := s.Dial(ctx)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	pub, err := c.Publisher(ctx)
	if err != nil {
		return 0, err
	}
	defer pub.Close()
	at := uint64(time.Now().UnixMilli())
	lines := client.EventLines{Events: pub, Timeout: silence, Make: func(n uint64, line []byte) *events.Record {
		id := fmt.Appendf(nil, "%s-%d", id, n)
		return &events.Record{EventID: id, EventType: []byte("bench"), Severity: []byte("info"), Timestamp: at, MsgID: id, Body: line}
	}}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from := make(chan []byte)
	go func() {
		defer close(from)
		body := make([]byte, s.Size)
		for range n {
			select {
			case from <- body:
			case <-ctx.Done():
				return
			}
		}
	}()
	began := time.Now()
	confirmed, err := lines.Publish(ctx, from)
	if err == nil && confirmed != n {
		err = fmt.Errorf("swpecho: %d of %d events were confirmed", confirmed, n)
	}
	return time.Since(began), err
}

// errEnough ends what has received all it wants.
var errEnough = errors.New("swpecho: enough")

// Replay receives events from the oldest that is stored, and returns how long it took.
func (s Streamer) Replay(ctx context.Context, n uint64) (time.Duration, error) {
	var got, after uint64
	began := time.Now()
	err := client.FollowEvents(ctx, s.Dial, client.EventsOptions{
		SubscribeOptions: events.SubscribeOptions{After: &after}, Silence: silence,
		Deliver: func(d events.Delivery) error {
			if got += uint64(len(d.Events)); got >= n {
				return errEnough
			}
			return nil
		},
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return time.Since(began), err
}

// PublishDeliveries publishes deliveries of a topic by one publisher that does not wait for each,
// and returns how long it took until the relay had custody of all.
func (s Streamer) PublishDeliveries(ctx context.Context, id, topic string, n uint64) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from := make(chan *relay.Publication)
	go func() {
		defer close(from)
		payload := make([]byte, s.Size)
		for i := range n {
			select {
			case from <- &relay.Publication{ID: fmt.Appendf(nil, "%s-%d", id, i), Topic: topic, Payload: payload}:
			case <-ctx.Done():
				return
			}
		}
	}()
	p := client.Publisher{Connect: s.Dial, Silence: silence}
	var taken uint64
	began := time.Now()
	err := p.Publish(ctx, from, func(*relay.Publication, relay.Receipt) error { taken++; return nil })
	if err == nil && taken != n {
		err = fmt.Errorf("swpecho: %d of %d deliveries were confirmed", taken, n)
	}
	return time.Since(began), err
}

// Consume acknowledges deliveries of a topic, of which so many may be in flight, and returns how
// long it took.
func (s Streamer) Consume(ctx context.Context, topic string, inFlight int, n uint64) (time.Duration, error) {
	began := time.Now()
	err := client.Consumer{
		Connect: s.Dial, Topic: topic, MaxInFlight: inFlight, Count: n, Silence: silence,
		Process: func(context.Context, *relay.Delivery) error { return nil },
	}.Consume(ctx)
	return time.Since(began), err
}
