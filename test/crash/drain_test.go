package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
)

// auditor is the name of the journal of who looks in the end.
const auditor = "auditor"

// drainTime is how long the relay may take to be done with everything: leases of
// before the last kill have to end, and poison to be tried again and again.
const drainTime = 90 * time.Second

// askTime is how long one answer may take then.
const askTime = 10 * time.Millisecond

// hop is a partner behind a relay, at which deliveries end. The zero value is none.
type hop struct {
	partner   string
	publisher string // identity of those who publish to it here
}

// atPartner is the id of a delivery there.
func (h hop) atPartner(id string) string {
	return string(relay.Forward(&relay.Delivery{Publisher: h.publisher, ID: []byte(id)}).ID)
}

// drain waits until the relay is done with every delivery, writes down how each
// stands, publishes some of them again, and returns what is dead. It speaks for
// the publishers, which are gone.
func drain(ctx context.Context, dir string, dial dialer, to hop) (map[string]grave, error) {
	ids, err := published(dir)
	if err != nil {
		return nil, err
	}
	p, err := newPublisher(dir, auditor)
	if err != nil {
		return nil, err
	}
	p.via = to.partner
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
	// Who asks how a dead delivery stands needs no notice any more, so notices come first. They
	// come to who publishes.
	for _, id := range ids[:min(len(ids), 1)] {
		if _, err := p.publish(ctx, c.Session, parcel{id: id}); err != nil {
			return nil, err
		}
	}
	if _, err := awaitTold(ctx, c, to.partner); err != nil {
		return nil, err
	}
	p.j.begin(entry{What: didAskAll, Since: time.Now().UnixMilli()})
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
	dead, err := awaitTold(ctx, c, to.partner)
	if err != nil || to.partner == "" {
		return dead, err
	}
	return dead, addFar(ctx, c, to, ids, dead)
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
func awaitTold(ctx context.Context, c *client.Client, partner string) (map[string]grave, error) {
	for {
		list, err := listDead(ctx, c.Session)
		if err != nil || !slices.ContainsFunc(list, func(d relay.Dead) bool { return !d.Told }) {
			dead := make(map[string]grave)
			for _, d := range list {
				d.Topic = strings.TrimPrefix(d.Topic, partner+"/")
				dead[string(d.DeliveryID)] = grave{Dead: d}
			}
			return dead, err
		}
		wait(ctx, 100*time.Millisecond)
	}
}

// addFar adds what is dead at a partner, by the ids here.
func addFar(ctx context.Context, c *client.Client, to hop, ids []string, dead map[string]grave) error {
	here := make(map[string]string)
	for _, id := range ids {
		here[to.atPartner(id)] = id
	}
	list, err := listDead(ctx, profiles.Toward(c.Session, to.partner))
	for _, d := range list {
		id, ok := here[string(d.DeliveryID)]
		if !ok {
			id = string(d.DeliveryID)
		}
		dead[id] = grave{d, true}
	}
	return err
}

func listDead(ctx context.Context, on profiles.Caller) (list []relay.Dead, err error) {
	for params := (relay.DeadParams{}); ; {
		asking, err := json.Marshal(params)
		if err != nil {
			return nil, err
		}
		answer, err := rpc.Call(ctx, on, relay.MethodDead, asking)
		if err != nil {
			return nil, err
		}
		var page relay.DeadPage
		if err := json.Unmarshal(answer, &page); err != nil {
			return nil, err
		}
		list = append(list, page.Dead...)
		if params.After = page.Next; page.Next == "" {
			return list, nil
		}
	}
}

// verdict reads everything that was written down in a directory, and judges it with what is
// known besides.
func verdict(dir string, known history, wrong func(string, ...any)) (figures, error) {
	h, err := readAll(dir)
	if err != nil {
		return figures{}, err
	}
	h.relays, h.troubles, h.kills, h.dead, h.calm = known.relays, known.troubles, known.kills, known.dead, known.calm
	return h.judge(wrong), nil
}
