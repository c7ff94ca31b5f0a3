package partner

import (
	"maps"
	"sync"
	"time"

	"github.com/slimwire/swp/profiles"
)

// claims records exclusive work over a link: work that only one peer at a time may do.
type claims struct {
	mu   sync.Mutex
	held map[string]claim
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
		return profiles.Busy("partner_claim", "somebody else is at this over the link to the partner now")
	case !known && !c.room(now):
		return profiles.Busy("partner_claim", "too much is under way over the link to the partner")
	}
	if work.Ends {
		delete(c.held, work.On)
		return nil
	}
	if c.held == nil {
		c.held = make(map[string]claim)
	}
	c.held[work.On] = claim{identity, now.Add(claimed)}
	return nil
}

// room reports whether there is room for one more claim, after removing expired ones if
// needed. The caller holds mu.
func (c *claims) room(now time.Time) bool {
	if len(c.held) >= maxClaims {
		maps.DeleteFunc(c.held, func(_ string, old claim) bool { return !now.Before(old.until) })
	}
	return len(c.held) < maxClaims
}
