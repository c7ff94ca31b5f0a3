package upstream

import (
	"fmt"
	"time"

	"github.com/slimwire/swp/internal/memory"
)

// errRoom ends a call: there is no room for its answer.
var errRoom = fmt.Errorf("%w: there is no room for the answer: %w", ErrTooLarge, memory.ErrFull)

// roomTime is how long a body waits for room, less than for its server.
const roomTime = 5 * time.Second

// room is what a buffer that grows holds of the budget: nothing up to keptBuffer, and then
// ahead of its growth.
type room struct {
	held   *memory.Hold // nil: there is no budget
	octets int
}

// need is called before the buffer has n octets.
func (r *room) need(n int) error {
	if n <= keptBuffer || n <= r.octets || r.held == nil {
		return nil
	}
	more := max(n, 2*r.octets, 2*keptBuffer)
	if !r.held.Add(more) {
		return errRoom
	}
	if r.octets > 0 {
		r.held.Sub(r.octets)
	}
	r.octets = more
	return nil
}

// drop is called when the buffer is given up.
func (r *room) drop() {
	if r.octets > 0 {
		r.held.Sub(r.octets)
		r.octets = 0
	}
}
