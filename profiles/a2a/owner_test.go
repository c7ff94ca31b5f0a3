package a2a_test

import (
	"testing"
	"testing/synctest"

	"github.com/slimwire/swp/profiles/a2a"
)

func TestOwnerIsWhoHasDeclaredTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := service(t, a2a.Options{})
		if owner, known := s.Owner("a"); known {
			t.Errorf("%s", owner)
		}
		client := bare(t)
		session, _ := connect(t, bob, client, "spiffe://test/server", s)
		if err := client.Declare(t.Context(), session, "a", nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if owner, known := s.Owner("a"); !known || owner != bob {
			t.Errorf("%s, %v", owner, known)
		}
		session.Close()
		synctest.Wait()
		if _, here := s.Session("a"); here {
			t.Error("it is here")
		}
		if owner, known := s.Owner("a"); !known || owner != bob {
			t.Errorf("away: %s, %v", owner, known)
		}
	})
}
