package stranger_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/store/sqlstore"
	"github.com/slimwire/swp/test/stranger"
)

// An agent of swp-client asks an endpoint what it offers. After the endpoint has hung up over that, it gets
// nothing but A2A on the connection that carries the work. Three more connections ask again.
func TestAnAgentWorksForAStranger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := sqlstore.Open(t.Context(), sqlstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		o := newOffice(t)
		peers := make(chan *stranger.Peer, 10)
		connect := func(_ context.Context, set *all.Set) (*client.Client, error) {
			ours, theirs := o.strangers(true)
			peers <- stranger.New(theirs, stranger.Options{})
			return client.Attach(ours, client.Options{Profiles: set})
		}
		ctx, cancel := context.WithCancel(t.Context())
		worked := make(chan error, 1)
		go func() {
			worked <- client.Work(ctx, connect, client.WorkOptions{
				Agent: "builder", Store: db, Registration: a2a.Registration{Kinds: []string{"count"}, Worker: a2a.WorkerFunc(count)},
			})
		}()
		<-(<-peers).Done()
		peer := <-peers
		for range 3 {
			<-(<-peers).Done()
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for range 3 {
			result, err := peer.Send(t.Context(), "count", []byte("sheep"))
			if err != nil || !result.OK || string(result.Output) != "counted sheep" {
				t.Fatalf("a task gave %+v, %v", result, err)
			}
			time.Sleep(time.Hour)
		}
		if len(peers) > 0 {
			t.Error("the agent has connected again")
		}
		cancel()
		if err := <-worked; err != nil {
			t.Error(err)
		}
		<-peer.Done()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}
