package sqlstore

import (
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slimwire/swp/store"
)

// An item that is moved or acknowledged while somebody reads it is not damaged.
func TestAnItemThatMovesWhileItIsReadIsNotDamaged(t *testing.T) {
	s, err := Open(t.Context(), Options{Dir: t.TempDir(), Durability: store.Process})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	var id atomic.Pointer[string]
	first := "0"
	id.Store(&first)
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		var failed error
		for {
			select {
			case <-stop:
				done <- failed
				return
			default:
			}
			_, _, _, err := s.Item(t.Context(), "space", *id.Load())
			_, bad := s.Data(t.Context(), "space", *id.Load())
			failed = errors.Join(failed, err, bad)
		}
	}()
	later := time.Now().Add(time.Hour)
	lease := func(queue string) uint64 {
		taken := make(chan store.LeaseResult, 1)
		s.Lease("space", queue, 1<<10, later, func(r store.LeaseResult) { taken <- r })
		r := <-taken
		if r.Err != nil || r.Lease == 0 {
			t.Fatalf("%+v", r)
		}
		return r.Lease
	}
	held := make(chan error, 1)
	end := func(ok bool, err error) {
		if !ok && err == nil {
			err = errors.New("the lease was lost")
		}
		held <- err
	}
	for n := range 300 {
		name := strconv.Itoa(n)
		added := make(chan store.AddResult, 1)
		s.Add("space", "one", name, "", "owner", []byte("data"), later, later, func(r store.AddResult) { added <- r })
		if r := <-added; r.Err != nil {
			t.Fatal(r.Err)
		}
		id.Store(&name)
		s.Move("space", name, lease("one"), "two", []byte("more"), later, end)
		if err := <-held; err != nil {
			t.Fatal(err)
		}
		s.Ack("space", name, lease("two"), end)
		if err := <-held; err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
