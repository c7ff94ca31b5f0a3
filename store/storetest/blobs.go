package storetest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/slimwire/swp/store"
)

// OpenBlobs opens the blobs of a directory, as Open opens a store. Quotas in the options
// are in octets. If the records under the blobs are locked, it opens the blobs with others.
type OpenBlobs func(t *testing.T, dir string, options Options) (store.Blobs, error)

// RunBlobs tests an engine of store.Blobs. Every test uses a new one. memory says that
// Close loses all content.
func RunBlobs(t *testing.T, memory bool, open OpenBlobs) {
	for _, test := range slices.Concat(blobs, blobLocks, blobExports) {
		t.Run(test.name, func(t *testing.T) {
			k := &blobKit{kit: &kit{T: t, dir: t.TempDir(), options: test.options, memory: memory}, open: open}
			k.now = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
			k.options.Now = k.clock
			k.opens()
			defer func() {
				if err := k.blobs.Close(); err != nil {
					t.Error(err)
				}
			}()
			test.run(k)
		})
	}
}

type blobTest struct {
	name    string
	run     func(k *blobKit)
	options Options
}

// blobKit is a kit for blobs instead of a store.
type blobKit struct {
	*kit
	blobs store.Blobs
	open  OpenBlobs
}

func (k *blobKit) opens() {
	k.Helper()
	s, err := k.open(k.T, k.dir, k.options)
	if err != nil {
		k.Fatal(err)
	}
	k.blobs = s
}

func (k *blobKit) reopen() {
	k.Helper()
	if k.memory {
		k.Skip("kept in memory: it cannot be opened again")
	}
	if err := k.blobs.Close(); err != nil {
		k.Fatal(err)
	}
	k.opens()
}

type outcome struct {
	ok  bool
	err error
}

func (k *blobKit) await(submit func(done func(bool, error))) outcome {
	k.Helper()
	c := make(chan outcome, 1)
	submit(func(ok bool, err error) { c <- outcome{ok, err} })
	return wait(k.kit, c)
}

const idle = time.Hour

func (k *blobKit) begin(name, owner string, size uint64, note string) outcome {
	k.Helper()
	return k.await(func(done func(bool, error)) {
		k.blobs.Begin(name, owner, size, []byte(tagOf(name)), []byte(note), idle, done)
	})
}

func (k *blobKit) append(name string, at, mark uint64, data string) outcome {
	k.Helper()
	return k.await(func(done func(bool, error)) { k.blobs.Append(name, at, mark, []byte(data), done) })
}

func (k *blobKit) seal(name, octets string, keep time.Duration) outcome {
	k.Helper()
	return k.await(func(done func(bool, error)) { k.blobs.Seal(name, sha256.Sum256([]byte(octets)), keep, done) })
}

func (k *blobKit) remove(was uint64) outcome {
	k.Helper()
	return k.await(func(done func(bool, error)) { k.blobs.Remove("a", was, done) })
}

func (k *blobKit) discard(name string) outcome {
	k.Helper()
	return k.await(func(done func(bool, error)) { k.blobs.Discard(name, done) })
}

func (k *blobKit) did(what string, o outcome) {
	k.Helper()
	if o != (outcome{ok: true}) {
		k.Fatalf("%s = %v, error %v, want it done", what, o.ok, o.err)
	}
}

func (k *blobKit) didNot(what string, o outcome) {
	k.Helper()
	if o != (outcome{}) {
		k.Errorf("%s = %v, error %v, want it not done, and no error", what, o.ok, o.err)
	}
}

// put seals a blob from a few pieces.
func (k *blobKit) put(name, octets string) uint64 {
	k.Helper()
	k.did("Begin", k.begin(name, "owner", uint64(len(octets)), "note of "+name))
	third := len(octets) / 3
	for i, piece := range []string{octets[:third], octets[third:]} {
		k.did("Append", k.append(name, uint64(i*third), uint64(i+1), piece))
	}
	k.did("Seal", k.seal(name, octets, 0))
	b, found := k.blob(name)
	if !found {
		k.Fatalf("Blob(%q): there is none", name)
	}
	return b.Version
}

