package events

import (
	"github.com/slimwire/swp/profiles/p1"
)

// The values of EVT_ERR's code that have a meaning of their own. For what is
// refused otherwise it is the alias of the canonical code, such as
// INVALID_PROFILE_PAYLOAD; RATE_LIMIT_EXCEEDED means that the same message may
// be accepted later.
const (
	CodeInvalidFilter = "INVALID_FILTER" // see ParseFilter
	CodeNotFound      = "NOT_FOUND"      // no such subscription on this connection
	CodeNotDurable    = "NOT_DURABLE"    // nothing is stored here: no name and no cursor
	CodeInvalidCursor = "INVALID_CURSOR" // of no event yet
	CodeGap           = "GAP"            // what follows the stored place of the name is no longer held
	CodeReplaced      = "REPLACED"       // a newer subscription has taken the name over
	CodeSlowConsumer  = "SLOW_CONSUMER"  // what is due is no longer held
)

// refusals are the EVT_ERRs for messages that were refused, and those of peers.
var refusals = p1.Refusals{
	Profile: Name, Type: TypeErr, Of: []uint64{TypePublish, TypeSubscribe, TypeUnsubscribe, TypeBatch},
	New: func() (p1.ErrMessage, p1.ErrFields) {
		m := new(Err)
		return m, p1.ErrFields{Code: &m.Code, Message: &m.Message}
	},
	Later: []string{CodeSlowConsumer},
}
