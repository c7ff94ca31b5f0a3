package crash

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/relay"
)

// What is meant to become of a delivery is the last letter of its id.
const (
	planned  = 'a' // it is acknowledged, sooner or later
	refusing = 'r' // consumers refuse it
	poison   = 'x' // no consumer can process it
	brief    = 't' // it is worth nothing after shortLife
)

const (
	shortLife = 2 * time.Second
	topics    = 4
)

func plan(id string) byte { return id[len(id)-1] }

func topicName(n uint32) string { return fmt.Sprintf("crash/%d", n%topics) }

// parcel is something to publish. All of it follows from its id, so that whoever
// knows that can publish it again; and from variant, which makes another payload.
type parcel struct {
	id      string
	variant byte
}

func (p parcel) topic() string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(p.id))
	return topicName(h.Sum32())
}

func (p parcel) ttl() time.Duration {
	if plan(p.id) == brief {
		return shortLife
	}
	return 0
}

// payload begins with the id, because a relay that passes it on gives it an id of its own.
// It has up to 1 KiB more, and one in a hundred 32 KiB, which a relay keeps apart.
func (p parcel) payload() []byte {
	seed := sha256.Sum256(append([]byte(p.id), p.variant))
	source := rand.NewChaCha8(seed)
	size := source.Uint64() % 1024
	if source.Uint64()%100 == 0 {
		size = 32 << 10
	}
	octets := make([]byte, size)
	_, _ = source.Read(octets) // never fails
	return append([]byte(p.id+"\n"), octets...)
}

// named returns the id of a parcel by its payload.
func named(payload []byte) string {
	id, _, _ := bytes.Cut(payload, []byte("\n"))
	return string(id)
}

func digest(payload []byte) string {
	sum := sha256.Sum256(payload)
	return hex.EncodeToString(sum[:8])
}

// publisher publishes to a relay, writes down what it does, and goes on where the
// process before it has ended.
type publisher struct {
	j    *journal
	name string        // of this process: none has it again
	via  string        // partner whose relay it is; empty: the endpoint's own
	aims bool          // at the partner by a target, not by the names of topics
	pace time.Duration // between two things on one connection

	mu    sync.Mutex
	luck  *rand.Rand
	next  int
	owed  []parcel // published, and not answered
	known []string // ids that were answered, lately
}

// recall is how many ids a publisher knows.
const recall = 1024

// newPublisher goes on where the processes before it have ended, the last of which has
// taken over what the others owed, unless it was killed before it had written that down.
func newPublisher(dir, name string, before ...string) (*publisher, error) {
	j, err := openJournal(dir, name)
	if err != nil {
		return nil, err
	}
	p := &publisher{j: j, name: name, luck: chances(name)}
	for _, name := range slices.Backward(before) {
		if whole, err := p.takeOver(dir, name); whole || err != nil {
			return p, err
		}
	}
	j.write(entry{What: tookOver})
	return p, nil
}

// takeOver reads a journal, and returns whether its process had taken over.
func (p *publisher) takeOver(dir, before string) (whole bool, err error) {
	open, begun := make(map[parcel]bool), make(map[uint64]parcel)
	err = readJournal(dir, before, func(e *entry) {
		switch e.What {
		case tookOver:
			whole = true
		case didOwe, didPublish:
			made := parcel{id: e.ID}
			if e.Payload != digest(made.payload()) {
				made.variant = 1
			}
			open[made], begun[e.Op] = true, made
		case hadAnswer:
			made := begun[e.Op]
			delete(open, made)
			p.remember(made.id)
		}
	})
	if !whole || err != nil {
		return false, err
	}
	var owed []entry
	for made := range open {
		p.owed = append(p.owed, made)
		owed = append(owed, entry{Op: p.j.ops.Add(1), What: didOwe, ID: made.id, Payload: digest(made.payload())})
	}
	p.j.write(append(owed, entry{What: tookOver})...)
	return true, nil
}

func (p *publisher) remember(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.known) < recall {
		p.known = append(p.known, id)
		return
	}
	p.known[p.luck.IntN(recall)] = id
}

// profiles are what a publisher serves: it hears of dead deliveries.
func (p *publisher) profiles() (*all.Set, error) {
	return all.New(all.Options{Relay: relay.Options{Notice: func(_ *profiles.Peer, n relay.Notice) bool {
		p.j.begin(entry{What: hadNotice, ID: string(n.DeliveryID), Text: string(n.Reason)})
		return true
	}}})
}

