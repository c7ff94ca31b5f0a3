package daemon

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/slimwire/swp/daemon/internal/operator"
	"github.com/slimwire/swp/internal/access"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/profiles/state"
)

// me is the identity of the peers of these tests.
const me = "spiffe://localhost/swp-client"

// only returns the one row of a kind that a query selects.
func (r *running) only(kind string, query ...string) *operator.Row {
	r.t.Helper()
	rows := r.stored(kind, query...)
	if len(rows) != 1 {
		r.t.Fatalf("%s %q: %d rows, want 1", kind, query, len(rows))
	}
	return rows[0]
}

// on is the target of a row.
func on(row *operator.Row) operator.Target { return operator.Target{Owner: row.Owner, ID: row.ID} }

// refuses wants an action to be refused with a text.
func (r *running) refuses(action string, target operator.Target, want string) {
	r.t.Helper()
	if status, said := r.act(r.localToken(), action, target); status == 200 || !strings.Contains(said, want) {
		r.t.Errorf("%s of %v: %d %s, want a refusal with %q", action, target, status, said, want)
	}
}

func TestAnOperatorMendsDeliveries(t *testing.T) {
	t.Parallel()
	r := start(t, "relay: {backoff: 1h, max_backoff: 1h}\n")
	ctx := t.Context()
	service, s := relayPeer(t, r, r.addrs[0])
	publish := func(id string) {
		t.Helper()
		if _, err := relay.Send(ctx, s, &relay.Publication{ID: []byte(id), Topic: "orders", Payload: []byte("payload of " + id)}); err != nil {
			t.Fatal(err)
		}
	}
	publish("1")
	if row := r.only("topics"); row.Name != "orders" || row.Count != 1 || row.State != "local" {
		t.Errorf("topic %+v", row)
	}
	row := r.only("deliveries", "name", "orders")
	if row.Owner != me || row.ID != "31" || row.State != "waiting" || row.Octets != 12 || row.Begun.IsZero() {
		t.Errorf("delivery %+v", row)
	}
	r.refuses("dead.drop", on(row), "not dead")
	r.refuses("deliveries.release", on(row), "no consumer has")

	// In flight, it is for one consumer, and its end is a failed attempt.
	c, err := service.Consume(ctx, s, "orders", 1)
	if err != nil {
		t.Fatal(err)
	}
	late, err := c.Recv(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if row = r.only("deliveries"); row.State != "in flight" {
		t.Errorf("delivery %+v", row)
	}
	r.refuses("deliveries.retry", on(row), "has the delivery now")
	r.mustAct("deliveries.release", on(row))
	if row = r.only("deliveries"); row.State != "waiting" {
		t.Errorf("delivery %+v", row)
	}

	// Its answer comes too late. The pause is an hour, but the operator retries it; then the consumer rejects it.
	_ = late.Ack()
	r.mustAct("deliveries.retry", on(row))
	d, err := c.Recv(ctx)
	if err != nil || string(d.ID) != "1" {
		t.Fatalf("%+v, %v", d, err)
	}
	if err := d.Nack(false, "NO"); err != nil {
		t.Fatal(err)
	}
	dead := func() *operator.Row {
		var rows []*operator.Row
		r.eventually("a dead delivery", func() bool {
			rows = r.stored("dead", "state", string(relay.Rejected))
			return len(rows) == 1
		})
		return rows[0]
	}
	afterNotice := func(action string) (status int, said string) { // a notice to the publisher may have the delivery
		t.Helper()
		target := on(dead())
		r.eventually(action, func() bool {
			status, said = r.act(r.localToken(), action, target)
			return !strings.Contains(said, "has the delivery now")
		})
		return status, said
	}
	if status, said := afterNotice("deliveries.refuse"); status == 200 || !strings.Contains(said, "the delivery is dead") {
		t.Errorf("a dead delivery is refused: %d %s", status, said)
	}

	// From the dead it comes back with its payload.
	if status, said := afterNotice("dead.retry"); status != 200 {
		t.Fatal(status, said)
	}
	if d, err = c.Recv(ctx); err != nil || string(d.Payload) != "payload of 1" {
		t.Fatalf("%+v, %v", d, err)
	}
	if err := d.Ack(); err != nil {
		t.Fatal(err)
	}
	c.Close()

	// Refused by the operator, then dropped.
	publish("2")
	r.eventually("the second delivery alone", func() bool {
		rows := r.stored("deliveries")
		return len(rows) == 1 && rows[0].ID == "32" && rows[0].State == "waiting"
	})
	r.mustAct("deliveries.refuse", on(r.only("deliveries")))
	if status, said := afterNotice("dead.drop"); status != 200 {
		t.Fatal(status, said)
	}
	if n := len(r.stored("dead")) + len(r.stored("deliveries")); n != 0 {
		t.Errorf("%d deliveries are left", n)
	}
	r.refuses("dead.drop", operator.Target{Owner: me, ID: "32"}, "no such delivery")
	if state, _, err := relay.Ask(ctx, s, []byte("2")); err != nil || state != relay.DeadState {
		t.Errorf("its publisher learns %s, %v", state, err)
	}
}

func TestAnOperatorCancelsATask(t *testing.T) {
	t.Parallel()
	r := start(t, "a2a: {workers: {one: {kinds: [report], command: sleep, args: ['600']}}}\n")
	s := r.mustDial(r.addrs[0])
	d, err := s.tasks.Send(t.Context(), s.Session, &a2a.Task{ID: []byte("t\x00"), Kind: "report", Input: []byte("x")}, a2a.SendOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var rows []*operator.Row
	r.eventually("a running task", func() bool {
		rows = r.stored("tasks", "owner", "spiffe://localhost/**", "name", "report")
		return len(rows) == 1 && rows[0].State == "running"
	})
	row := rows[0]
	if row.Owner != me || row.ID != "0x7400" || row.Ended.Before(row.Begun) {
		t.Errorf("task %+v", row)
	}
	r.mustAct("tasks.cancel", on(row))
	for {
		if _, err := d.Recv(t.Context()); err != nil {
			break // the end
		}
	}
	result := d.Result()
	if result == nil || result.OK || !strings.Contains(result.Reason, "cancelled by the operator") {
		t.Errorf("the initiator learns %+v", result)
	}
	if row = r.only("tasks", "state", "failed"); !strings.Contains(row.Note, "cancelled by the operator") {
		t.Errorf("task %+v", row)
	}
	r.refuses("tasks.cancel", on(row), "has ended")
}

func TestAnOperatorDeletesArtifactsStatesAndStreams(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	ctx := t.Context()
	s := r.mustDial(r.addrs[0])
	octets := []byte("octets")
	u := artifact.Upload{ArtifactID: "<b>bold</b>", Size: uint64(len(octets)), Hash: sha256.Sum256(octets), Octets: bytes.NewReader(octets), Sync: syncPlain}
	if err := u.Send(ctx, s.Session); err != nil {
		t.Fatal(err)
	}
	row := r.only("artifacts", "id", "<b>**")
	if row.Owner != me || row.ID != u.ArtifactID || row.Octets != 6 || row.Note != fmt.Sprintf("%x", u.Hash) {
		t.Errorf("artifact %+v", row)
	}
	r.mustAct("artifacts.delete", on(row))
	r.refuses("artifacts.delete", on(row), "no such artifact")

	blob := state.State{Blob: []byte("blob")}
	blob.ID = state.IDOf(blob.Blob)
	if _, err := state.PutAll(ctx, opened(t, s.Session), rpc.Sync, blob); err != nil {
		t.Fatal(err)
	}
	row = r.only("state", "owner", me)
	if row.ID != fmt.Sprintf("%x", blob.ID) || row.Octets == 0 {
		t.Errorf("state %+v", row)
	}
	r.mustAct("state.delete", on(row))
	r.refuses("state.delete", on(row), "no such state")

	sub, err := events.Open(ctx, s.Session, events.SubscribeOptions{Filter: "type:k", Name: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	row = r.only("streams")
	if row.Owner != me || row.ID != "mine" {
		t.Errorf("stream %+v", row)
	}
	r.mustAct("streams.forget", on(row))
	r.refuses("streams.forget", on(row), "no such named")
	for _, kind := range []string{"artifacts", "state", "streams", "dead", "tasks"} {
		if rows := r.stored(kind); len(rows) != 0 {
			t.Errorf("%s: %d rows are left", kind, len(rows))
		}
	}
}

func TestAPageOfRowsIsBoundedAndTheNextContinues(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	_, s := relayPeer(t, r, r.addrs[0])
	n := operator.MaxRows + 1
	for i := range n {
		if _, err := relay.Send(t.Context(), s, &relay.Publication{ID: fmt.Appendf(nil, "%03d", i), Topic: fmt.Sprint("t", i%3), Payload: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	if rows := r.stored("deliveries"); len(rows) != operator.MaxRows {
		t.Errorf("%d rows, want %d", len(rows), operator.MaxRows)
	}
	seen := make(map[string]bool)
	after := ""
	for pages := 1; ; pages++ {
		page := r.page("deliveries", "limit", "7", "after", after)
		for _, row := range page.Rows {
			seen[row.ID] = true
		}
		if after = page.Next; after == "" {
			break
		}
		if pages > n {
			t.Fatal("the pages do not end")
		}
	}
	if len(seen) != n {
		t.Errorf("%d deliveries on all pages, want %d", len(seen), n)
	}
	for _, query := range []string{"limit=0", "limit=201", "limit=x", "after=x", "color=red", "state=waiting&state=x", "owner=" + strings.Repeat("x", access.MaxPattern+1)} {
		if status, body := r.get("/store/deliveries?" + query); status != 400 || body == "" {
			t.Errorf("%s: %d %s", query, status, body)
		}
	}
	if status, body := r.get("/store/secrets"); status != 404 || !strings.Contains(body, "topics") {
		t.Errorf("an unknown kind: %d %s", status, body)
	}
	if status, body := r.get("/store/owners?state=x"); status != 400 {
		t.Errorf("a field that the kind does not have: %d %s", status, body)
	}
}
