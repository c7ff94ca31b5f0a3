package a2ahttp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/internal/bridge/a2ajson"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/agdisc"
)

// Bounds of the card.
const (
	cardTimeout = profiles.CardWait // of one request for it
	cardAge     = time.Minute       // for which it is fresh if its server does not say
	cardMaxAge  = 24 * time.Hour    // for which it is at most
	cardStale   = 24 * time.Hour    // for which it is told after that while its server cannot be asked
	cardQuiet   = 2 * time.Second   // before a server is asked again that could not be
	cardWaiting = 64                // that wait for one request
)

// cardCache is the card of an agent, octet for octet as its server has it. It keeps
// to ETag and Cache-Control. What many want at once is asked once.
type cardCache struct {
	b    *Back
	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	payload []byte
	etag    string    // as the server wrote it
	fresh   time.Time // until then it need not be asked
	failure error     // why it could not be asked last, nil if it could
	retry   time.Time // until then it is not asked again
	waiting []func(agdisc.Card, error)
	at      *address // that the card names, or nil
}

func (c *cardCache) init(b *Back) {
	c.b = b
	c.ctx, c.stop = context.WithCancel(context.Background())
}

func (c *cardCache) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.stop()
	c.work.Wait()
}

// Agents implements agdisc.Source.
func (b *Back) Agents() []agdisc.Entry {
	e := agdisc.Entry{AgentID: b.opts.Name}
	b.card.mu.Lock()
	defer b.card.mu.Unlock()
	if b.card.payload != nil {
		e.Revision = agdisc.RevisionOf(b.card.payload)
	}
	return []agdisc.Entry{e}
}

// Card implements agdisc.Source.
func (b *Back) Card(agentID string, found func(agdisc.Card, error)) bool {
	if agentID != b.opts.Name {
		return false
	}
	b.card.find(found)
	return true
}

var errCards = profiles.Busy("a2ahttp_cards", "too many wait for the card of this agent")

// find calls found with the card, at once if it is fresh.
func (c *cardCache) find(found func(agdisc.Card, error)) {
	c.mu.Lock()
	now := c.b.opts.Now()
	if now.Before(c.fresh) || now.Before(c.retry) || c.closed {
		card, err := c.current(now)
		c.mu.Unlock()
		found(card, err)
		return
	}
	if len(c.waiting) >= cardWaiting {
		c.mu.Unlock()
		found(agdisc.Card{}, errCards)
		return
	}
	c.waiting = append(c.waiting, found)
	if len(c.waiting) == 1 {
		c.work.Go(c.fetch)
	}
	c.mu.Unlock()
}

// current returns the card, or the error, that is valid now. The caller holds mu.
func (c *cardCache) current(now time.Time) (agdisc.Card, error) {
	if c.payload == nil || now.Sub(c.fresh) > cardStale {
		if c.failure == nil {
			return agdisc.Card{}, errLeftOff
		}
		return agdisc.Card{}, c.failure
	}
	return agdisc.Card{
		AgentID: c.b.opts.Name, Revision: agdisc.RevisionOf(c.payload), ETag: agdisc.HashOf(c.payload), Payload: c.payload,
		MaxAge: max(0, c.fresh.Sub(now)),
	}, nil
}

var errLeftOff = errors.New("a2ahttp: the card is not asked for any more")

// fetch asks the server and tells those that wait.
func (c *cardCache) fetch() {
	c.mu.Lock()
	etag, payload := c.etag, c.payload
	c.mu.Unlock()
	octets, header, err := c.ask(etag)
	now := c.b.opts.Now()
	if err == nil && octets == nil {
		octets = payload
	}
	c.mu.Lock()
	if c.failure = err; err == nil {
		c.payload, c.etag, c.fresh, c.retry = octets, header.Get("ETag"), now.Add(freshFor(header)), time.Time{}
		if header.Get("ETag") == "" {
			c.etag = etag
		}
		c.at = c.b.chosen(octets)
	} else {
		c.retry = now.Add(cardQuiet)
		if errors.As(err, new(*profiles.PeerError)) { // the card is gone
			c.payload, c.etag, c.at = nil, "", nil
		}
	}
	card, failure := c.current(now)
	waiting := c.waiting
	c.waiting = nil
	c.mu.Unlock()
	c.report(err)
	for _, found := range waiting {
		found(card, failure)
	}
}

// report reports the result of a request for the card. An agent without a card has answered.
func (c *cardCache) report(err error) {
	switch {
	case err == nil || errors.As(err, new(*profiles.PeerError)):
		c.b.opts.Answered()
	case c.ctx.Err() == nil:
		c.b.opts.Trouble("card", err)
	}
}

