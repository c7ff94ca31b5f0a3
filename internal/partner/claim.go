package partner

import (
	"sync"
	"time"

	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/profiles"
)

// claims records exclusive work over a link: work that only one peer at a time may do.
type claims struct {
	mu     sync.Mutex
	held   map[string]claim
	places fair.Shares // of held, by identity
}

type claim struct {
	identity string
	until    time.Time
}

// claimed is how long a claim lasts after the last message of its work.
const claimed = time.Minute

// maxClaims limits the claims on one link.
const maxClaims = 4096

// take claims work for an identity, or renews its claim. It fails if another identity has
// the claim, or if the work has not begun. The zero Sole needs no claim.
func (c *claims) take(work profiles.Sole, identity string) *profiles.Error {
	if work.On == "" {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	held, known := c.held[work.On]
	switch own := known && held.identity == identity; {
	case own:
	case !work.Begins:
		return &profiles.Error{Code: profiles.NotFound, Detail: "partner_claim", Domain: true, Text: "this has not begun here, or somebody else has taken it over; begin it again"}
	case known && now.Before(held.until):
		return profiles.Busy("partner_claim", "another caller uses this over the link to the partner now")
	default:
		if known {
			c.drop(work.On)
		}
		if fault := c.room(identity, now).Refuse(errClaims); fault != nil {
			return fault
		}
	}
	if c.held == nil {
		c.held = make(map[string]claim)
	}
	c.held[work.On] = claim{identity, now.Add(claimed)}
	if work.Ends {
		c.drop(work.On)
	}
	return nil
}

var errClaims = profiles.Busy("partner_claim", "too much is under way over the link to the partner")

// room takes a place for an identity, after removing expired claims if needed. The caller holds mu.
func (c *claims) room(identity string, now time.Time) fair.Answer {
	c.places.Bound(maxClaims)
	answer := c.places.Take(identity, 1)
	if answer == fair.Taken {
		return answer
	}
	for on, old := range c.held {
		if !now.Before(old.until) {
			c.drop(on)
		}
	}
	return c.places.Take(identity, 1)
}

// drop removes a claim. The caller holds mu.
func (c *claims) drop(on string) {
	c.places.Give(c.held[on].identity, 1)
	delete(c.held, on)
}
