package relay_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/proto/prototest"
)

type message interface {
	Decode([]byte) error
	Append([]byte) []byte
	Size() int
}

func TestMessagesAreThoseOfTheSchema(t *testing.T) {
	id := []byte{0, 0xff, 'i'}
	prototest.Agree(t, "relay", map[string]prototest.Message{
		`publish {delivery_id: "\000\377i" topic: "é.*" payload: "\376" ttl_ms: 18446744073709551615}`: &relay.Publish{DeliveryID: id, Topic: []byte("é.*"), Payload: []byte{0xfe}, TTL: 1<<64 - 1},
		`publish {delivery_id: "\000\377i" topic: "t"}`:                                                &relay.Publish{DeliveryID: id, Topic: []byte("t")},
		`ack {delivery_id: "\000\377i"}`:                                                               &relay.Ack{DeliveryID: id},
		`nack {delivery_id: "\000\377i" retryable: true reason_code: "büsy"}`:                          &relay.Nack{DeliveryID: id, Retryable: true, Reason: []byte("büsy")},
		`nack {delivery_id: "\000\377i"}`:                                                              &relay.Nack{DeliveryID: id},
		`status {delivery_id: "\000\377i" state: "retry" attempt_count: 4294967295}`:                   &relay.Status{DeliveryID: id, State: []byte("retry"), Attempts: 1<<32 - 1},
		`status {delivery_id: "\000\377i"}`:                                                            &relay.Status{DeliveryID: id},
		`err {code: "CONFLICT" message: "é"}`:                                                          &relay.Err{Code: []byte("CONFLICT"), Message: []byte("é")},
	})
}

func TestPR14FieldsAreHeldToTheirBounds(t *testing.T) {
	long := func(n int) []byte { return []byte(strings.Repeat("x", n)) }
	for _, test := range []struct {
		name   string
		ours   message
		detail string // empty: accepted
	}{
		{"longest delivery_id", &relay.Ack{DeliveryID: long(relay.MaxDeliveryID)}, ""},
		{"longest names", &relay.Publish{DeliveryID: long(relay.MaxDeliveryID), Topic: long(relay.MaxTopic)}, ""},
		{"publish without id", &relay.Publish{Topic: []byte("t")}, p1.DetailRequired},
		{"ack without id", &relay.Ack{}, p1.DetailRequired},
		{"nack without id", &relay.Nack{Retryable: true}, p1.DetailRequired},
		{"status without id", &relay.Status{State: []byte("queued")}, p1.DetailRequired},
		{"publish with a longer id", &relay.Publish{DeliveryID: long(relay.MaxDeliveryID + 1), Topic: []byte("t")}, relay.DetailSize},
		{"ack with a longer id", &relay.Ack{DeliveryID: long(relay.MaxDeliveryID + 1)}, relay.DetailSize},
		{"nack with 4 KiB of id", &relay.Nack{DeliveryID: long(4096)}, relay.DetailSize},
		{"status with a longer id", &relay.Status{DeliveryID: long(relay.MaxDeliveryID + 1)}, relay.DetailSize},
		{"without topic", &relay.Publish{DeliveryID: []byte("i")}, p1.DetailRequired},
		{"longer topic", &relay.Publish{DeliveryID: []byte("i"), Topic: long(relay.MaxTopic + 1)}, relay.DetailSize},
		{"topic that is not UTF-8", &relay.Publish{DeliveryID: []byte("i"), Topic: []byte("\xff")}, p1.DetailUTF8},
		{"reason that is not UTF-8", &relay.Nack{DeliveryID: []byte("i"), Reason: []byte("\xff")}, p1.DetailUTF8},
		{"err without code", &relay.Err{Message: []byte("m")}, p1.DetailRequired},
	} {
		err := test.ours.Decode(test.ours.Append(nil))
		var fault *profiles.Error
		switch {
		case test.detail == "" && err != nil:
			t.Errorf("%s: %v", test.name, err)
		case test.detail != "" && (!errors.As(err, &fault) || fault.Code != profiles.InvalidProfilePayload || fault.Detail != test.detail):
			t.Errorf("%s: error %v, want INVALID_PROFILE_PAYLOAD, detail %s", test.name, err, test.detail)
		}
	}
}
