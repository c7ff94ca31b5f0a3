package events_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/profiletest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newBus(t testing.TB, opts events.Options) *events.Bus {
	t.Helper()
	b, err := events.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// record returns a good record.
func record(id string) events.Record {
	return events.Record{
		EventID: []byte(id), EventType: []byte("test.type"), Severity: []byte("info"), Timestamp: 1,
		MsgID: []byte("0123456789abcdef"), Body: []byte("body of " + id),
	}
}

func publish(r events.Record) []byte {
	m := events.Publish{Event: r}
	return m.Append(nil)
}

func batch(list ...events.Record) []byte {
	m := events.Batch{Events: list}
	return m.Append(nil)
}

func subscribe(filter string) []byte {
	m := events.Subscribe{Filter: []byte(filter)}
	return m.Append(nil)
}

func served(t testing.TB) *profiles.Profile { return newBus(t, events.Options{}).Profile() }

var contract = []profiletest.Case{
	{Name: "publish", Type: events.TypePublish, Payload: publish(record("a"))},
	{Name: "subscribe", Type: events.TypeSubscribe, Payload: subscribe("type:test.type,severity:info"), Open: true},
	{Name: "unsubscribe", Type: events.TypeUnsubscribe, Payload: (&events.Unsubscribe{SubscriptionID: []byte("00")}).Append(nil), Code: profiles.NotFound},
	{Name: "batch", Type: events.TypeBatch, Payload: batch(record("a"), record("b"))},
	{Name: "unsolicited error", Type: events.TypeErr, Payload: (&events.Err{Code: []byte("NOT_FOUND")}).Append(nil)},
}

func TestContract(t *testing.T) { profiletest.Run(t, served, contract...) }

func FuzzServe(f *testing.F) { profiletest.Fuzz(f, served, contract...) }
