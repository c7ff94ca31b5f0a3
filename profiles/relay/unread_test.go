package relay_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/store/sqlstore"
)

// unreadable is a Store that cannot read what is large. After a hundred reads it
// hangs, so that a loop comes to an end.
type unreadable struct {
	relay.Store
	reads atomic.Int64
}

func (u *unreadable) Data(ctx context.Context, _, _ string) ([]byte, error) {
	if u.reads.Add(1) > 100 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return nil, errors.New("damaged")
}

// TestWhatCanNotBeReadIsNotTriedAgainAtOnce has a delivery whose data is damaged.
// It holds up nobody, and is looked at again after a pause.
func TestWhatCanNotBeReadIsNotTriedAgainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &unreadable{Store: newStore(t, sqlstore.Options{})}
		s := serve(t, "pipe", relay.Options{Store: u})
		p := s.dial(publisher)
		large := relay.Publication{ID: []byte("large"), Topic: "orders", Payload: []byte(strings.Repeat("x", 64<<10))}
		if _, err := p.send(large); err != nil {
			t.Fatal(err)
		}
		p.publish("orders", "small")
		c := s.dial(consumer).consume("orders", 0)
		ack(t, receive(t, c, "small"))
		time.Sleep(time.Minute)
		if n := u.reads.Load(); n < 2 || n > 60 {
			t.Errorf("it was read %d times in a minute, want a few", n)
		}
		p.wantStatus("large", relay.Queued, 1)
	})
}