// Probe asks the agent for its card, whether that is fresh or not. Answered or Trouble is called with the result.
func (b *Back) Probe(ctx context.Context) {
	done := make(chan struct{})
	if !b.card.spawn(func() {
		defer close(done)
		_, _, err := b.card.ask("")
		b.card.report(err)
	}) {
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// spawn runs f, unless the cache is closed.
func (c *cardCache) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.work.Go(f)
	return true
}

// ask makes the request. No octets and no error mean that the card is the one with
// the etag. Credentials of the configuration are for the agent and not sent with it.
func (c *cardCache) ask(etag string) ([]byte, http.Header, error) {
	ctx, cancel := context.WithTimeout(c.ctx, cardTimeout)
	defer cancel()
	h := http.Header{"Accept": {"application/json"}}
	if etag != "" {
		h.Set("If-None-Match", etag)
	}
	r, err := c.b.client.Do(ctx, http.MethodGet, c.b.opts.CardURL, h, nil)
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	switch {
	case r.Status == http.StatusNotModified && etag != "":
		return nil, r.Header, nil
	case r.Status == http.StatusNotFound || r.Status == http.StatusGone:
		return nil, nil, &profiles.PeerError{Profile: agdisc.Name, Code: agdisc.CodeNotFound, Message: "the agent has no card"}
	case r.Status != http.StatusOK:
		return nil, nil, fmt.Errorf("%w: the card: status %d", errRefused, r.Status)
	}
	body, err := r.Body()
	switch {
	case err != nil:
		return nil, nil, err
	case len(body) > agdisc.MaxCard:
		return nil, nil, fmt.Errorf("a2ahttp: card of %d octets, limit %d", len(body), agdisc.MaxCard)
	}
	if _, err := a2ajson.Parse(body); err != nil {
		return nil, nil, errors.New("a2ahttp: the card is no JSON object")
	}
	return body, r.Header, nil
}

// freshFor is how long a response need not be asked for again.
func freshFor(h http.Header) time.Duration {
	age := cardAge
	for directive := range strings.SplitSeq(strings.Join(h.Values("Cache-Control"), ","), ",") {
		name, value, _ := strings.Cut(strings.ToLower(strings.TrimSpace(directive)), "=")
		switch name {
		case "no-store", "no-cache":
			return 0
		case "max-age":
			if n, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 31); err == nil {
				age = time.Duration(n) * time.Second
			}
		}
	}
	if n, err := strconv.ParseUint(h.Get("Age"), 10, 31); err == nil {
		age -= time.Duration(n) * time.Second
	}
	return min(max(age, 0), cardMaxAge)
}

// errNoInterface: the card names none that can be spoken to.
var errNoInterface = errors.New("a2ahttp: the card names no interface of A2A 1.0 by JSONRPC or HTTP+JSON on the host of the URL")

// told returns the card that callers get.
func (b *Back) told(ctx context.Context) ([]byte, error) {
	card, err := agdisc.CardOf(ctx, b.opts.Name, b.opts.Told, b)
	return card.Payload, err
}

// address is where requests go.
func (b *Back) address(ctx context.Context) (address, error) {
	if b.opts.Binding != "" {
		return address{b.opts.Binding, b.opts.URL}, nil
	}
	if _, err := agdisc.CardOf(ctx, b.opts.Name, b); err != nil {
		return address{}, err
	}
	b.card.mu.Lock()
	defer b.card.mu.Unlock()
	if b.card.at == nil {
		return address{}, errNoInterface
	}
	return *b.card.at, nil
}

// chosen is the first supported interface of a card, or nil. Its host is always the
// configured one (ABUSE GW-08).
func (b *Back) chosen(card []byte) *address {
	var c struct {
		Interfaces []struct {
			URL     string `json:"url"`
			Binding string `json:"protocolBinding"`
			Version string `json:"protocolVersion"`
			Tenant  string `json:"tenant"`
		} `json:"supportedInterfaces"`
	}
	here, err := url.Parse(b.opts.URL)
	if json.Unmarshal(card, &c) != nil || err != nil {
		return nil
	}
	known := map[string]Binding{"JSONRPC": JSONRPC, "HTTP+JSON": REST}
	for _, i := range c.Interfaces {
		binding, ok := known[i.Binding]
		if !ok || i.Version != a2abinding.Version || i.Tenant != "" || checkBase(i.URL) != nil {
			continue
		}
		if u, err := url.Parse(i.URL); err == nil && u.Scheme == here.Scheme && strings.EqualFold(u.Host, here.Host) {
			return &address{binding, i.URL}
		}
	}
	return nil
}
