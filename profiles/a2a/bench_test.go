package a2a_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/store/sqlstore"
)

// BenchmarkTask is a task with ten Events over TLS, by how many there are at
// once: fourteen commits each, which tasks share.
func BenchmarkTask(b *testing.B) {
	for _, n := range []int{1, 16, 64} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			db, err := sqlstore.Open(context.Background(), sqlstore.Options{Dir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			w := a2a.WorkerFunc(func(_ context.Context, t *a2a.Task, event func(string, []byte) error) ([]byte, error) {
				for i := range 10 {
					if err := event(fmt.Sprint(i), nil); err != nil {
						return nil, err
					}
				}
				return t.Input, nil
			})
			s, err := a2a.New(a2a.Options{Store: db, Workers: []a2a.Registration{{Kinds: []string{"k"}, Worker: w, Tasks: 64}}})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			ln, policy := listen(b, "tls", s)
			client, _ := a2a.New(a2a.Options{})
			defer client.Close()
			session := newEndpoint(b, client).Attach(dial(b, "tls", ln, policy))
			b.ResetTimer()
			b.ReportAllocs()
			var wg sync.WaitGroup
			for i := range n {
				wg.Go(func() {
					for j := i; j < b.N; j += n {
						d, err := client.Send(context.Background(), session, &a2a.Task{Kind: "k", Input: []byte("in")}, a2a.SendOptions{})
						if err != nil {
							b.Error(err)
							return
						}
						for err == nil {
							_, err = d.Recv(context.Background())
						}
						d.Close()
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
		})
	}
}
