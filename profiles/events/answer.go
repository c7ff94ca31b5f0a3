package events

import (
	"github.com/slimwire/swp/profiles/p1"
)

// Codes of EVT_ERR. Other refusals have the alias of the canonical code, such as
// INVALID_PROFILE_PAYLOAD; RATE_LIMIT_EXCEEDED means that the same message may succeed
// later.
const (
	CodeInvalidFilter = "INVALID_FILTER" // see ParseFilter
	CodeNotFound      = "NOT_FOUND"      // no such subscription on this connection
	CodeNotDurable    = "NOT_DURABLE"    // nothing is stored here: no name and no cursor
	CodeInvalidCursor = "INVALID_CURSOR" // greater than the cursor of every event
	CodeGap           = "GAP"            // the events after the stored cursor of the name are no longer stored
	CodeReplaced      = "REPLACED"       // a newer subscription uses the name
	CodeSlowConsumer  = "SLOW_CONSUMER"  // the next events are no longer available
)

// refusals are the EVT_ERRs of this endpoint and of peers.
var refusals = p1.Refusals{
	Profile: Name, Type: TypeErr, Of: []uint64{TypePublish, TypeSubscribe, TypeUnsubscribe, TypeBatch},
	New: func() (p1.ErrMessage, p1.ErrFields) {
		m := new(Err)
		return m, p1.ErrFields{Code: &m.Code, Message: &m.Message}
	},
	Later: []string{CodeSlowConsumer},
}
