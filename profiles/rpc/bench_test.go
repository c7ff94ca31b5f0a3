package rpc_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/sqlstore"
)

// BenchmarkKeyed calls an inline method under fresh keys, fsync on: two commits
// a call, shared by those in flight. Replay asks for the same outcome again.
func BenchmarkKeyed(b *testing.B) {
	for _, inFlight := range []int{1, 64} {
		for _, replay := range []bool{false, true} {
			b.Run(fmt.Sprintf("inflight=%d/replay=%v", inFlight, replay), func(b *testing.B) {
				db, err := sqlstore.Open(b.Context(), sqlstore.Options{Dir: b.TempDir(), Durability: store.Power})
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _ = db.Close() }()
				a := dial(b, "spiffe://test/a", newProfile(b, rpc.Options{Methods: counted(new(tally)), Outcomes: db}))
				var n atomic.Int64
				b.SetParallelism(inFlight)
				b.ReportAllocs()
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						key := "key"
						if !replay {
							key = fmt.Sprint(n.Add(1))
						}
						in := rpc.Invocation{Method: "test.inline", Params: []byte("p"), IdempotencyKey: key}
						if _, err := in.Call(context.Background(), a.Session); err != nil {
							b.Error(err)
							return
						}
					}
				})
			})
		}
	}
}
