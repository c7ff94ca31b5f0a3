package relay

import (
	"encoding/binary"

	"github.com/slimwire/swp/store"
)

// Store is where deliveries are kept: work queues with leases. Every store.Store
// is one, and package store says what the methods promise; here it matters that
// done functions are called in the order of submission, one at a time.
type Store interface{ store.Queues }

// space is the space of deliveries in a Store. An item is one delivery. Its id is
// that of the publisher and the delivery; its queue says where it is in its life.
const space = "relay"

// The kinds of queue, which are the first octet of their name. The rest of it is
// a topic, a partner, or an identity.
const (
	kindTopic  = 't' // to be delivered to the consumers of a topic
	kindOnward = 'p' // to be passed on to a partner
	kindDead   = 'd' // dead, and its publisher is to be told
	kindTold   = 'k' // dead, and its publisher knows
)

func queueOf[T ~string | ~[]byte](kind byte, name T) string { return string(kind) + string(name) }

// inline is up to how many octets a leased delivery comes with its data. Larger
// ones are read when it is their turn to be sent.
const inline = 16 << 10

// maxKey is how long a name in a Store may be.
const maxKey = 1024

// itemID returns the id of a delivery. The publisher goes first with its length,
// so that no choice of a delivery_id reaches what is another's.
func itemID[T ~string | ~[]byte](publisher string, deliveryID T) string {
	key := binary.AppendUvarint(make([]byte, 0, 2+len(publisher)+len(deliveryID)), uint64(len(publisher)))
	key = append(key, publisher...)
	return string(append(key, deliveryID...))
}

// splitID takes an id apart.
func splitID(id string) (publisher, deliveryID string) {
	n, size := binary.Uvarint([]byte(id[:min(len(id), binary.MaxVarintLen64)]))
	if size <= 0 || n > uint64(len(id)-size) {
		return "", ""
	}
	return id[size : size+int(n)], id[size+int(n):]
}
