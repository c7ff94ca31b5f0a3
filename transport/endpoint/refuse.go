package endpoint

import (
	"slices"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// maxRefusal is how large a refusal may become by the identity of its author: a peer
// must not be able to have much written for little.
const maxRefusal = 512

// sign says who has written a refusal. One that says so already has passed through.
func (e *Endpoint) sign(answer *e1.Envelope) {
	if e.opts.Identity == nil {
		return
	}
	id := e.opts.Identity()
	if _, signed := answer.Extensions.Lookup(profiles.ExtEndpoint); id == "" || signed {
		return
	}
	ext := e1.AppendExtension(slices.Clip(answer.Extensions), profiles.ExtEndpoint, []byte(id))
	if answer.Size()+len(ext)-len(answer.Extensions) <= maxRefusal {
		answer.Extensions = ext
	}
}
