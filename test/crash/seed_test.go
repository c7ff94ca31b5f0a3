package crash

import (
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"
)

// seedVariable says where all choices begin; `make soak SEED=` sets it.
const seedVariable = "SWP_CRASH_SEED"

// seed is where all choices of this process, and of those that it starts, begin. What the
// scheduler decides is not repeated with it.
var seed = sync.OnceValue(func() uint64 {
	if n, err := strconv.ParseUint(os.Getenv(seedVariable), 10, 64); err == nil {
		return n
	}
	return rand.Uint64N(1 << 32)
})

// chances returns the choices of one goroutine, which no other goroutine shares.
func chances(who string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(who))
	return rand.New(rand.NewPCG(seed(), h.Sum64()))
}

// upTo returns a duration below d.
func upTo(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }

// sown says which seed repeats the choices of a test, and refuses one that is no number.
func sown(t *testing.T) {
	t.Helper()
	if s := os.Getenv(seedVariable); s != "" {
		if _, err := strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("%s: %v", seedVariable, err)
		}
	}
	t.Logf("SEED=%d repeats the choices", seed())
}

// keptDir returns a directory that stays if the test fails.
func keptDir(t *testing.T, what string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "swp-crash-"+what+"-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("kept: %s", dir)
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("%v", err)
		}
	})
	return dir
}
