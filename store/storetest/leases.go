package storetest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/store"
)

// oneLeaseAtATime performs bursts of random operations on one queue. A done function submits each
// burst, so that an engine may write it in one transaction. The queue becomes long and short again.
func oneLeaseAtATime(k *kit) {
	const owners, about = 3, 64         // items in the queue, above and below
	seed := rand.Uint64()               //nolint:gosec // no secret
	r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // no secret
	leased := make(map[string]uint64)   // by id; done functions are serial
	waiting, added := 0, 0
	until := k.in(day)
	fault := func(err error) {
		if err != nil {
			k.Errorf("seed %d: %v", seed, err)
		}
	}
	held := func(what string) func(bool, error) {
		return func(held bool, err error) {
			if !held && err == nil {
				err = fmt.Errorf("%s: the lease is not held", what)
			}
			fault(err)
		}
	}
	var all sync.WaitGroup
	submit := func() {
		all.Add(1)
		adds := 1
		if waiting+len(leased) < about {
			adds = 5
		}
		switch n := r.IntN(10); {
		case n < adds:
			added++
			k.Add("space", "queue", fmt.Sprint("item ", added), "", fmt.Sprint("owner ", added%owners), nil, time.Time{}, until, func(a store.AddResult) {
				defer all.Done()
				fault(a.Err)
				waiting++
			})
		case n < 7 || len(leased) == 0:
			k.Lease("space", "queue", inline, until, func(l store.LeaseResult) {
				defer all.Done()
				fault(l.Err)
				if l.Lease == 0 {
					return
				}
				if was, twice := leased[l.ID]; twice {
					fault(fmt.Errorf("%s has the leases %d and %d at once", l.ID, was, l.Lease))
					return
				}
				waiting--
				leased[l.ID] = l.Lease
			})
		default:
			ids := slices.Sorted(maps.Keys(leased))
			id := ids[r.IntN(len(ids))]
			lease := leased[id]
			delete(leased, id) // no operation after this one has it
			done := held(id)
			end := func(held bool, err error) {
				defer all.Done()
				done(held, err)
			}
			if n < 9 {
				k.Ack("space", id, lease, end)
				return
			}
			waiting++
			k.Nack("space", id, lease, time.Time{}, true, end)
		}
	}
	for range effort.Rounds(200) {
		all.Add(1)
		k.Bound("space", "queue", store.Room{Items: 1000, Octets: 1 << 20}, func(err error) {
			defer all.Done()
			fault(err)
			for range r.IntN(40) {
				submit()
			}
		})
		all.Wait()
		if k.Failed() {
			return
		}
	}
}
