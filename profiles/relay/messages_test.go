package relay_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/proto/relaypb"
)

type message interface {
	Decode([]byte) error
	Append([]byte) []byte
	Size() int
}

func TestMessagesAreThoseOfTheSchema(t *testing.T) {
	id := []byte{0, 0xff, 'i'}
	for _, test := range []struct {
		name   string
		ours   message
		schema *relaypb.Payload
	}{
		{"publish", &relay.Publish{DeliveryID: id, Topic: []byte("é.*"), Payload: []byte{0xfe}, TTL: 1<<64 - 1},
			&relaypb.Payload{Body: &relaypb.Payload_Publish{Publish: &relaypb.RelayPublish{DeliveryId: id, Topic: "é.*", Payload: []byte{0xfe}, TtlMs: 1<<64 - 1}}}},
		{"publish the least", &relay.Publish{DeliveryID: id, Topic: []byte("t")},
			&relaypb.Payload{Body: &relaypb.Payload_Publish{Publish: &relaypb.RelayPublish{DeliveryId: id, Topic: "t"}}}},
		{"ack", &relay.Ack{DeliveryID: id},
			&relaypb.Payload{Body: &relaypb.Payload_Ack{Ack: &relaypb.RelayAck{DeliveryId: id}}}},
		{"nack", &relay.Nack{DeliveryID: id, Retryable: true, Reason: []byte("büsy")},
			&relaypb.Payload{Body: &relaypb.Payload_Nack{Nack: &relaypb.RelayNack{DeliveryId: id, Retryable: true, ReasonCode: "büsy"}}}},
		{"nack the least", &relay.Nack{DeliveryID: id},
			&relaypb.Payload{Body: &relaypb.Payload_Nack{Nack: &relaypb.RelayNack{DeliveryId: id}}}},
		{"status", &relay.Status{DeliveryID: id, State: []byte("retry"), Attempts: 1<<32 - 1},
			&relaypb.Payload{Body: &relaypb.Payload_Status{Status: &relaypb.RelayStatus{DeliveryId: id, State: "retry", AttemptCount: 1<<32 - 1}}}},
		{"question", &relay.Status{DeliveryID: id},
			&relaypb.Payload{Body: &relaypb.Payload_Status{Status: &relaypb.RelayStatus{DeliveryId: id}}}},
		{"err", &relay.Err{Code: []byte("CONFLICT"), Message: []byte("é")},
			&relaypb.Payload{Body: &relaypb.Payload_Err{Err: &relaypb.RelayErr{Code: "CONFLICT", Message: "é"}}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			want, err := proto.MarshalOptions{Deterministic: true}.Marshal(test.schema)
			if err != nil {
				t.Fatal(err)
			}
			got := test.ours.Append(nil)
			if !bytes.Equal(got, want) || test.ours.Size() != len(want) {
				t.Errorf("%x of size %d, want %x", got, test.ours.Size(), want)
			}
			if err := test.ours.Decode(want); err != nil {
				t.Fatal(err)
			}
			if again := test.ours.Append(nil); !bytes.Equal(again, want) {
				t.Errorf("decoded and appended: %x, want %x", again, want)
			}
			for n := range want {
				if test.ours.Decode(want[:n]) == nil {
					t.Errorf("prefix of %d octets accepted", n)
				}
			}
		})
	}
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
