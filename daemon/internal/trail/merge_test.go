package trail

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/internal/audit"
	"github.com/slimwire/swp/profiles"
)

const small = 1 << 20 // octets of a trail

// keepingLittle is keepingIn for a small trail.
func keepingLittle(t *testing.T, dir string) *Trail {
	t.Helper()
	kept := keepingIn(t, dir, config.AuditAll)
	kept.file.Load().Bound(small)
	return kept
}

// denies adds the record of a denial.
func (t *Trail) denies(identity, name string) {
	file := t.file.Load()
	t.appendShared(file, &audit.Record{
		Time: time.Now(), Identity: identity, Profile: "rpc", Operation: "call", Name: name, Outcome: profiles.OutcomeDenied.String(), In: 100, Out: 10,
	})
	file.Commit()
}

// allows adds the record of an exchange that was not denied.
func (t *Trail) allows(identity, name string) {
	t.append(t.file.Load(), &audit.Record{Time: time.Now(), Identity: identity, Profile: "rpc", Operation: "call", Name: name, Outcome: "ok", OK: true})
}

// kept returns the entries of exchanges of an identity in a closed trail, and how many exchanges
// they stand for.
func kept(t *testing.T, dir, identity string) (list []*audit.Entry, exchanges uint64) {
	t.Helper()
	for e, err := range audit.Entries(t.Context(), filepath.Join(dir, "audit"), false) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Exchange() && e.Identity == identity {
			one := *e
			list = append(list, &one)
			exchanges += max(1, e.Times)
		}
	}
	return list, exchanges
}

func TestOP26DenialsOfOneIdentityPushOutNoRecordsOfOthers(t *testing.T) {
	dir := t.TempDir()
	trail := keepingLittle(t, dir)
	const others, all = 100, 5000
	for i := range others {
		trail.allows("alice", fmt.Sprint(i))
	}
	for i := range all {
		trail.denies("mallory", fmt.Sprint(i))
	}
	if err := trail.Close(); err != nil {
		t.Fatal(err)
	}
	if list, _ := kept(t, dir, "alice"); len(list) != others {
		t.Errorf("%d records of alice are left, want %d", len(list), others)
	}
	list, exchanges := kept(t, dir, "mallory")
	if exchanges != all {
		t.Errorf("the records stand for %d denials, want %d", exchanges, all)
	}
	last := list[len(list)-1]
	if full := len(list) - 1; full != small/fullShare/recordSize || last.Times != uint64(all-full) || last.In != 100*last.Times || last.Name != "" || last.Operation != "call" {
		t.Errorf("%d records of one denial, then %+v", full, last)
	}
}

func TestOP26EightRecordsOfOthersAreRoomForOneDenial(t *testing.T) {
	dir := t.TempDir()
	trail := keepingLittle(t, dir)
	for range share(small) + 1 {
		trail.denies("mallory", "x") // the last one is merged
	}
	for i := range 2*refill + refill - 1 {
		trail.allows("alice", fmt.Sprint(i))
	}
	for range 3 {
		trail.denies("mallory", "x") // the last one is merged
	}
	trail.denies("bob", "x")
	if err := trail.Close(); err != nil {
		t.Fatal(err)
	}
	list, _ := kept(t, dir, "mallory")
	if last := list[len(list)-1]; len(list) != share(small)+2+1 || last.Times != 2 {
		t.Errorf("%d records, the last for %d denials, want %d and 2", len(list), last.Times, share(small)+2+1)
	}
	if list, _ := kept(t, dir, "bob"); len(list) != 1 || list[0].Name != "x" {
		t.Errorf("records of bob: %+v", list)
	}
}

func TestOP26MergedDenialsAreBounded(t *testing.T) {
	var m merger
	now := time.Now()
	merge := func(identity, operation string) bool {
		return m.merges(&audit.Record{Time: now, Identity: identity, Profile: "mcp", Operation: operation}, 0, 0)
	}
	for i := range mostKinds + 2 + 1 { // a record of its own, its kinds, and two more
		if got := merge("mallory", fmt.Sprint(i)); got != (i > 0) {
			t.Errorf("denial %d is merged: %v", i, got)
		}
	}
	if due := m.take(now.Add(mergeFor-time.Nanosecond), false, 0, 0); len(due) != 0 {
		t.Errorf("%d records are due before their time", len(due))
	}
	due, rest := m.take(now.Add(mergeFor), false, 0, 0), uint64(0)
	for _, r := range due {
		if r.Profile == "" {
			rest = r.Times
		}
	}
	if len(due) != mostKinds+1 || rest != 2 {
		t.Errorf("%d records, one of them for %d denials of other kinds; want %d, 2", len(due), rest, mostKinds+1)
	}
	for i := range mostMergings + 10 {
		merge(fmt.Sprint(i), "x")
		merge(fmt.Sprint(i), "x")
	}
	if len(m.of) > mostMergings+1 {
		t.Errorf("%d identities are remembered", len(m.of))
	}
	if due := m.take(now, true, 0, 0); len(due) != mostMergings {
		t.Errorf("%d records, want %d", len(due), mostMergings)
	}
	if m.take(now, true, 10*refill, 0); len(m.of) != 0 {
		t.Errorf("%d identities are remembered although they have their share", len(m.of))
	}
}
