package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/slimwire/swp/store"
)

var writing = []test{
	{name: "DoneIsCalledInOrderOneAtATime", run: func(k *kit) {
		const operations = 600
		var order []int // without a lock: done functions do not run concurrently
		finished := make(chan struct{})
		note := func(i int) {
			if order = append(order, i); len(order) == operations {
				close(finished)
			}
		}
		for i := range operations {
			key := fmt.Sprint(i % 7)
			switch i % 6 {
			case 0:
				k.Put("space", key, 0, "owner", []byte("x"), never, func(store.PutResult) { note(i) })
			case 1:
				k.Append("space", key, "", "owner", []byte("x"), never, func(store.AppendResult) { note(i) })
			case 2:
				k.Delete("space", key, 0, func(bool, error) { note(i) })
			case 3:
				k.Trim("space", key, uint64(i), func(error) { note(i) })
			case 4:
				k.Drop("space", key, func(error) { note(i) })
			case 5: // refused operations keep their place, too
				k.Put(fill(store.MaxSpace+1), key, 0, "owner", nil, never, func(store.PutResult) { note(i) })
			}
		}
		wait(k, finished)
		if !slices.IsSorted(order) {
			k.Errorf("done functions were called in another order than operations were submitted: %v", order)
		}
	}},
	{name: "OperationsTakeEffectInOrder", run: func(k *kit) {
		c := make(chan store.PutResult, 1)
		k.Put("space", "key", 0, "owner", []byte("1"), never, func(store.PutResult) {})
		k.Delete("space", "key", 0, func(bool, error) {})
		k.Put("space", "key", 0, "owner", []byte("2"), never, func(r store.PutResult) { c <- r })
		p := wait(k, c)
		k.wantRecord("space", "key", p.Version, "2")
	}},
	{name: "DoneIsNeverCalledWithinTheSubmission", options: Options{QueueLength: 1}, run: func(k *kit) {
		// A caller may hold a lock that done takes.
		var mu sync.Mutex
		var pending sync.WaitGroup
		pending.Add(50)
		mu.Lock()
		for range 50 {
			k.Put("space", "key", 0, "owner", nil, never, func(store.PutResult) {
				mu.Lock()
				defer mu.Unlock()
				pending.Done()
			})
		}
		mu.Unlock()
		pending.Wait()
	}},
	{name: "AFullQueueRefuses", options: Options{QueueLength: 4}, run: func(k *kit) {
		hold, held := make(chan struct{}), make(chan struct{})
		k.Append("space", "log", "", "owner", nil, never, func(store.AppendResult) {
			close(held)
			<-hold // blocks the engine, which done functions must not do
		})
		wait(k, held)
		const extra = 100
		results := make(chan error, extra)
		for range extra {
			k.Append("space", "log", "", "owner", nil, never, func(r store.AppendResult) { results <- r.Err })
		}
		close(hold)
		var kept uint64
		for range extra {
			if err := wait(k, results); err == nil {
				kept++
			} else {
				k.wantErr("Append to a full queue", err, store.ErrBusy)
			}
		}
		if kept == 0 || kept > 4 {
			k.Errorf("%d were kept of what came while the queue of 4 was held", kept)
		}
		k.wantSpan("log", 1, kept+1)
		k.mustAppend("log", "", "", never, kept+2)
	}},
	{name: "CheckWrites", run: func(k *kit) {
		if err := k.check(); err != nil {
			k.Error(err)
		}
		ctx, cancel := context.WithCancel(k.Context())
		cancel()
		if err := k.Check(ctx); err != nil && !errors.Is(err, context.Canceled) {
			k.Errorf("Check with an ended context: %v", err)
		}
	}},
	{name: "ReadingEndsWithItsContext", run: func(k *kit) {
		for i := range uint64(3) {
			k.mustAppend("log", "", "x", never, i+1)
		}
		ctx, cancel := context.WithCancel(k.Context())
		cancel()
		if _, _, err := k.Get(ctx, "space", "key"); !errors.Is(err, context.Canceled) {
			k.Errorf("Get: %v", err)
		}
		if err := k.Scan(ctx, "space", "", "", func(string, uint64, []byte) bool { return true }); !errors.Is(err, context.Canceled) {
			k.Errorf("Scan: %v", err)
		}
		if err := k.Read(ctx, "space", "log", 0, func(uint64, string, []byte) bool { return true }); !errors.Is(err, context.Canceled) {
			k.Errorf("Read: %v", err)
		}
		if _, _, err := k.Span(ctx, "space", "log"); !errors.Is(err, context.Canceled) {
			k.Errorf("Span: %v", err)
		}
	}},
	{name: "CloseCommitsWhatWasSubmitted", run: func(k *kit) {
		const operations = 200
		results := make(chan error, operations)
		for i := range operations {
			k.Put("space", fmt.Sprintf("%03d", i), 0, "owner", []byte("x"), never, func(r store.PutResult) {
				results <- r.Err
			})
		}
		k.reopen()
		for range operations {
			if err := wait(k, results); err != nil {
				k.Fatal(err)
			}
		}
		if keys := k.scan("space", "", ""); len(keys) != operations {
			k.Errorf("%d records, want %d", len(keys), operations)
		}
	}},
	{name: "AClosedStoreRefuses", run: func(k *kit) {
		k.mustPut("space", "key", 0, "value", never)
		for range 2 {
			if err := k.Close(); err != nil {
				k.Errorf("Close: %v", err)
			}
		}
		k.wantErr("Put", k.put("space", "key", 0, "owner", "x", never).Err, store.ErrClosed)
		k.wantErr("Append", k.append("space", "log", "", "owner", "x", never).Err, store.ErrClosed)
		errs := make(chan error, 1)
		k.Delete("space", "key", 0, func(_ bool, err error) { errs <- err })
		k.wantErr("Delete", wait(k, errs), store.ErrClosed)
		k.Trim("space", "log", 1, func(err error) { errs <- err })
		k.wantErr("Trim", wait(k, errs), store.ErrClosed)
		k.Drop("space", "log", func(err error) { errs <- err })
		k.wantErr("Drop", wait(k, errs), store.ErrClosed)
		_, _, err := k.Get(k.Context(), "space", "key")
		k.wantErr("Get", err, store.ErrClosed)
		k.wantErr("Scan", k.Scan(k.Context(), "space", "", "", func(string, uint64, []byte) bool { return true }), store.ErrClosed)
		k.wantErr("Read", k.Read(k.Context(), "space", "log", 0, func(uint64, string, []byte) bool { return true }), store.ErrClosed)
		_, _, err = k.Span(k.Context(), "space", "log")
		k.wantErr("Span", err, store.ErrClosed)
		k.wantErr("Check", k.check(), store.ErrClosed)
	}},
	{name: "ReadersAndWritersRunTogether", run: func(k *kit) {
		stop := time.After(300 * time.Millisecond)
		done := make(chan struct{})
		go func() {
			<-stop
			close(done)
		}()
		var wg sync.WaitGroup
		for w := range 4 {
			wg.Go(func() {
				log := fmt.Sprint(w)
				for seq := uint64(1); ; seq++ {
					select {
					case <-done:
						return
					default:
					}
					k.mustAppend(log, fmt.Sprint(seq), "x", never, seq)
					if seq%16 == 0 {
						k.trim(log, seq-8)
					}
				}
			})
			wg.Go(func() {
				log := fmt.Sprint(w)
				for {
					select {
					case <-done:
						return
					default:
					}
					var before uint64
					for _, e := range k.read(log, 0) {
						if e.seq <= before {
							k.Errorf("number %d after %d", e.seq, before)
						}
						before = e.seq
					}
					first, last, err := k.Span(k.Context(), "space", log)
					if err != nil || first > last+1 || last < before {
						k.Errorf("Span = %d to %d after number %d was read, error %v", first, last, before, err)
					}
				}
			})
		}
		wg.Wait()
	}},
}
