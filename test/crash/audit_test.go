package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
)

// auditor is the name of the journal of who looks in the end.
const auditor = "auditor"

// drainTime is how long the relay may take to be done with everything: leases of
// before the last kill have to end, and poison to be tried again and again.
const drainTime = 90 * time.Second

// askTime is how long one answer may take then.
const askTime = time.Millisecond

// audit waits until the relay is done with every delivery, writes down how each
// stands, publishes some of them again, and returns what is dead. It speaks for
// the publishers, which are gone.
func audit(ctx context.Context, dir string, dial dialer) (map[string]relay.Dead, error) {
	ids, err := published(dir)
	if err != nil {
		return nil, err
	}
	p, err := newPublisher(dir, auditor)
	if err != nil {
		return nil, err
	}
	set, err := p.profiles()
	if err != nil {
		return nil, err
	}
	defer set.Close()
	ctx, cancel := context.WithTimeout(ctx, drainTime+time.Duration(len(ids))*askTime)
	defer cancel()
	c, err := dial(ctx, set)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := p.awaitEnd(ctx, c, ids); err != nil {
		return nil, err
	}
	for _, id := range ids[:min(len(ids), recall)] {
		if _, err := p.publish(ctx, c.Session, parcel{id: id}); err != nil {
			return nil, err
		}
	}
	// What is published for the first time just now is to be delivered as well.
	if err := p.awaitEnd(ctx, c, ids[:min(len(ids), recall)]); err != nil {
		return nil, err
	}
	return awaitTold(ctx, c)
}

// published returns the id of everything that was published, in no order.
func published(dir string) (ids []string, err error) {
	names, err := journals(dir)
	if err != nil {
		return nil, err
	}
	seen := make(map[string]bool)
	for _, name := range names {
		err := readJournal(dir, name, func(e *entry) {
			if e.What == didPublish {
				seen[e.ID] = true
			}
		})
		if err != nil {
			return nil, err
		}
	}
	for id := range seen {
		ids = append(ids, id)
	}
	return ids, nil
}

// awaitEnd asks for deliveries, each until it is not to be delivered any more.
func (p *publisher) awaitEnd(ctx context.Context, c *client.Client, ids []string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan string)
	var all sync.WaitGroup
	for range lookers {
		all.Go(func() {
			for id := range next {
				if err := p.awaitOne(ctx, c, id); err != nil {
					cancel(fmt.Errorf("crash: %s: %w", id, err))
				}
			}
		})
	}
	for _, id := range ids {
		select {
		case next <- id:
		case <-ctx.Done():
		}
	}
	close(next)
	all.Wait()
	return context.Cause(ctx)
}

// isEnd reports whether a delivery that stands so will not be made again.
func isEnd(state string) bool {
	return state == answerNone || state == string(relay.Acked) || state == string(relay.DeadState)
}

func (p *publisher) awaitOne(ctx context.Context, c *client.Client, id string) error {
	for {
		switch state, err := p.ask(ctx, c.Session, id, isEnd); {
		case err != nil:
			return fmt.Errorf("not at its end: %w", err)
		case isEnd(state):
			return nil
		}
		wait(ctx, 100*time.Millisecond)
	}
}

// awaitTold lists the dead deliveries until their publisher was told of each.
func awaitTold(ctx context.Context, c *client.Client) (map[string]relay.Dead, error) {
	untold := func(d relay.Dead) bool { return !d.Told }
	for {
		list, err := listDead(ctx, c)
		if err != nil || !slices.ContainsFunc(slices.Collect(maps.Values(list)), untold) {
			return list, err
		}
		wait(ctx, 100*time.Millisecond)
	}
}

func listDead(ctx context.Context, c *client.Client) (map[string]relay.Dead, error) {
	list := make(map[string]relay.Dead)
	for params := (relay.DeadParams{}); ; {
		asking, err := json.Marshal(params)
		if err != nil {
			return nil, err
		}
		answer, err := rpc.Call(ctx, c.Session, relay.MethodDead, asking)
		if err != nil {
			return nil, err
		}
		var page relay.DeadPage
		if err := json.Unmarshal(answer, &page); err != nil {
			return nil, err
		}
		for _, d := range page.Dead {
			list[string(d.DeliveryID)] = d
		}
		if params.After = page.Next; page.Next == "" {
			return list, nil
		}
	}
}

// verdict reads everything that was written down, and judges it.
func verdict(dir string, relays []life, kills map[string]span, dead map[string]relay.Dead, wrong func(string, ...any)) (figures, error) {
	h, err := readAll(dir)
	if err != nil {
		return figures{}, err
	}
	h.relays, h.kills, h.dead = relays, kills, dead
	return h.judge(wrong), nil
}
