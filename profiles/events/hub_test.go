package events

import (
	"context"
	"testing"
	"time"
)

func TestPR19WhatWaitsForASlowMemberIsBounded(t *testing.T) {
	for name, test := range map[string]struct {
		size int64
		room int
	}{
		"batches":           {1, memberRoom},
		"octets":            {memberOctets / 4, 4},
		"one that is large": {2 * memberOctets, 1},
	} {
		m := &member{in: make(chan batchThere, memberRoom)}
		n := 0
		for m.add(batchThere{size: test.size}) {
			n++
		}
		if n != test.room {
			t.Errorf("%s: %d batches of %d octets wait, want %d", name, n, test.size, test.room)
		}
		m.octets.Add(-(<-m.in).size)
		if !m.add(batchThere{size: test.size}) {
			t.Errorf("%s: there is no room after one was taken", name)
		}
	}
}

func TestEventsOfPartnersAreNamedAsTheirFilterDoes(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "k", // all types of the partner itself
		"type:k":                  "k",
		"type:c/k":                "c/k",
		"type:d/c/k,type:x":       "d/c/k",
		"type:c/k,type:k":         "k",
		"type:c/k,severity:info":  "c/k",
		"type:c/k,severity:error": "",
		"type:ck":                 "",
		"type:c/kk":               "",
		"type:/k":                 "",
		"type:secret":             "",
		"type:*":                  "k",
		"type:c/*":                "c/k",
		"type:d/c/k*":             "d/c/k",
		"type:c/kk*":              "",
		"type:/*":                 "",
		"type:c/*,severity:warn+": "",
		"type:c/*,severity:info+": "c/k",
	} {
		f, err := ParseFilter(text)
		if err != nil {
			t.Fatal(err)
		}
		r := Record{
			EventID: []byte("1"), EventType: []byte("k"), Severity: []byte("info"), Timestamp: uint64(time.Now().UnixMilli()), MsgID: []byte("m"),
		}
		if err := r.Validate(); err != nil {
			t.Fatal(err)
		}
		if name, ok := f.there(&r); ok != (want != "") || ok && string(name) != want {
			t.Errorf("%s: %q, %t; want %q", text, name, ok, want)
		}
	}
}

// Each refused subscription would otherwise stay in memory until the end of the process.
func TestARefusedSubscriptionLeavesNoContext(t *testing.T) {
	ended := make(chan struct{})
	b, err := New(Options{Subscriptions: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	var list [2]*subscription
	for i := range list {
		list[i] = &subscription{bus: b, key: subscriptionKey{id: string(rune('a' + i))}, reader: b.reader("x", new(Filter))}
		if err := b.subs.add(list[i]); (err != nil) != (i == 1) {
			t.Errorf("subscription %d: %v", i, err)
		}
	}
	if list[1].ctx != nil {
		t.Error("the refused subscription has a context")
	}
	context.AfterFunc(list[0].ctx, func() { close(ended) })
	b.subs.remove(list[0])
	list[0].cancel(nil)
	b.work.Done()
	<-ended
}
