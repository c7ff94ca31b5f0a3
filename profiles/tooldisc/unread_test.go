package tooldisc_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/tooldisc"
)

// unread returns the servers that a peer is told could not be read.
func unread(t *testing.T, session profiles.Session) (list []tooldisc.Unread) {
	t.Helper()
	for _, err := range tooldisc.List(t.Context(), session, tooldisc.Query{Unread: func(u tooldisc.Unread) { list = append(list, u) }}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	return list
}

func TestAServerThatCannotBeReadIsNamedWithTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files, broken, slow := newServer(), newServer(), newServer()
		files.set(tooldisc.Listing{Tools: raw("read")})
		broken.fault, slow.delay = errors.New("exit status 1"), time.Minute
		service := newService(t, tooldisc.Options{Servers: map[string]tooldisc.Server{"files": files, "broken": broken, "slow": slow}})
		session := dial(t, service, "spiffe://test/a")
		want := []tooldisc.Unread{{Name: "broken", Reason: "exit status 1"}, {Name: "slow", Reason: "it has not answered yet"}}
		if got := unread(t, session); !reflect.DeepEqual(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if got := ids(t, session); !slices.Equal(got, []string{"files/read"}) {
			t.Errorf("tools %v", got)
		}
		_, err := tooldisc.Find(t.Context(), session, "broken/read", "")
		if refused, ok := errors.AsType[*profiles.PeerError](err); !ok || refused.Code != tooldisc.CodeNotFound || !strings.Contains(refused.Message, "exit status 1") {
			t.Errorf("a tool of a server that cannot be read: %v", err)
		}
		broken.mu.Lock()
		broken.fault = nil
		broken.mu.Unlock()
		time.Sleep(2 * time.Minute) // virtual: it is read again, and the slow one as well
		if got := unread(t, session); len(got) != 0 {
			t.Errorf("%q, want none", got)
		}
	})
}

func TestNobodyIsToldOfServersThatTheyDoNotReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken, hidden := newServer(), newServer()
		broken.fault, hidden.fault = errors.New("no"), errors.New("no")
		service := newService(t, tooldisc.Options{
			Servers: map[string]tooldisc.Server{"broken": broken, "hidden": hidden}, Access: reaching("broken"), Pace: tooldisc.Pace{Eager: true},
			Partners: func(context.Context, func(string) bool) []tooldisc.Unread {
				return []tooldisc.Unread{{Name: "b", Reason: "no"}}
			},
		})
		service.SetPartner("c", nil, []tooldisc.Unread{{Name: "server", Reason: "no"}})
		synctest.Wait()
		if got := unread(t, dial(t, service, "spiffe://test/a")); !reflect.DeepEqual(got, []tooldisc.Unread{{Name: "broken", Reason: "no"}}) {
			t.Errorf("%q", got)
		}
	})
}

func TestPartnersAndTheirServersThatCannotBeAskedAreNamedButNotToPartners(t *testing.T) {
	service := newService(t, tooldisc.Options{
		Partners: func(context.Context, func(string) bool) []tooldisc.Unread {
			return []tooldisc.Unread{{Name: "d", Reason: "away"}}
		},
		Partner: func(identity string) bool { return identity == "spiffe://test/partner" },
	})
	service.SetPartner("b", nil, []tooldisc.Unread{{Name: "broken", Reason: "no"}, {Reason: "3 more"}})
	want := []tooldisc.Unread{{Name: "b", Reason: "3 more"}, {Name: "b/broken", Reason: "no"}, {Name: "d", Reason: "away"}}
	if got := unread(t, dial(t, service, "spiffe://test/a")); !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := unread(t, dial(t, service, "spiffe://test/partner")); len(got) != 0 {
		t.Errorf("a partner is told of partners: %q", got)
	}
	service.ForgetPartner("b")
	if got := unread(t, dial(t, service, "spiffe://test/a")); !reflect.DeepEqual(got, want[2:]) {
		t.Errorf("%q, want %q", got, want[2:])
	}
}

func TestUnreadServersFitIntoTheExtensionsOfAPage(t *testing.T) {
	var many []tooldisc.Unread
	for i := range 500 {
		many = append(many, tooldisc.Unread{Name: fmt.Sprintf("server-%03d", i), Reason: strings.Repeat("é", 1000)})
	}
	service := newService(t, tooldisc.Options{Partners: func(context.Context, func(string) bool) []tooldisc.Unread { return many }})
	got := unread(t, dial(t, service, "spiffe://test/a"))
	last := len(got) - 1
	if last < 5 || got[last].Name != "" || got[last].Reason != fmt.Sprintf("%d more", len(many)-last) {
		t.Errorf("%d are told, at the end %q", len(got), got[max(last, 0)])
	}
}
