package sdlaudit_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/sdlaudit"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
	"github.com/slimwire/swp/store"
)

const (
	kid = "did:web:server.example#1"
	who = "spiffe://example.org/alice"
)

func key(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(name))
	return ed25519.NewKeyFromSeed(seed[:])
}

func public(t *testing.T, k ed25519.PrivateKey) ed25519.PublicKey {
	t.Helper()
	p, ok := k.Public().(ed25519.PublicKey)
	if !ok {
		t.Fatal("no Ed25519 key")
	}
	return p
}

var signer = sdlaudit.Signer{Key: key("server"), Kid: kid}

func event(n int) canonical.Value {
	return canonical.Object(canonical.Member{Name: "request_id", Value: canonical.String(fmt.Sprintf("r%04d", n))})
}

func open(t *testing.T, path string, size int64) *sdlaudit.Chain {
	t.Helper()
	c, err := sdlaudit.Open(sdlaudit.Options{Path: path, Size: size, Now: func() time.Time { return time.Unix(1_800_000_000, 0) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func add(t *testing.T, c *sdlaudit.Chain, by sdlaudit.Signer, n int) canonical.Value {
	t.Helper()
	receipt, err := c.Add(who, event(n), by)
	if err != nil {
		t.Fatal(err)
	}
	return receipt
}

// written returns the path of a chain of n entries.
func written(t *testing.T, by sdlaudit.Signer, n int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "chain.jsonl")
	c := open(t, path, 1<<20)
	for i := range n {
		add(t, c, by, i)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	octets, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return octets
}

func write(t *testing.T, path string, octets []byte) {
	t.Helper()
	if err := os.WriteFile(path, octets, 0o600); err != nil {
		t.Fatal(err)
	}
}

// verify checks a chain with the key of the signer, and returns its faults.
func verify(t *testing.T, path string, signed bool) (sdlaudit.Result, string) {
	t.Helper()
	var faults strings.Builder
	r, err := sdlaudit.Verify(t.Context(), sdlaudit.Verification{
		Path: path, Keys: []sdlaudit.Key{{Public: public(t, signer.Key), Kid: kid}}, Signed: signed,
		Found: func(f sdlaudit.Finding) { fmt.Fprintf(&faults, "%d: %s\n", f.Line, f.Text) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return r, faults.String()
}

// Rows 96 and 98 of A2A-SDL §15.
func TestEntriesAreLinkedAndSigned(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data", "chain.jsonl")
	c := open(t, path, 1<<20)
	first, second := add(t, c, signer, 1), add(t, c, signer, 2)
	if !first.Get("prev_hash").IsNull() || !second.Get("prev_hash").Equal(first.Get("entry_hash")) {
		t.Errorf("the receipts are not linked: %s, %s", first.AppendJSON(nil), second.AppendJSON(nil))
	}
	lines := bytes.Split(read(t, path), []byte("\n"))
	entry, err := canonical.ParseJSON(lines[1])
	if err != nil {
		t.Fatal(err)
	}
	head := entry.Without("entry_hash").Without("sig")
	if got, _ := second.Get("entry_hash").Text(); got != fmt.Sprintf("sha256:%x", sha256.Sum256(head.AppendJSON(nil))) {
		t.Errorf("entry_hash %s", got)
	}
	if got, _ := second.Get("sig").Get("value").Text(); seal.VerifyDetached(entry.Without("sig"), got, public(t, signer.Key)) != nil {
		t.Errorf("signature %s", got)
	}
	if long, n := sdlaudit.Longest(signer).JSONSize(), second.JSONSize(); long != n {
		t.Errorf("the longest receipt has %d octets, and one has %d", long, n)
	}
	r, faults := verify(t, path, true)
	if last, _ := second.Get("entry_hash").Text(); r.Entries != 2 || r.Signed != 2 || r.Verified != 2 || r.Faults != 0 || r.Last != last {
		t.Errorf("%+v\n%s", r, faults)
	}
}

// Rows 97 and 99 of A2A-SDL §15.
func TestEachChangedOctetIsFound(t *testing.T) {
	for name, by := range map[string]sdlaudit.Signer{"signed": signer, "not signed": {}} {
		t.Run(name, func(t *testing.T) {
			path := written(t, by, 3)
			good := read(t, path)
			if r, faults := verify(t, path, by.Key != nil); r.Entries != 3 || r.Faults != 0 {
				t.Fatalf("%+v\n%s", r, faults)
			}
			for i := range good {
				bad := bytes.Clone(good)
				bad[i] ^= 1
				write(t, path, bad)
				r, _ := verify(t, path, by.Key != nil)
				if r.Faults == 0 {
					t.Errorf("octet %d of %d: no fault", i, len(good))
				}
			}
		})
	}
}

// A process goes on only behind a whole entry, and removes none: Verify finds the damage later, too.
func TestST04AFlippedBitOfTheLastEntryIsFoundAlsoAfterARestart(t *testing.T) {
	good := read(t, written(t, signer, 3))
	last := bytes.LastIndexByte(good[:len(good)-1], '\n') + 1
	r := rand.New(rand.NewPCG(1, 2))
	path := filepath.Join(t.TempDir(), "chain.jsonl")
	refused := 0
	for i := last; i < len(good); i++ {
		bad := bytes.Clone(good)
		bad[i] ^= 1 << r.IntN(8)
		for _, torn := range []string{"", `{"entry_hash":"`} { // a kill has left half a line behind it
			write(t, path, append(bytes.Clone(bad), torn...))
			if c, err := sdlaudit.Open(sdlaudit.Options{Path: path, Size: 1 << 20}); err == nil {
				add(t, c, signer, 9)
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			} else if refused++; !strings.Contains(err.Error(), "move the file away") {
				t.Errorf("octet %d of %d: %v", i-last, len(good)-last, err)
			}
			if !bytes.HasPrefix(read(t, path), bad) {
				t.Errorf("octet %d of %d: the entry was changed", i-last, len(good)-last)
			}
			if r, _ := verify(t, path, true); r.Faults == 0 {
				t.Errorf("octet %d of %d: no fault", i-last, len(good)-last)
			}
		}
	}
	if refused < len(good)-last { // not for an octet of the signature, which needs a key
		t.Errorf("%d of %d were refused", refused, 2*(len(good)-last))
	}
}

func TestLinesThatAreMissingOrMovedAreFound(t *testing.T) {
	good := bytes.SplitAfter(read(t, written(t, signer, 4)), []byte("\n"))[:4]
	path := filepath.Join(t.TempDir(), "chain.jsonl")
	for name, row := range map[string]struct {
		order []int
		want  string
	}{
		"the first is missing":  {[]int{1, 2, 3}, "1: prev_hash"},
		"a line is missing":     {[]int{0, 2, 3}, "2: prev_hash"},
		"two are exchanged":     {[]int{0, 2, 1, 3}, "2: prev_hash"},
		"a line is there twice": {[]int{0, 1, 1, 2, 3}, "3: prev_hash"},
		"the last is first":     {[]int{3, 0, 1, 2}, "1: prev_hash"},
	} {
		var octets []byte
		for _, i := range row.order {
			octets = append(octets, good[i]...)
		}
		write(t, path, octets)
		if r, faults := verify(t, path, true); r.Faults == 0 || !strings.HasPrefix(faults, row.want) {
			t.Errorf("%s: %+v\n%s", name, r, faults)
		}
	}
}

func TestSignaturesOfOtherKeysAreFound(t *testing.T) {
	for name, row := range map[string]struct {
		by   sdlaudit.Signer
		want string
	}{
		"another key":  {sdlaudit.Signer{Key: key("other"), Kid: kid}, "1: the signature is wrong"},
		"another name": {sdlaudit.Signer{Key: signer.Key, Kid: "other"}, `1: the signature is of key "other", which is not given`},
		"not signed":   {sdlaudit.Signer{}, "1: not signed"},
	} {
		if r, faults := verify(t, written(t, row.by, 1), true); r.Faults != 1 || !strings.HasPrefix(faults, row.want) {
			t.Errorf("%s: %+v\n%s", name, r, faults)
		}
	}
	r, err := sdlaudit.Verify(t.Context(), sdlaudit.Verification{Path: written(t, signer, 2)})
	if err != nil || r.Signed != 2 || r.Verified != 0 || r.Faults != 0 {
		t.Errorf("without a key: %+v, %v", r, err)
	}
	if _, err := sdlaudit.Verify(t.Context(), sdlaudit.Verification{Path: "none", Signed: true}); err == nil {
		t.Error("signatures were required without a key")
	}
}

func TestAMissingFileIsAnEmptyChain(t *testing.T) {
	if r, _ := verify(t, filepath.Join(t.TempDir(), "none"), true); r != (sdlaudit.Result{}) {
		t.Errorf("%+v", r)
	}
}

func TestAChainContinuesAfterATornTail(t *testing.T) {
	whole := read(t, written(t, signer, 2))
	second := bytes.IndexByte(whole, '\n') + 1
	path := filepath.Join(t.TempDir(), "chain.jsonl")
	for _, size := range []int{0, 1, second - 1, second, second + 1, len(whole) - 1, len(whole)} {
		write(t, path, whole[:size])
		kept := bytes.Count(whole[:size], []byte("\n"))
		torn := size - bytes.LastIndexByte(whole[:size], '\n') - 1
		if r, faults := verify(t, path, true); r.Entries != kept || r.Torn != torn || r.Faults != 0 {
			t.Errorf("%d octets: %+v\n%s", size, r, faults)
		}
		c := open(t, path, 1<<20)
		if c.Cut() != int64(torn) {
			t.Errorf("%d octets: %d removed, want %d", size, c.Cut(), torn)
		}
		add(t, c, signer, 9)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if r, faults := verify(t, path, true); r.Entries != kept+1 || r.Faults != 0 || r.Torn != 0 {
			t.Errorf("%d octets, continued: %+v\n%s", size, r, faults)
		}
	}
}

// A process that was killed while it looked for room has left zeros behind the last entry.
func TestZerosOfATrialAreATornTail(t *testing.T) {
	for kept := range 2 {
		path := written(t, signer, kept)
		write(t, path, append(read(t, path), make([]byte, 32<<10)...))
		if r, faults := verify(t, path, true); r.Entries != kept || r.Torn != 32<<10 || r.Faults != 0 {
			t.Errorf("after %d entries: %+v\n%s", kept, r, faults)
		}
		c := open(t, path, 1<<20)
		if c.Cut() != 32<<10 {
			t.Errorf("after %d entries: %d octets removed", kept, c.Cut())
		}
		add(t, c, signer, 9)
		if r, faults := verify(t, path, true); r.Entries != kept+1 || r.Faults != 0 || r.Torn != 0 {
			t.Errorf("after %d entries, continued: %+v\n%s", kept, r, faults)
		}
	}
}

func TestAFileOfOthersIsNotContinued(t *testing.T) {
	path := filepath.Join(t.TempDir(), "chain.jsonl")
	changed := read(t, written(t, signer, 2))
	changed[len(changed)-5] ^= 1
	for _, text := range []string{"no entry\n", string(bytes.Replace(changed, []byte("r0001"), []byte("r0007"), 1)), strings.Repeat("x", 100_000)} {
		write(t, path, []byte(text))
		if _, err := sdlaudit.Open(sdlaudit.Options{Path: path, Size: 1 << 20}); err == nil || !strings.Contains(err.Error(), "move the file away") {
			t.Errorf("%.20q: %v", text, err)
		}
		if got := read(t, path); string(got) != text {
			t.Errorf("%.20q was changed", text)
		}
	}
}

func TestOnlyOneChainHasAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "chain.jsonl")
	open(t, path, 1<<20)
	if _, err := sdlaudit.Open(sdlaudit.Options{Path: path, Size: 1 << 20}); !errors.Is(err, store.ErrLocked) {
		t.Errorf("%v, want ErrLocked", err)
	}
}

func TestAFileHasItsSizeAtMost(t *testing.T) {
	size := int64(len(read(t, written(t, signer, 3))))
	for most, want := range map[int64]int{size - 1: 2, size: 3} {
		path := filepath.Join(t.TempDir(), "chain.jsonl")
		c := open(t, path, most)
		n := 0
		for ; n < 4; n++ {
			if _, err := c.Add(who, event(n), signer); err != nil {
				if !errors.Is(err, sdlaudit.ErrFull) {
					t.Fatal(err)
				}
				break
			}
		}
		if used, _ := c.Used(); n != want || used > most || !errors.Is(c.Err(), sdlaudit.ErrFull) {
			t.Errorf("%d octets: %d entries of %d octets, %v", most, n, used, c.Err())
		}
		if r, faults := verify(t, path, true); r.Entries != want || r.Faults != 0 {
			t.Errorf("%+v\n%s", r, faults)
		}
	}
}

func TestAFullChainRefusesUntilItsFileIsMovedAway(t *testing.T) {
	path := filepath.Join(t.TempDir(), "chain.jsonl")
	var told []error
	c, err := sdlaudit.Open(sdlaudit.Options{Path: path, Size: 64 << 10, Failed: func(err error) { told = append(told, err) }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	n := 0
	for ; c.Ready(fmt.Sprint(n)) == nil; n++ {
		if _, err := c.Add(fmt.Sprint(n), event(n), signer); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Ready(who); !errors.Is(err, sdlaudit.ErrFull) || n == 0 {
		t.Fatalf("%v after %d entries", err, n)
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := c.Ready(who); err != nil {
		t.Fatal(err)
	}
	if receipt := add(t, c, signer, 0); !receipt.Get("prev_hash").IsNull() {
		t.Errorf("the new file begins with %s", receipt.AppendJSON(nil))
	}
	for name, want := range map[string]int{path: 1, path + ".1": n} {
		if r, faults := verify(t, name, true); r.Entries != want || r.Faults != 0 {
			t.Errorf("%+v, want %d entries\n%s", r, want, faults)
		}
	}
	if len(told) != 2 || !errors.Is(told[0], sdlaudit.ErrFull) || told[1] != nil {
		t.Errorf("told %v", told)
	}
}

// An identity has at most seven times what is free: alone seven eighths of the file. The chain goes
// on for others, and for all in a new file. Who has what is forgotten at a restart.
func TestOP28AnIdentityLeavesAnEighthOfTheFileToOthers(t *testing.T) {
	const size, entry = 4 << 20, 25 << 10
	path := filepath.Join(t.TempDir(), "chain.jsonl")
	c := open(t, path, size)
	long := canonical.String(strings.Repeat("x", 24<<10))
	floods := func(c *sdlaudit.Chain) (used int64) {
		for {
			switch err := c.Ready(who); {
			case errors.Is(err, sdlaudit.ErrShare):
				if c.Err() != nil {
					t.Errorf("the chain has failed: %v", c.Err())
				}
				used, _ = c.Used()
				return used
			case err != nil:
				t.Fatal(err)
			}
			if _, err := c.Add(who, long, signer); err != nil {
				t.Fatal(err)
			}
		}
	}
	first := floods(c)
	if least, most := int64(size/8*7), int64(size/8*7+entry); first < least || first > most {
		t.Errorf("one identity has %d octets of %d", first, size)
	}
	for n := range 3 {
		if err := c.Ready("another"); err != nil {
			t.Fatalf("another identity: %v", err)
		}
		if _, err := c.Add("another", event(n), signer); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	c = open(t, path, size)
	if used := floods(c); used < first || used > size-32<<10 {
		t.Errorf("after a restart it has %d octets of %d", used, size)
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if again := floods(c); again < first-entry || again > first+entry {
		t.Errorf("of a new file it has %d octets, of the first one %d", again, first)
	}
	if r, faults := verify(t, path+".1", true); r.Faults > 0 || r.Torn > 0 {
		t.Errorf("%+v\n%s", r, faults)
	}
}

func TestEntriesOfManyCallersAreOneChain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "chain.jsonl")
	c := open(t, path, 1<<20)
	var work sync.WaitGroup
	for i := range 8 {
		work.Go(func() {
			for j := range 8 {
				if _, err := c.Add(who, event(i*8+j), signer); err != nil {
					t.Error(err)
				}
				if err := c.Ready(who); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	if r, faults := verify(t, path, true); r.Entries != 64 || r.Faults != 0 {
		t.Errorf("%+v\n%s", r, faults)
	}
}

func TestAClosedChainAddsNothing(t *testing.T) {
	c := open(t, filepath.Join(t.TempDir(), "chain.jsonl"), 1<<20)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Add(who, event(0), signer); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
	if err := c.Ready(who); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
}
