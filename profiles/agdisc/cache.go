package agdisc

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/profiles"
)

// CacheOptions configure a Cache. Zero means the stated default.
type CacheOptions struct {
	Cards   int           // maximum number, default 1,024
	Octets  int           // of their payloads, default 64 MiB
	Asking  int           // concurrent requests, default 64; the peers that are asked share them
	Timeout time.Duration // of a request, default 5 s

	// Silence is how long an agent without a card or an answer is not asked again, default
	// 2 s.
	Silence time.Duration

	// Now is the clock for the age of cards. Nil means time.Now.
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

// Cache caches the cards of agents at peers. A card is returned without a request until its
// max_age has passed. Then the peer is asked to revalidate it, which renews it. It is safe
// for concurrent use.
//
// Concurrent calls for the same card share one request. At a bound the least recently used
// card is removed.
type Cache struct {
	opts CacheOptions
	ctx  context.Context // ends with Close
	stop context.CancelFunc
	work sync.WaitGroup // questions

	mu     sync.Mutex
	closed bool
	places map[place]*list.Element // of *held
	order  list.List               // the most recently used first
	octets int
	asking fair.Shares // requests, by the identity that is asked
}

// place identifies a card: an agent_id belongs to its peer.
type place struct{ identity, agentID string }

// held is a cached card, or its absence.
type held struct {
	place   place
	card    *Card // nil if there is none, or not yet
	failure error // in place of the card, until it expires
	until   time.Time
	waiting []func(Card, error) // not nil while the peer is asked
}

// NewCache returns an empty Cache. The caller closes it.
func NewCache(opts CacheOptions) *Cache {
	c := &Cache{opts: opts.withDefaults(), places: make(map[place]*list.Element)}
	c.asking = fair.NewShares(c.opts.Asking)
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.order.Init()
	return c
}

// Close cancels the pending requests and waits for them.
func (c *Cache) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.stop()
	c.work.Wait()
}

// Get returns the card of an agent at the peer of a session. Its ETag is the peer's, or
// HashOf its octets; its MaxAge is the remaining time. The errors are those of Ask.
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

// Find is Get without waiting. It calls found once, immediately or later; found must not
// wait.
func (c *Cache) Find(session profiles.Session, agentID string, found func(Card, error)) {
	card, now, err := c.look(session, agentID, found)
	if now {
		found(card, err)
	}
}

// errAsking is the answer if there are too many concurrent requests.
var errAsking = profiles.Busy("agdisc_asking", "too many cards are being asked for")

var errClosed = errors.New("agdisc: closed")

// look returns a fresh result from the cache. Without one, it asks the peer, and found
// will be called.
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
	}
	if fault := c.asking.Take(h.place.identity, 1).Refuse(errAsking); fault != nil {
		return Card{}, true, fault
	}
	h.waiting = append(h.waiting, found)
	c.work.Go(func() { c.ask(session, h) })
	return Card{}, false, nil
}

// hold returns the entry of a place, or makes one, and marks it as most recently used. The
// caller holds mu.
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

// trim removes the least recently used entries until the bounds hold. Entries with waiting
// callers stay; Asking bounds them. The caller holds mu.
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

// aged returns the card with the remaining part of its max_age.
func (h *held) aged(left time.Duration) Card {
	card := *h.card
	card.MaxAge = max(0, min(left, card.MaxAge))
	if card.ETag == "" {
		card.ETag = HashOf(card.Payload)
	}
	return card
}

// ask asks the peer and answers the waiting callers.
func (c *Cache) ask(session profiles.Session, h *held) {
	ctx, cancel := context.WithTimeout(c.ctx, c.opts.Timeout)
	defer cancel()
	defer context.AfterFunc(session.Context(), cancel)()
	var etag string
	if h.card != nil { // while callers wait, only this goroutine writes it
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
	c.asking.Give(h.place.identity, 1)
	c.trim()
	c.mu.Unlock()
	for _, found := range waiting {
		found(card, err)
	}
}
