package agdisc

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/slimwire/swp/profiles"
)

// CacheOptions configure a Cache. Zero means the default that is named.
type CacheOptions struct {
	Cards   int           // held at most, default 1,024
	Octets  int           // of their payloads, default 64 MiB
	Asking  int           // questions under way at once, default 64
	Timeout time.Duration // of a question, default 5 s

	// Silence is how long an agent is not asked again that had no card or did not
	// answer, default 2 s.
	Silence time.Duration

	// Now is the clock that tells how old a card is. Nil means time.Now.
	Now func() time.Time
}

func (o CacheOptions) withDefaults() CacheOptions {
	for _, d := range []struct {
		value *int
		def   int
	}{{&o.Cards, 1024}, {&o.Octets, 64 << 20}, {&o.Asking, 64}} {
		if *d.value == 0 {
			*d.value = d.def
		}
	}
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Second
	}
	if o.Silence == 0 {
		o.Silence = 2 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Cache has the cards of agents at peers. A card is told without asking until
// its max_age has passed since it was received; then the peer is asked whether
// it is still the same, and that renews it. It is safe for concurrent use.
//
// Concurrent requests for the same card share one. Over its bounds the card that
// was wanted longest ago is forgotten.
type Cache struct {
	opts CacheOptions
	ctx  context.Context // ends with Close
	stop context.CancelFunc
	work sync.WaitGroup // questions

	mu     sync.Mutex
	closed bool
	places map[place]*list.Element // of *held
	order  list.List               // what was wanted last comes first
	octets int
	asking int
}

// place is whose card it is: an agent_id belongs to the peer that has it.
type place struct{ identity, agentID string }

// held is a cached card, or the fact that there is none.
type held struct {
	place   place
	card    *Card // nil if there is none, or not yet
	failure error // in place of the card, until then
	until   time.Time
	waiting []func(Card, error) // not nil while the peer is asked
}

// NewCache returns a Cache with nothing in it. The caller closes it.
func NewCache(opts CacheOptions) *Cache {
	c := &Cache{opts: opts.withDefaults(), places: make(map[place]*list.Element)}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.order.Init()
	return c
}

// Close ends the questions that are under way, and waits for them.
func (c *Cache) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.stop()
	c.work.Wait()
}

// Get returns the card of an agent at the peer of a session. Its ETag is the
// peer's, or HashOf its octets; its MaxAge is what is left of it. The errors
// are those of Ask.
func (c *Cache) Get(ctx context.Context, session profiles.Session, agentID string) (Card, error) {
	type outcome struct {
		card Card
		err  error
	}
	found := make(chan outcome, 1)
	c.Find(session, agentID, func(card Card, err error) { found <- outcome{card, err} })
	select {
	case o := <-found:
		return o.card, o.err
	case <-ctx.Done():
		return Card{}, ctx.Err()
	}
}

// Find is Get without waiting: found is called once, at once or later, and must
// not wait.
func (c *Cache) Find(session profiles.Session, agentID string, found func(Card, error)) {
	card, now, err := c.look(session, agentID, found)
	if now {
		found(card, err)
	}
}

// errAsking is the answer where too much is being asked already.
var errAsking = profiles.Busy("agdisc_asking", "too many cards are being asked for")

var errClosed = errors.New("agdisc: closed")

// look returns what is known now. Where that is too old, the peer is asked, and
// found will be called.
func (c *Cache) look(session profiles.Session, agentID string, found func(Card, error)) (card Card, now bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.hold(place{session.Peer().Identity, agentID})
	switch left := h.until.Sub(c.opts.Now()); {
	case c.closed:
		return Card{}, true, errClosed
	case h.waiting != nil:
		h.waiting = append(h.waiting, found)
		return Card{}, false, nil
	case h.failure != nil && left > 0:
		return Card{}, true, h.failure
	case h.card != nil && left > 0:
		return h.aged(left), true, nil
	case c.asking >= c.opts.Asking:
		return Card{}, true, errAsking
	}
	h.waiting = append(h.waiting, found)
	c.asking++
	c.work.Go(func() { c.ask(session, h) })
	return Card{}, false, nil
}

// hold returns the entry of a place, a new one if there is none, as the one
// that was wanted last. The caller holds mu.
func (c *Cache) hold(p place) *held {
	if e, ok := c.places[p]; ok {
		c.order.MoveToFront(e)
		return e.Value.(*held) //nolint:errcheck // the list holds nothing else
	}
	h := &held{place: p}
	c.places[p] = c.order.PushFront(h)
	c.trim()
	return h
}

// trim forgets what was wanted longest ago until the bounds hold. Entries that
// somebody waits for stay: Asking bounds them. The caller holds mu.
func (c *Cache) trim() {
	for e := c.order.Back(); e != nil && (c.order.Len() > c.opts.Cards || c.octets > c.opts.Octets); {
		h, before := e.Value.(*held), e.Prev() //nolint:errcheck // the list holds nothing else
		if h.waiting == nil && e != c.order.Front() {
			c.put(h, nil)
			delete(c.places, h.place)
			c.order.Remove(e)
		}
		e = before
	}
}

// put makes card the card of an entry. The caller holds mu.
func (c *Cache) put(h *held, card *Card) {
	if h.card != nil {
		c.octets -= len(h.card.Payload)
	}
	if h.card = card; card != nil {
		c.octets += len(card.Payload)
	}
}

// aged returns the card with the rest of its max_age.
func (h *held) aged(left time.Duration) Card {
	card := *h.card
	card.MaxAge = max(0, min(left, card.MaxAge))
	if card.ETag == "" {
		card.ETag = HashOf(card.Payload)
	}
	return card
}

// ask asks the peer and tells those who wait.
func (c *Cache) ask(session profiles.Session, h *held) {
	ctx, cancel := context.WithTimeout(c.ctx, c.opts.Timeout)
	defer cancel()
	defer context.AfterFunc(session.Context(), cancel)()
	var etag string
	if h.card != nil { // nobody else writes it while somebody waits
		etag = h.card.ETag
	}
	fresh, err := Ask(ctx, session, h.place.agentID, etag)

	c.mu.Lock()
	now := c.opts.Now()
	h.failure = err
	switch {
	case err != nil:
		h.until = now.Add(c.opts.Silence)
		if errors.As(err, new(*profiles.PeerError)) {
			c.put(h, nil)
		}
	case fresh != nil:
		c.put(h, fresh)
		h.until = now.Add(fresh.MaxAge)
	default:
		h.until = now.Add(h.card.MaxAge)
	}
	var card Card
	if err == nil {
		card = h.aged(h.until.Sub(now))
	}
	waiting := h.waiting
	h.waiting = nil
	c.asking--
	c.trim()
	c.mu.Unlock()
	for _, found := range waiting {
		found(card, err)
	}
}
