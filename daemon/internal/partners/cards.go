package partners

import (
	"context"
	"sync"
	"time"

	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/internal/partner"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/all"
)

// Cards returns the cards of partner/agent, which it requests from the partner. It
// implements agdisc.Source.
type Cards struct {
	part.Passive
	directory *partner.Directory
	cache     *agdisc.Cache
	slots     chan struct{}
	ctx       context.Context // ends with close
	stop      context.CancelFunc
	work      sync.WaitGroup
}

// Bounds of requests to partners for cards.
const (
	maxCards  = 64              // requests that wait for a partner
	cardsWait = 2 * time.Second // wait for a partner that is not connected
)

// NewCards requests no card yet.
func NewCards(links *Partners) *Cards {
	p := &Cards{
		directory: &links.directory, cache: agdisc.NewCache(agdisc.CacheOptions{}), slots: make(chan struct{}, maxCards),
	}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p
}

// Agents implements agdisc.Source. It returns none.
func (p *Cards) Agents() []agdisc.Entry { return nil }

// Card implements agdisc.Source.
func (p *Cards) Card(agentID string, found func(agdisc.Card, error)) bool {
	link, agent, ok := p.directory.Split(agentID)
	if !ok {
		return false
	}
	select {
	case p.slots <- struct{}{}:
	default:
		found(agdisc.Card{}, profiles.Busy("agdisc_asking", "too many cards are being asked for"))
		return true
	}
	p.work.Go(func() {
		defer func() { <-p.slots }()
		ctx, cancel := context.WithTimeout(p.ctx, cardsWait)
		defer cancel()
		up, err := link.Ready(ctx)
		if err != nil {
			found(agdisc.Card{}, err)
			return
		}
		p.cache.Find(up.Session, agent, func(card agdisc.Card, err error) {
			card.AgentID = agentID
			found(card, err)
		})
	})
	return true
}

// Offer implements part.Part.
func (p *Cards) Offer(o *all.Options) error {
	o.AGDISC.Sources = append(o.AGDISC.Sources, p)
	return nil
}

// Close implements part.Part: it cancels pending requests, and waits for them.
func (p *Cards) Close() error {
	p.stop()
	p.work.Wait()
	p.cache.Close()
	return nil
}