func (k *blobKit) part(name string) (store.PartInfo, bool) {
	k.Helper()
	p, found, err := k.blobs.Part(k.Context(), name)
	if err != nil {
		k.Errorf("Part(%q): %v", name, err)
	}
	return p, found
}

func (k *blobKit) blob(name string) (store.BlobInfo, bool) {
	k.Helper()
	b, found, err := k.blobs.Blob(k.Context(), name)
	if err != nil {
		k.Errorf("Blob(%q): %v", name, err)
	}
	return b, found
}

func (k *blobKit) wantPart(name string, held, mark uint64) {
	k.Helper()
	p, found := k.part(name)
	if p.Held != held || p.Mark != mark || !found || string(p.Tag) != tagOf(name) {
		k.Errorf("Part(%q) = %d, mark %d, tag %q, %v, want %d, mark %d", name, p.Held, p.Mark, p.Tag, found, held, mark)
	}
}

func (k *blobKit) wantNoPart(name string) {
	k.Helper()
	if p, found := k.part(name); found {
		k.Errorf("Part(%q) has %d octets, want none", name, p.Held)
	}
}

func (k *blobKit) wantNoBlob(name string) {
	k.Helper()
	if b, found := k.blob(name); found {
		k.Errorf("Blob(%q) is version %d of %d octets, want none", name, b.Version, b.Size)
	}
}

func (k *blobKit) wantBlob(name, octets string) (version uint64) {
	k.Helper()
	b, found := k.blob(name)
	if !found || b.Size != uint64(len(octets)) || string(b.Tag) != tagOf(name) {
		k.Fatalf("Blob(%q) = %d octets, tag %q, %v, want %d", name, b.Size, b.Tag, found, len(octets))
	}
	if got := k.readAt(name, b.Version, len(octets)+10, 0); got != octets {
		k.Errorf("ReadAt(%q) = %.40q of %d octets, want %.40q of %d", name, got, len(got), octets, len(octets))
	}
	note, found, err := k.blobs.Note(k.Context(), name, b.Version)
	if want := "note of " + name; string(note) != want || !found || err != nil {
		k.Errorf("Note(%q) = %q, %v, %v, want %q", name, note, found, err, want)
	}
	return b.Version
}

func (k *blobKit) readAt(name string, version uint64, n int, at uint64) string {
	k.Helper()
	p := make([]byte, n)
	n, found, err := k.blobs.ReadAt(k.Context(), name, version, p, at)
	if err != nil || !found {
		k.Fatalf("ReadAt(%q, %d, at %d): found %v, %v", name, version, at, found, err)
	}
	return string(p[:n])
}

func (k *blobKit) scan(prefix, after string) (names []string) {
	k.Helper()
	err := k.blobs.Scan(k.Context(), prefix, after, func(b store.BlobInfo) bool {
		if again, found := k.blob(b.Name); !found || !reflect.DeepEqual(again, b) || string(b.Tag) != tagOf(b.Name) {
			k.Errorf("Scan: %+v; Blob says %+v, %v", b, again, found)
		}
		names = append(names, b.Name)
		return true
	})
	if err != nil {
		k.Fatal(err)
	}
	return names
}

func tagOf(name string) string { return "tag of " + name[:min(len(name), 50)] }

// text returns octets in which no part repeats.
func text(n int) string {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%08d ", i)
	}
	return b.String()[:n]
}

