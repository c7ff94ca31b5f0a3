package a2a_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/profiles/a2a"
)

func TestATaskIsCarriedOutByAWorker(t *testing.T) {
	server := service(t, a2a.Options{Workers: kinds(counting(3), "count")})
	client := service(t, a2a.Options{})
	session, _ := connect(t, alice, client, bob, server)
	d, err := client.Send(t.Context(), session, &a2a.Task{Kind: "count", Input: []byte("in")}, a2a.SendOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	events, result := receive(t, d)
	if diff := cmp.Diff([]string{"1 1", "2 2", "3 3"}, events); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(&a2a.Result{OK: true, Output: []byte("in"), Last: 3}, result); diff != "" {
		t.Error(diff)
	}
}

func TestATaskIsPassedOnToASessionThatDeclaredItsKind(t *testing.T) {
	server := service(t, a2a.Options{})
	client := service(t, a2a.Options{})
	agent := service(t, a2a.Options{Workers: kinds(counting(3), "count")})
	session, _ := connect(t, alice, client, "spiffe://test/server", server)
	toServer, _ := connect(t, bob, agent, "spiffe://test/server", server)
	if err := agent.Declare(t.Context(), toServer, "counter", []string{"count"}); err != nil {
		t.Fatal(err)
	}
	awaitAgent(t, server, "counter", true)
	d, err := client.Send(t.Context(), session, &a2a.Task{Kind: "count", Input: []byte("in")}, a2a.SendOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	events, result := receive(t, d)
	if diff := cmp.Diff([]string{"1 1", "2 2", "3 3"}, events); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(&a2a.Result{OK: true, Output: []byte("in"), Last: 3}, result); diff != "" {
		t.Error(diff)
	}
}
