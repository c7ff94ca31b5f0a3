package relay_test

import (
	"testing"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/profiletest"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/store/sqlstore"
)

func newProfile(t testing.TB) *profiles.Profile {
	t.Helper()
	s, err := relay.New(relay.Options{Store: newStore(t, sqlstore.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s.Profile()
}

// cases are good messages of every type that initiates.
var cases = []profiletest.Case{
	{
		Name: "publish", Type: relay.TypePublish, Answers: []uint64{relay.TypeAck},
		Payload: (&relay.Publish{DeliveryID: []byte("id"), Topic: []byte("topic"), Payload: []byte("payload"), TTL: 1000}).Append(nil),
	},
	{
		Name: "publish the least", Type: relay.TypePublish, Answers: []uint64{relay.TypeAck},
		Payload: (&relay.Publish{DeliveryID: []byte("i"), Topic: []byte("t")}).Append(nil),
	},
	{
		Name: "ack of nothing", Type: relay.TypeAck,
		Payload: (&relay.Ack{DeliveryID: []byte("id")}).Append(nil),
	},
	{
		Name: "nack of nothing", Type: relay.TypeNack, Code: profiles.NotFound,
		Payload: (&relay.Nack{DeliveryID: []byte("id"), Reason: []byte("busy")}).Append(nil),
	},
	{
		Name: "status of nothing", Type: relay.TypeStatus, Code: profiles.NotFound,
		Payload: (&relay.Status{DeliveryID: []byte("id")}).Append(nil),
	},
}

func TestContract(t *testing.T) { profiletest.Run(t, newProfile, cases...) }

func FuzzServe(f *testing.F) { profiletest.Fuzz(f, newProfile, cases...) }

func TestNothingIsRelayedWithoutAStore(t *testing.T) {
	s, err := relay.New(relay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	h := profiletest.New(t, s.Profile())
	for _, c := range cases {
		if c.Type == relay.TypeAck {
			continue
		}
		if err := h.Serve(c.Type, c.Payload).Err(); err == nil || err.Code != profiles.NotFound || !err.Domain {
			t.Errorf("%s: %v, want NOT_FOUND", c.Name, err)
		}
	}
}

func TestOptionsOutOfRangeAreRefused(t *testing.T) {
	for name, o := range map[string]relay.Options{
		"attempts": {MaxAttempts: -1}, "in flight": {MaxInFlight: -1}, "of an identity": {IdentityInFlight: -1},
		"of all": {InFlight: -1}, "window": {Window: -1}, "ttl": {TTL: -1}, "retention": {Retention: -1},
		"dead retention": {DeadRetention: -1}, "timeout": {AckTimeout: -1}, "backoff": {Backoff: -1},
		"largest backoff": {MaxBackoff: -1}, "heartbeat": {Heartbeat: -1}, "jitter": {Jitter: 1.1},
	} {
		if s, err := relay.New(o); err == nil {
			s.Close()
			t.Errorf("%s: accepted", name)
		}
	}
}