var blobs = []blobTest{
	{name: "APartIsSeenWhenItIsSealedAndNotBefore", run: func(k *blobKit) {
		octets := text(200_000)
		k.wantNoPart("a")
		k.did("Begin", k.begin("a", "owner", 200_000, "note of a"))
		k.wantPart("a", 0, 0)
		k.did("Append", k.append("a", 0, 7, octets[:70_000]))
		k.did("Append", k.append("a", 70_000, 9, octets[70_000:]))
		k.wantPart("a", 200_000, 9)
		k.wantNoBlob("a")
		if names := k.scan("", ""); names != nil {
			k.Errorf("Scan = %q before anything was sealed", names)
		}
		k.did("Seal", k.seal("a", octets, 0))
		k.wantNoPart("a")
		k.wantBlob("a", octets)
		if b, _ := k.blob("a"); b.Mark != 9 {
			k.Errorf("the mark of the blob is %d, want that of the last Append", b.Mark)
		}
		k.reopen()
		k.wantBlob("a", octets)
	}},
	{name: "EveryRangeIsRead", run: func(k *blobKit) {
		octets := text(300_000)
		version := k.put("a", octets)
		for _, at := range []int{0, 1, 65_000, 65_531, 65_532, 65_533, 131_064, 131_065, 262_127, 262_128, 299_999, 300_000, 300_001, 1 << 40} {
			for _, n := range []int{0, 1, 2, 65_532, 65_533, 150_000, 400_000} {
				want := ""
				if at < len(octets) {
					want = octets[at:min(at+n, len(octets))]
				}
				if got := k.readAt("a", version, n, uint64(at)); got != want {
					k.Fatalf("%d octets at %d: %.20q of %d, want %.20q of %d", n, at, got, len(got), want, len(want))
				}
			}
		}
		if n, found, err := k.blobs.ReadAt(k.Context(), "a", version, make([]byte, 9), 1<<64-1); n != 0 || !found || err != nil {
			k.Errorf("ReadAt the last place there is: %d, %v, %v", n, found, err)
		}
	}},
	{name: "SizesAroundTheBlocks", run: func(k *blobKit) {
		for _, n := range []int{0, 1, 65_523, 65_524, 65_532, 65_533, 131_056, 131_064, 131_065} {
			name := fmt.Sprint(n)
			octets := text(n)
			k.put(name, octets)
			k.wantBlob(name, octets)
		}
		k.reopen()
		for _, name := range k.scan("", "") {
			b, _ := k.blob(name)
			k.wantBlob(name, text(int(b.Size)))
		}
	}},
	{name: "SmallAppendsAreOneString", run: func(k *blobKit) {
		octets := text(70_000)
		k.did("Begin", k.begin("a", "owner", 70_000, "note of a"))
		c := make(chan outcome, len(octets)/7+1)
		n := 0
		for at := 0; at < len(octets); at += 7 {
			n++
			k.blobs.Append("a", uint64(at), uint64(n), []byte(octets[at:min(at+7, len(octets))]), func(ok bool, err error) { c <- outcome{ok, err} })
			if n%1000 == 0 {
				for range 1000 {
					k.did("Append", wait(k.kit, c))
				}
			}
		}
		for range n % 1000 {
			k.did("Append", wait(k.kit, c))
		}
		k.did("Seal", k.seal("a", octets, 0))
		k.wantBlob("a", octets)
	}},
	{name: "AppendsAreAtTheEnd", run: func(k *blobKit) {
		k.didNot("Append to nothing", k.append("a", 0, 1, "x"))
		k.did("Begin", k.begin("a", "owner", 10, ""))
		k.did("Append", k.append("a", 0, 1, "12345"))
		for _, at := range []uint64{0, 4, 6, 1<<64 - 1} {
			k.didNot(fmt.Sprintf("Append at %d", at), k.append("a", at, 2, "x"))
		}
		k.wantPart("a", 5, 1)
		k.did("Append of nothing", k.append("a", 5, 3, ""))
		k.wantPart("a", 5, 3)
		k.did("Append", k.append("a", 5, 4, "67890"))
		k.did("Seal", k.seal("a", "1234567890", 0))
	}},
	{name: "WhatWasSubmittedIsBuiltUpon", run: func(k *blobKit) {
		var order []string
		var mu sync.Mutex
		c := make(chan outcome, 9)
		note := func(what string) func(bool, error) {
			return func(ok bool, err error) {
				mu.Lock()
				order = append(order, what)
				mu.Unlock()
				c <- outcome{ok, err}
			}
		}
		k.blobs.Begin("a", "owner", 6, []byte("tag of a"), []byte("note of a"), idle, note("begin"))
		k.blobs.Append("a", 0, 1, []byte("abc"), note("first"))
		k.blobs.Append("a", 3, 2, []byte("def"), note("second"))
		k.blobs.Seal("a", sha256.Sum256([]byte("abcdef")), 0, note("seal"))
		for range 4 {
			k.did("one of four", wait(k.kit, c))
		}
		if want := []string{"begin", "first", "second", "seal"}; !slices.Equal(order, want) {
			k.Errorf("done in the order %q, want %q", order, want)
		}
		k.wantBlob("a", "abcdef")
	}},
	{name: "APartThatIsThereStays", run: func(k *blobKit) {
		k.did("Begin", k.begin("a", "owner", 6, "note of a"))
		k.did("Append", k.append("a", 0, 1, "abc"))
		k.didNot("Begin again", k.begin("a", "other", 9, "other"))
		k.reopen()
		k.didNot("Begin again", k.begin("a", "other", 9, "other"))
		k.wantPart("a", 3, 1)
		k.did("Append", k.append("a", 3, 2, "def"))
		k.did("Seal", k.seal("a", "abcdef", 0))
		k.wantBlob("a", "abcdef")
	}},
	{name: "WhatDoesNotFitItsDigestIsGone", options: Options{QuotaPerOwner: 100_000}, run: func(k *blobKit) {
		k.put("a", "old")
		for range 3 { // each uses the room of the previous one
			k.did("Begin", k.begin("a", "owner", 70_000, "other"))
			k.did("Append", k.append("a", 0, 1, text(70_000)))
			k.didNot("Seal", k.seal("a", text(70_000)+"x", 0))
			k.wantNoPart("a")
			k.wantBlob("a", "old")
		}
		k.didNot("Seal without a part", k.seal("a", "", 0))
		k.reopen()
		k.wantBlob("a", "old")
	}},
	{name: "ASealedPartReplacesTheBlob", options: Options{QuotaPerOwner: 250_000}, run: func(k *blobKit) {
		first := k.put("a", text(100_000))
		for i := range 3 {
			octets := text(100_000 + i)
			second := k.put("a", octets)
			if second <= first {
				k.Errorf("version %d after %d", second, first)
			}
			if n, found, err := k.blobs.ReadAt(k.Context(), "a", first, make([]byte, 9), 0); n != 0 || found || err != nil {
				k.Errorf("ReadAt of the version before: %d, %v, %v, want not found", n, found, err)
			}
			if _, found, err := k.blobs.Note(k.Context(), "a", first); found || err != nil {
				k.Errorf("Note of the version before: %v, %v, want not found", found, err)
			}
			if got := k.wantBlob("a", octets); got != second {
				k.Errorf("version %d, want %d", got, second)
			}
			first = second
		}
		k.reopen()
		if got := k.wantBlob("a", text(100_002)); got != first {
			k.Errorf("version %d after it was opened again, want %d", got, first)
		}
		if next := k.put("b", "b"); next <= first {
			k.Errorf("version %d of another blob after %d", next, first)
		}
	}},
	{name: "AVersionIsNotGivenAgain", run: func(k *blobKit) {
		newest := k.put("a", "octets")
		next := func(after string) {
			k.Helper()
			version := k.put("a", "octets")
			if version <= newest {
				k.Errorf("version %d after %s, want more than %d", version, after, newest)
			}
			newest = version
		}
		k.did("Remove", k.remove(newest))
		next("the newest blob was removed")
		k.did("Remove", k.remove(newest))
		k.reopen()
		next("the newest blob was removed, and the store opened again")
		k.did("Begin", k.begin("a", "owner", 0, ""))
		k.did("Seal", k.seal("a", "", time.Hour))
		b, _ := k.blob("a")
		newest = b.Version
		k.pass(time.Hour)
		k.reopen()
		next("the newest blob has expired, and the store was opened again")
		for range 3 {
			k.did("Remove", k.remove(newest))
			k.reopen()
			k.reopen()
			next("the store was opened twice")
		}
	}},
	{name: "ABlobThatIsReplacedWhileItIsReadIsNotDamaged", run: func(k *blobKit) {
		const octets, puts = 100_000, 10
		whole := text(octets)
		k.put("a", whole)
		over := make(chan struct{})
		var readers sync.WaitGroup
		for range 2 {
			readers.Go(func() {
				p := make([]byte, octets)
				for {
					select {
					case <-over:
						return
					default:
					}
					b, _ := k.blob("a")
					n, found, err := k.blobs.ReadAt(k.Context(), "a", b.Version, p[:b.Size], 0)
					if err != nil || found && string(p[:n]) != whole[:b.Size] {
						k.Errorf("ReadAt: %d octets of %d, %v", n, b.Size, err)
						return
					}
					if _, _, err := k.blobs.Note(k.Context(), "a", b.Version); err != nil {
						k.Errorf("Note: %v", err)
						return
					}
				}
			})
		}
		for i := range puts {
			version := k.put("a", whole[:octets-i])
			if i%2 == 0 {
				k.did("Remove", k.remove(version))
			}
		}
		close(over)
		readers.Wait()
		if err := k.blobs.Check(k.Context()); err != nil {
			k.Error(err)
		}
	}},
	{name: "GrowingGoesOnWhereItWasAfterReopening", run: func(k *blobKit) {
		octets := text(400_000)
		k.did("Begin", k.begin("a", "owner", 400_000, "note of a"))
		at := 0
		for i, n := range []int{1, 65_000, 100_000, 0, 34_999, 200_000} {
			k.did("Append", k.append("a", uint64(at), uint64(i), octets[at:at+n]))
			at += n
			k.reopen()
			k.wantPart("a", uint64(at), uint64(i))
		}
		k.did("Seal", k.seal("a", octets, 0))
		k.wantBlob("a", octets)
	}},
	{name: "DiscardAndRemove", options: Options{QuotaPerOwner: 100_000}, run: func(k *blobKit) {
		k.didNot("Discard of nothing", k.discard("a"))
		k.didNot("Remove of nothing", k.remove(3))
		k.didNot("Remove of nothing", k.remove(0))
		for range 3 {
			k.did("Begin", k.begin("a", "owner", 60_000, ""))
			k.did("Append", k.append("a", 0, 1, text(60_000)))
			k.did("Discard", k.discard("a"))
			k.didNot("Discard again", k.discard("a"))
			k.wantNoPart("a")
			version := k.put("a", text(60_000))
			k.didNot("Remove of another version", k.remove(version+1))
			k.wantBlob("a", text(60_000))
			k.did("Remove", k.remove(version))
			k.wantNoBlob("a")
		}
		k.put("a", "x")
		k.did("Remove", k.remove(0))
		if names := k.scan("", ""); names != nil {
			k.Errorf("Scan = %q", names)
		}
		k.reopen()
		k.wantNoBlob("a")
		k.wantNoPart("a")
	}},
	{name: "APeerAndItsCallersHaveOneQuota", options: Options{QuotaPerOwner: 100_000, Apart: apart}, run: func(k *blobKit) {
		k.did("Begin of a caller", k.begin("a", "peer for a", 60_000, ""))
		k.did("Append of a caller", k.append("a", 0, 1, text(60_000)))
		full := func() {
			k.Helper()
			for _, owner := range []string{"peer for b", "peer", "peer for a"} {
				k.wantErr("Begin of "+owner, k.begin("b", owner, 40_001, "").err, store.ErrQuota)
			}
		}
		full()
		k.reopen()
		full()
		k.did("Begin of another caller", k.begin("b", "peer for b", 39_000, ""))
		k.did("Append of another caller", k.append("b", 0, 1, text(39_000)))
		k.wantErr("Append over the quota", k.append("b", 39_000, 2, text(1_001)).err, store.ErrQuota)
		for _, owner := range []string{"partner for a", "partner for b", "partner"} {
			k.did("Begin of a peer apart", k.begin(owner, owner, 90_000, ""))
			k.did("Append of a peer apart", k.append(owner, 0, 1, text(90_000)))
		}
		k.did("Discard", k.discard("a"))
		k.did("Append into the room", k.append("b", 39_000, 2, text(60_000)))
	}},
	{name: "OctetsCountWhenTheyAreAppended", options: Options{QuotaPerOwner: 100_000, Quota: 250_000}, run: func(k *blobKit) {
		k.wantErr("Begin of more than fits", k.begin("a", "owner", 100_001, "").err, store.ErrQuota)
		k.wantErr("Begin of more than there is", k.begin("a", "owner", 1<<64-1, "12345").err, store.ErrQuota)
		k.wantNoPart("a")
		for i := range 20 { // announced octets reserve no room
			k.did("Begin", k.begin(fmt.Sprint(i), "owner", 99_000, ""))
		}
		k.did("Append", k.append("0", 0, 1, text(60_000)))
		k.did("Append", k.append("1", 0, 1, text(39_000)))
		k.wantErr("Append over the quota", k.append("0", 60_000, 2, text(1_001)).err, store.ErrQuota)
		k.wantPart("0", 60_000, 1)
		k.wantErr("Begin over the quota", k.begin("a", "owner", 1_001, "").err, store.ErrQuota)
		k.reopen()
		k.wantErr("Append over the quota", k.append("0", 60_000, 2, text(1_001)).err, store.ErrQuota)
		k.did("Append", k.append("0", 60_000, 2, text(1_000)))
		k.did("Begin of another", k.begin("other", "other", 90_000, ""))
		k.did("Append of another", k.append("other", 0, 1, text(90_000)))
		k.did("Begin of the node", k.begin("node", "", 60_000, ""))
		k.wantErr("Append over the quota of all", k.append("node", 0, 1, text(60_001)).err, store.ErrQuota)
		k.did("Append of the node", k.append("node", 0, 1, text(60_000)))
		k.did("Discard", k.discard("0"))
		k.did("Append into the room", k.append("1", 39_000, 2, text(30_000)))
	}},
	{name: "AbandonedPartsAreGone", options: Options{QuotaPerOwner: 100_000}, run: func(k *blobKit) {
		for i := range 10 {
			name := fmt.Sprint(i)
			k.did("Begin", k.begin(name, "owner", 10_000, ""))
			k.did("Append", k.append(name, 0, 1, text(10_000)))
		}
		k.pass(idle - time.Second)
		k.did("Append", k.append("0", 10_000, 2, "")) // keeps this part alive
		k.wantPart("1", 10_000, 1)
		k.pass(time.Second)
		k.wantNoPart("1")
		k.didNot("Append to an abandoned part", k.append("1", 10_000, 2, ""))
		k.wantPart("0", 10_000, 2)
		k.put("blob", text(85_000))
		k.did("Begin anew", k.begin("1", "owner", 1_000, ""))
		k.reopen()
		k.wantPart("0", 10_000, 2)
		k.wantNoPart("2")
		k.pass(idle)
		k.wantNoPart("0")
		k.wantBlob("blob", text(85_000))
	}},
	{name: "ABlobIsKeptAsLongAsWasAsked", run: func(k *blobKit) {
		for _, name := range []string{"short", "forever"} {
			k.did("Begin", k.begin(name, "owner", 1, "note of "+name))
			k.did("Append", k.append(name, 0, 1, "x"))
		}
		k.did("Seal", k.seal("short", "x", time.Hour))
		k.did("Seal", k.seal("forever", "x", 0))
		k.pass(time.Hour - time.Second)
		version := k.wantBlob("short", "x")
		k.pass(time.Second)
		k.wantNoBlob("short")
		if _, found, err := k.blobs.ReadAt(k.Context(), "short", version, make([]byte, 9), 0); found || err != nil {
			k.Errorf("ReadAt of what is over: %v, %v, want not found", found, err)
		}
		if names := k.scan("", ""); !slices.Equal(names, []string{"forever"}) {
			k.Errorf("Scan = %q", names)
		}
		k.pass(1000 * time.Hour)
		k.reopen()
		k.wantNoBlob("short")
		k.wantBlob("forever", "x")
		k.put("short", "y")
		k.wantBlob("short", "y")
	}},
	{name: "NamesAreOpaque", run: func(k *blobKit) {
		names := []string{
			"../../etc/passwd", "/etc/passwd", "a\x00b", "a", "a/b", "..", ".", "é", "e\u0301", "\xff\xfe", fill(store.MaxName), "lost", "probe",
		}
		for _, name := range names {
			k.put(name, "octets of "+name)
		}
		slices.Sort(names)
		if got := k.scan("", ""); !slices.Equal(got, names) {
			k.Errorf("Scan = %.40q, want %.40q", got, names)
		}
		k.reopen()
		for _, name := range names {
			k.wantBlob(name, "octets of "+name)
		}
		if got := k.scan("a", "a"); !slices.Equal(got, []string{"a\x00b", "a/b"}) {
			k.Errorf(`Scan of "a" after "a" = %q`, got)
		}
		if o := k.begin("", "owner", 0, ""); o.err == nil {
			k.Error("an empty name is taken")
		}
		k.wantErr("a long name", k.begin(fill(store.MaxName+1), "owner", 0, "").err, store.ErrTooLarge)
		k.wantErr("a long owner", k.begin("x", fill(store.MaxOwner+1), 0, "").err, store.ErrTooLarge)
		k.wantErr("a long note", k.begin("x", "owner", 0, fill(store.MaxNote+1)).err, store.ErrTooLarge)
		k.did("the longest note", k.begin("x", "owner", 0, fill(store.MaxNote)))
	}},
	{name: "MoreThanFitsTheQueueIsRefused", options: Options{QueueLength: 4}, run: func(k *blobKit) {
		k.did("Begin", k.begin("a", "owner", 0, ""))
		block, blocked := make(chan struct{}), make(chan struct{})
		k.blobs.Append("a", 0, 1, nil, func(bool, error) {
			close(blocked)
			<-block
		})
		<-blocked
		c := make(chan outcome, 20)
		for range 20 {
			k.blobs.Append("a", 0, 2, []byte{}, func(ok bool, err error) { c <- outcome{ok, err} })
		}
		k.wantErr("Append to a full queue", wait(k.kit, c).err, store.ErrBusy)
		close(block)
		refused := 1
		for range 19 {
			if o := wait(k.kit, c); o.err != nil {
				k.wantErr("Append to a full queue", o.err, store.ErrBusy)
				refused++
			}
		}
		if refused != 16 {
			k.Errorf("%d of 20 refused, want 16", refused)
		}
	}},
	{name: "ItIsChecked", run: func(k *blobKit) {
		if err := k.blobs.Check(k.Context()); err != nil {
			k.Error(err)
		}
	}},
	{name: "NothingIsTakenWhenItIsClosed", run: func(k *blobKit) {
		k.put("a", "x")
		b, _ := k.blob("a")
		if err := k.blobs.Close(); err != nil {
			k.Fatal(err)
		}
		k.wantErr("Begin", k.begin("b", "owner", 0, "").err, store.ErrClosed)
		k.wantErr("Append", k.append("b", 0, 0, "").err, store.ErrClosed)
		_, _, err := k.blobs.ReadAt(k.Context(), "a", b.Version, make([]byte, 1), 0)
		k.wantErr("ReadAt", err, store.ErrClosed)
	}},
}
