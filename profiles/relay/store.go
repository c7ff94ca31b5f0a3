package relay

import (
	"encoding/binary"

	"github.com/slimwire/swp/store"
)

// Store stores deliveries: work queues with leases. Every store.Store implements it; see
// package store for its contract. The relay relies on serial done functions in the order of
// submission.
type Store interface{ store.Queues }

// space is the space of deliveries in a Store. An item is one delivery. Its id consists of
// publisher and delivery_id; its queue shows its state.
const space = "relay"

// Kinds of queues: the first octet of their names. The rest of the name is a topic, a
// partner, or an identity.
const (
	kindTopic  = 't' // for delivery to the consumers of a topic
	kindOnward = 'p' // for forwarding to a partner
	kindDead   = 'd' // dead; its publisher needs a notice
	kindTold   = 'k' // dead; its publisher has acknowledged the notice
)

func queueOf[T ~string | ~[]byte](kind byte, name T) string { return string(kind) + string(name) }

// inline is the maximum size of data that is read together with a lease. Larger data is
// read before it is sent.
const inline = 16 << 10

// maxKey is the maximum length of a name in a Store.
const maxKey = 1024

// itemID returns the id of a delivery. The publisher comes first, with its length, so that
// no delivery_id can collide with that of another publisher.
func itemID[T ~string | ~[]byte](publisher string, deliveryID T) string {
	key := binary.AppendUvarint(make([]byte, 0, 2+len(publisher)+len(deliveryID)), uint64(len(publisher)))
	key = append(key, publisher...)
	return string(append(key, deliveryID...))
}

// splitID is the inverse of itemID.
func splitID(id string) (publisher, deliveryID string) {
	n, size := binary.Uvarint([]byte(id[:min(len(id), binary.MaxVarintLen64)]))
	if size <= 0 || n > uint64(len(id)-size) {
		return "", ""
	}
	return id[size : size+int(n)], id[size+int(n):]
}

// TopicQueue returns where a Store has the deliveries of a topic: the name of a queue. The
// names of queues of topics with a common prefix have a common prefix.
func TopicQueue(topic string) (in, queue string) { return space, queueOf(kindTopic, topic) }

// TopicOf is the inverse of TopicQueue.
func TopicOf(queue string) string { return queue[1:] }
