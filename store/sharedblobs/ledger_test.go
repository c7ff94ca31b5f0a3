package sharedblobs

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/blocks"
)

// A peer that asserts a caller with a long name for each item cannot fill the record of usage:
// then nobody else could store anything.
func TestRS26AnOwnerForEachItemFitsIntoTheLedger(t *testing.T) {
	l := newLedger()
	process := random()
	long := strings.Repeat("a", store.MaxOwner/2-20)
	o := Options{}.withDefaults()
	for i := range o.Items {
		owner := profiles.OnBehalf(long, fmt.Sprint(long, i))
		if i%16 == 0 { // the queue of a process has room for as many
			l.enter(process, owner)
		}
		l.charge(owner, 1<<30, 1)
	}
	value := l.encode()
	if len(l.owners) != o.Items || len(value) > store.MaxValue*15/16 {
		t.Errorf("%d owners need %d octets, want at most 15/16 of %d", len(l.owners), len(value), store.MaxValue)
	}
}

func TestTheLedgerIsDecodedAsItWasEncoded(t *testing.T) {
	a, b := random(), random()
	for name, change := range map[string]func(l *ledger){
		"new": func(*ledger) {},
		"all": func(l *ledger) {
			l.used, l.versions, l.clock = true, math.MaxUint64, math.MaxInt64/2
			l.charge("owner", 1<<40, 3)
			l.charge("", 5, 1)
			l.doubt("nobody")
			l.enter(a, "owner")
			l.enter(a, "owner")
			l.enter(b, "")
			l.process(b).sweeping, l.process(b).number = true, 7
			l.expires(17)
		},
	} {
		l := newLedger()
		change(l)
		value := l.encode()
		got, err := decodeLedger(value)
		if err != nil || !reflect.DeepEqual(got.owners, l.owners) || !reflect.DeepEqual(got.processes, l.processes) ||
			got.used != l.used || got.versions != l.versions || got.clock != l.clock || got.due != l.due || got.usage.Octets.Used() != l.usage.Octets.Used() {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, l)
		}
		for n := range value {
			if _, err := decodeLedger(value[:n]); err == nil {
				t.Errorf("%s: %d octets of %d are decoded", name, n, len(value))
			}
		}
		if _, err := decodeLedger(append(value, 0)); err == nil {
			t.Errorf("%s: an octet more is decoded", name)
		}
	}
}

func TestAnOwnerWithoutUsageAndOperationsHasNoAccount(t *testing.T) {
	l := newLedger()
	process := random()
	l.enter(process, "owner")
	l.charge("owner", 10, 1)
	l.leave(process, "owner", -10, -1)
	if len(l.owners) != 0 || len(l.process(process).open) != 0 {
		t.Errorf("%+v, %+v", l.owners, l.process(process))
	}
	// The process was removed before the operation has ended.
	l.enter(process, "owner")
	l.charge("owner", 10, 1)
	l.remove(process)
	l.leave(process, "owner", -10, -1)
	if a := l.owners["owner"]; a == nil || !a.doubt || a.octets != 10 {
		t.Errorf("%+v, want the usage in doubt", a)
	}
}

func TestAnEntryIsDecodedAsItWasEncoded(t *testing.T) {
	part := &content{
		group: random(), note: 3, mark: math.MaxUint64, written: 5, expires: math.MaxInt64, idle: 7, owner: "owner", tag: []byte("tag"),
		full: 2, tail: []segment{{blocks.Extent{File: random(), Size: 9, Sum: math.MaxUint32}, 2}, {blocks.Extent{File: random(), Size: 1}, 0}},
		hash: []byte("hash"),
	}
	blob := &content{group: random(), version: 1, tag: []byte{}, hash: []byte{}}
	for _, e := range []*entry{{}, {part: part}, {blob: blob}, {part, blob}} {
		value := e.encode()
		got, err := decodeEntry(value)
		if err != nil || !reflect.DeepEqual(got, e) {
			t.Errorf("%+v, %v, want %+v", got, err, e)
		}
		for n := range value {
			if _, err := decodeEntry(value[:n]); err == nil {
				t.Errorf("%d octets of %d are decoded", n, len(value))
			}
		}
	}
	if _, err := decodeEntry([]byte{entryFormat + 1, 0, 0}); err != store.ErrVersion {
		t.Errorf("another format: %v, want ErrVersion", err)
	}
}