// run publishes on so many connections until ctx ends.
func (p *publisher) run(ctx context.Context, dial dialer, connections int) error {
	set, err := p.profiles()
	if err != nil {
		return err
	}
	defer set.Close()
	with := func(ctx context.Context, _ *all.Set) (*client.Client, error) { return dial(ctx, set) }
	var all sync.WaitGroup
	for range connections {
		all.Go(func() {
			_ = connected(ctx, with, func(ctx context.Context, c *client.Client) error {
				for {
					if err := p.step(ctx, c.Session); err != nil {
						return err
					}
					wait(ctx, p.pace)
				}
			})
		})
	}
	all.Wait()
	return nil
}

// step publishes something, and at times asks for something.
func (p *publisher) step(ctx context.Context, on profiles.Session) error {
	made := p.choose()
	answer, err := p.publish(ctx, on, made)
	if err != nil || answer == "" {
		p.mu.Lock()
		p.owed = append(p.owed, made)
		p.mu.Unlock()
		if err == nil {
			wait(ctx, 10*time.Millisecond) // there is no room at the relay
		}
		return err
	}
	p.remember(made.id)
	if id := p.questioned(made.id); id != "" {
		_, err = p.ask(ctx, on, id, nil)
	}
	return err
}

// choose says what to publish: what is owed, mostly something new, at times what
// was published before, also with another payload, or what others publish now.
func (p *publisher) choose() parcel {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.owed); n > 0 && p.luck.IntN(2) == 0 {
		made := p.owed[n-1]
		p.owed = p.owed[:n-1]
		return made
	}
	kind := byte(planned)
	switch n := p.luck.IntN(400); {
	case n < 20 && len(p.known) > 0:
		return parcel{id: p.known[p.luck.IntN(len(p.known))]}
	case n < 24 && len(p.known) > 0:
		return parcel{p.known[p.luck.IntN(len(p.known))], 1}
	case n < 34:
		return parcel{fmt.Sprintf("both-%d-%c", clock()/int64(50*time.Millisecond), planned), byte(p.luck.IntN(4) / 3)}
	case n < 38:
		kind = refusing
	case n < 42:
		kind = brief
	case n == 42:
		kind = poison
	}
	p.next++
	return parcel{id: fmt.Sprintf("%s-%d-%c", p.name, p.next, kind)}
}

// questioned is the id of a delivery to ask about: some one that is not meant to die, or the
// given one; mostly none.
func (p *publisher) questioned(id string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.luck.IntN(4) > 0 {
		return ""
	}
	if some := p.known[p.luck.IntN(len(p.known))]; plan(some) == planned {
		return some
	}
	return id
}

// publish returns how a relay has answered, empty if it had no room. The error
// says that it is unknown whether the relay has the delivery.
func (p *publisher) publish(ctx context.Context, on profiles.Session, made parcel) (answer string, err error) {
	payload, topic := made.payload(), made.topic()
	switch {
	case p.aims:
		on = profiles.Toward(on, p.via)
	case p.via != "":
		topic = p.via + "/" + topic
	}
	op := p.j.begin(entry{What: didPublish, ID: made.id, Topic: made.topic(), Payload: digest(payload), TTL: made.ttl()})
	receipt, err := relay.Send(ctx, on, &relay.Publication{ID: []byte(made.id), Topic: topic, Payload: payload, TTL: made.ttl()})
	refused := (*profiles.PeerError)(nil)
	switch {
	case errors.As(err, &refused) && refused.Retryable():
		return "", nil
	case errors.As(err, &refused) && refused.Code == relay.CodeConflict:
		answer = answerClash
	case errors.As(err, &refused):
		p.j.begin(entry{What: sawFault, ID: made.id, Text: "published: " + err.Error()})
		return "", err
	case err != nil:
		return "", err
	case receipt.Duplicate:
		answer = answerTwice
	default:
		answer = answerFresh
	}
	p.j.write(entry{Op: op, What: hadAnswer, ID: made.id, Text: answer})
	return answer, nil
}

// ask returns how a delivery stands, empty if the relay cannot tell now. It writes
// down what is worth it; nil means all. Nothing follows from a question that is not
// written down.
func (p *publisher) ask(ctx context.Context, on profiles.Caller, id string, worth func(answer string) bool) (string, error) {
	since := clock()
	state, _, err := relay.Ask(ctx, on, []byte(id))
	answer := string(state)
	refused := (*profiles.PeerError)(nil)
	switch {
	case errors.As(err, &refused) && refused.Retryable():
		return "", nil
	case errors.As(err, &refused) && refused.Code == relay.CodeNotFound:
		answer = answerNone
	case errors.As(err, &refused):
		p.j.begin(entry{What: sawFault, ID: id, Text: "asked: " + err.Error()})
		return "", err
	case err != nil:
		return "", err
	}
	if worth == nil || worth(answer) {
		p.j.begin(entry{What: didAsk, ID: id, Since: since, Text: answer})
	}
	return answer, nil
}
