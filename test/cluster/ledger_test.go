//go:build unix

package cluster

import (
	"errors"
	"strings"
	"testing"
)

func TestTheVerdictFindsAPlantedFault(t *testing.T) {
	for _, test := range []struct {
		name  string
		plant func(k *Kind)
		want  string // empty: no fault
	}{
		{"none", func(*Kind) {}, ""},
		{"not acknowledged and not arrived", func(k *Kind) { k.Next() }, ""},
		{"arrived without an acknowledgement", func(k *Kind) { k.Arrived(k.Next()) }, ""},
		{"arrived twice", func(k *Kind) { k.Arrived(1) }, ""},
		{"a lost connection", func(k *Kind) { k.Lost(errors.New("reset"), 0) }, ""},
		{"acknowledged and lost", func(k *Kind) { k.Acked(k.Next()) }, "events: 1 acknowledged and lost, the first is number 3"},
		{"never sent", func(k *Kind) { k.Arrived(3) }, "events: number 3 has arrived and was never sent"},
		{"an error", func(k *Kind) { k.Fault(errors.New("denied")) }, "1 errors at clients"},
		{"a kind without work", func(k *Kind) { k.of.Kind("tasks") }, "tasks: nothing was acknowledged"},
	} {
		var l Ledger
		k := l.Kind("events")
		for range 2 {
			n := k.Next()
			k.Arrived(n)
			k.Acked(n)
		}
		test.plant(k)
		err := l.Verdict()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: the verdict is %v, want %q", test.name, err, test.want)
		}
	}
	if err := new(Ledger).Verdict(); err == nil {
		t.Error("no work at all passes")
	}
}

func TestWorkGoesOnWhenANewNumberHasArrivedAndIsAcknowledged(t *testing.T) {
	var l Ledger
	k := l.Kind("events")
	old := k.Next()
	mark := l.Mark()
	k.Arrived(old)
	k.Acked(old)
	if got := l.Since(mark); len(got) != 1 {
		t.Errorf("old work counts as new: %v", got)
	}
	n := k.Next()
	k.Acked(n)
	if got := l.Since(mark); len(got) != 1 {
		t.Errorf("work that has not arrived counts: %v", got)
	}
	k.Arrived(n)
	if got := l.Since(mark); got != nil {
		t.Errorf("still waiting for %v", got)
	}
}

func TestTheReportCounts(t *testing.T) {
	var l Ledger
	k := l.Kind("events")
	for range 3 {
		k.Next()
	}
	k.Acked(1)
	k.Acked(2)
	k.Arrived(1)
	k.Arrived(1)
	k.Lost(nil, 0)
	var b strings.Builder
	if err := l.Report(&b); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(strings.Fields(b.String()), " "); got != "sent acknowledged arrived repeated reconnects lost work 3 2 1 1 1 1 events" {
		t.Errorf("the report is %q", got)
	}
}
