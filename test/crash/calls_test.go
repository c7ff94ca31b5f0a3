package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/profiles/rpc"
)

// method is served by a back end of the test. It may not run twice.
const method = "crash.once"

// calls has callers call a method that counts how often it runs, each call
// under a key of its own and repeated until it has an outcome.
type calls struct {
	*faults
	callers int
	backend *httptest.Server

	mu   sync.Mutex
	runs map[string]int // by params

	outcomes         []map[string]outcome // by caller, by key
	returned, failed atomic.Int64
	repeated         atomic.Int64
}

// outcome is how a call has ended, once and for all.
type outcome struct {
	result []byte
	err    rpc.Error
}

func newCalls(t *testing.T, f *faults, callers int) *calls {
	w := &calls{faults: f, callers: callers, runs: make(map[string]int)}
	for range callers {
		w.outcomes = append(w.outcomes, make(map[string]outcome))
	}
	w.backend = httptest.NewServer(http.HandlerFunc(w.serve))
	t.Cleanup(w.backend.Close)
	return w
}

// config is what swpd has to know of the back end.
func (w *calls) config() string {
	return fmt.Sprintf("rpc: {backends: {crash: {url: %q, methods: [%s]}}}\n", w.backend.URL, method)
}

func (w *calls) String() string {
	return fmt.Sprintf("%d calls returned, %d left open by a crash, %d requests repeated", w.returned.Load(), w.failed.Load(), w.repeated.Load())
}

func (w *calls) serve(rw http.ResponseWriter, r *http.Request) {
	params, err := io.ReadAll(r.Body)
	if err != nil {
		return // swpd is gone, and was not told to run anything
	}
	w.mu.Lock()
	w.runs[string(params)]++
	n := w.runs[string(params)]
	w.mu.Unlock()
	_, _ = fmt.Fprintf(rw, "%s ran %d", params, n)
}

func (w *calls) run(ctx, _ context.Context, dial dialer) {
	var all sync.WaitGroup
	for i := range w.callers {
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				w.call(ctx, dial, i, fmt.Sprintf("caller %d call %d", i, n))
			}
		})
	}
	all.Wait()
}

// call calls once and for all.
func (w *calls) call(ctx context.Context, dial dialer, i int, key string) {
	tries := 0
	_ = connected(ctx, dial, func(ctx context.Context, c *client.Client) error {
		if tries++; tries > 1 {
			w.repeated.Add(1)
		}
		o, err := once(ctx, c, key)
		if err == nil {
			w.outcomes[i][key] = o
			w.count(o)
		}
		return err
	})
}

func (w *calls) count(o outcome) {
	if o.err == (rpc.Error{}) {
		w.returned.Add(1)
	} else {
		w.failed.Add(1)
	}
}

// once makes one request. The error is what does not say how the call ended.
func once(ctx context.Context, c *client.Client, key string) (outcome, error) {
	result, err := rpc.Invocation{Method: method, Params: []byte(key), IdempotencyKey: key}.Call(ctx, c.Session)
	var failed *rpc.Error
	if errors.As(err, &failed) && !failed.Retryable {
		return outcome{err: *failed}, nil
	}
	return outcome{result: result}, err
}

// check repeats every call: the outcome has to be the one that was told, and no
// call may have run twice.
func (w *calls) check(ctx context.Context, dial dialer) {
	var all sync.WaitGroup
	for i, known := range w.outcomes {
		all.Go(func() {
			_ = connected(ctx, dial, func(ctx context.Context, c *client.Client) error {
				for key, was := range known {
					now, err := once(ctx, c, key)
					if err != nil {
						return err
					}
					if !bytes.Equal(now.result, was.result) || now.err != was.err {
						w.add("caller %d: %q ended with %q %v, and later with %q %v", i, key, was.result, was.err, now.result, now.err)
					}
					if was.err == (rpc.Error{}) && string(was.result) != key+" ran 1" {
						w.add("caller %d: %q returned %q", i, key, was.result)
					}
				}
				return nil
			})
		})
	}
	all.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for params, n := range w.runs {
		if n > 1 {
			w.add("%q ran %d times", params, n)
		}
	}
}
