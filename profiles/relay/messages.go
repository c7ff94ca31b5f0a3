package relay

import (
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

func checkID(id []byte) error {
	switch {
	case len(id) == 0:
		return p1.Missing("delivery_id")
	case len(id) > MaxDeliveryID:
		return invalid(DetailSize, "delivery_id: %d octets, want at most %d", len(id), MaxDeliveryID)
	}
	return nil
}

func checkTopic(topic []byte) error {
	switch {
	case len(topic) == 0:
		return p1.Missing("topic")
	case len(topic) > MaxTopic:
		return invalid(DetailSize, "topic: %d octets, want at most %d", len(topic), MaxTopic)
	}
	return nil
}

// check validates the payload of an answer.
func check(msgType uint64, payload []byte) error {
	switch msgType {
	case TypeAck:
		return new(Ack).Decode(payload)
	case TypeNack:
		return new(Nack).Decode(payload)
	case TypeErr:
		return new(Err).Decode(payload)
	case TypeStatus:
		var m Status
		if err := m.Decode(payload); err != nil {
			return err
		}
		if len(m.State) == 0 {
			return p1.Missing("state")
		}
		return nil
	}
	return profiles.Errorf(profiles.InvalidProfilePayload, "relay: msg_type %d is no answer", msgType)
}
