package storetest

import (
	"crypto/sha256"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/slimwire/swp/store"
)

// second opens another, empty engine of blobs with a separate clock. The test closes it.
func (k *blobKit) second() *blobKit {
	k.Helper()
	other := &blobKit{kit: &kit{T: k.T, dir: k.TempDir(), options: k.options, memory: k.memory, now: k.clock()}, open: k.open}
	other.options.Now = other.clock
	other.opens()
	k.Cleanup(func() {
		if err := other.blobs.Close(); err != nil {
			k.Error(err)
		}
	})
	return other
}

// copied returns a second engine with the same content.
func (k *blobKit) copied() *blobKit {
	k.Helper()
	other := k.second()
	file := exported(k.kit, k.blobs)
	if err := imported(k.kit, other.blobs, file); err != nil {
		k.Fatal(err)
	}
	k.wantSame("the export of the import", strings.Join(pieces(k.kit, file), "\n"), strings.Join(pieces(k.kit, exported(k.kit, other.blobs)), "\n"))
	k.wantSame("what the import shows", k.observed(), other.observed())
	return other
}

// observed returns what a client sees of blobs and of the parts "part" and "replacing".
func (k *blobKit) observed() string {
	k.Helper()
	var seen strings.Builder
	err := k.blobs.Scan(k.Context(), "", "", func(b store.BlobInfo) bool {
		note, found, err := k.blobs.Note(k.Context(), b.Name, b.Version)
		b.Sealed = b.Sealed.UTC()
		_, _ = fmt.Fprintf(&seen, "%+v, note %x %t %v, %x\n", b, sha256.Sum256(note), found, err,
			sha256.Sum256([]byte(k.readAt(b.Name, b.Version, int(b.Size), 0))))
		return true
	})
	if err != nil {
		k.Fatal(err)
	}
	for _, name := range []string{"part", "replacing", "none"} {
		p, found := k.part(name)
		_, _ = fmt.Fprintf(&seen, "part %q: %+v %t\n", name, p, found)
	}
	return seen.String()
}

// populate writes blobs and parts of all kinds.
func (k *blobKit) populate() {
	k.Helper()
	for _, n := range []int{0, 1, 65_523, 65_524, 65_532, 131_064, 1_048_512, 3_000_000} {
		k.put(fmt.Sprint("size ", n), text(n))
	}
	k.did("Begin", k.begin("brief", "owner", 0, "note"))
	k.did("Append", k.append("brief", 0, 3, "octets"))
	k.did("Seal", k.seal("brief", "octets", time.Hour))
	k.did("Begin", k.begin("gone", "owner", 0, "note"))
	k.did("Seal", k.seal("gone", "", time.Second))
	k.put("replacing", "the old octets")
	for _, name := range []string{"part", "replacing"} {
		k.did("Begin", k.begin(name, "another", 0, "note of "+name))
		k.did("Append", k.append(name, 0, 1<<64-1, text(200_000)))
	}
	k.did("Begin", k.begin("large note", "owner", 0, text(store.MaxNote)))
	k.did("Append", k.append("large note", 0, 3, "octets"))
	k.did("Seal", k.seal("large note", "octets", 0))
	k.put("newest", "octets")
	k.pass(2 * time.Second)
}

// answers performs operations whose outcome depends on the content, and returns the outcomes.
func (k *blobKit) answers() string {
	k.Helper()
	newest, _ := k.blob("newest")
	for _, name := range []string{"part", "replacing"} {
		k.didNot("Begin over a part", k.begin(name, "owner", 0, ""))
		k.didNot("Append in front of the end", k.append(name, 199_999, 5, "more"))
		k.did("Append", k.append(name, 200_000, 5, "more"))
		k.did("Seal", k.seal(name, text(200_000)+"more", 0))
		if version := k.wantBlob(name, text(200_000)+"more"); version <= newest.Version {
			k.Errorf("version %d after %d", version, newest.Version)
		}
	}
	k.pass(time.Hour - 3*time.Second)
	before := k.observed()
	k.pass(2 * time.Second)
	k.wantNoBlob("brief")
	return before + k.observed()
}

var blobExports = []blobTest{
	{name: "AnImportShowsAndAnswersLikeTheExported", run: func(k *blobKit) {
		k.populate()
		other := k.copied()
		k.wantSame("answers", k.answers(), other.answers())
	}},
	{name: "AnImportIsKept", run: func(k *blobKit) {
		k.populate()
		other := k.copied()
		other.reopen()
		k.wantSame("what the import shows", k.observed(), other.observed())
		k.wantSame("answers", k.answers(), other.answers())
	}},
	{name: "AnImportDoesNotGiveAVersionAgain", run: func(k *blobKit) {
		newest := k.put("a", "octets")
		k.did("Remove", k.remove(newest))
		other := k.copied()
		other.reopen()
		if version := other.put("a", "octets"); version <= newest {
			k.Errorf("version %d after an import and a removed blob, want more than %d", version, newest)
		}
	}},
	{name: "AnImportedPartIsDiscardedInItsTime", run: func(k *blobKit) {
		k.did("Begin", k.begin("part", "owner", 0, "note"))
		k.pass(idle / 2)
		other := k.copied()
		other.pass(idle/2 - time.Second)
		other.wantPart("part", 0, 0)
		other.pass(time.Second)
		other.wantNoPart("part")
	}},
	{name: "AnImportCountsAgainstQuotas", options: Options{QuotaPerOwner: 1 << 20}, run: func(k *blobKit) {
		k.put("a", text(900_000))
		other := k.copied()
		for _, one := range []*blobKit{k, other} {
			one.wantErr("Begin above the quota", one.begin("b", "owner", 200_000, "").err, store.ErrQuota)
			one.did("Remove", one.remove(0))
			one.put("b", text(900_000))
		}
	}},
	{name: "AnImportNeedsBlobsThatWereNeverWritten", run: func(k *blobKit) {
		k.put("a", "octets")
		file := exported(k.kit, k.blobs)
		k.wantErr("Import into what is exported", imported(k.kit, k.blobs, file), store.ErrUsed)
		k.did("Remove", k.remove(0))
		k.wantErr("Import after the blob was removed", imported(k.kit, k.blobs, file), store.ErrUsed)
		k.reopen()
		k.wantErr("Import after the store was opened again", imported(k.kit, k.blobs, file), store.ErrUsed)
	}},
	{name: "AnImportRefusesPiecesThatDoNotFit", run: func(k *blobKit) {
		start := &store.Start{Clock: 1, Versions: 10}
		octets := func(n int) store.Piece { return &store.Octets{Data: []byte(fill(n))} }
		blob := func(size uint64) store.Piece { return &store.Blob{Name: "a", Version: 1, Size: size} }
		part := &store.Blob{Name: "a", Size: 1}
		for name, all := range map[string][]store.Piece{
			"no start":              {blob(0)},
			"too few octets":        {start, blob(10), octets(9)},
			"too many octets":       {start, blob(10), octets(11)},
			"octets after the last": {start, blob(10), octets(10), octets(1)},
			"too few, and another":  {start, blob(10), octets(5), blob(0)},
			"a blob twice":          {start, blob(0), blob(0)},
			"a part twice":          {start, part, octets(1), part, octets(1)},
			"no name":               {start, &store.Blob{Version: 1}},
			"a tag too long":        {start, &store.Blob{Name: "a", Version: 1, Tag: make([]byte, store.MaxTag+1)}},
			"a note too long":       {start, &store.Blob{Name: "a", Version: 1, Note: make([]byte, store.MaxNote+1)}},
			"a record":              {start, &store.Record{Key: "key", Version: 1}},
		} {
			other := k.second()
			err := other.blobs.(store.Importer).Import(k.Context(), func() (store.Piece, error) {
				if len(all) == 0 {
					return nil, io.EOF
				}
				p := all[0]
				all = all[1:]
				return p, nil
			})
			if err == nil {
				k.Errorf("%s: imported", name)
			}
		}
	}},
	{name: "AnExportHasWhatIsSealedReplacedOrRemovedMeanwhile", run: func(k *blobKit) {
		for _, name := range []string{"a", "in flight", "removed", "replaced"} {
			k.put(name, text(2_000_000))
		}
		for _, name := range []string{"replaced", "sealed"} {
			k.did("Begin", k.begin(name, "owner", 0, "note of "+name))
			k.did("Append", k.append(name, 0, 1, text(300_000)))
		}
		remove := func(name string) {
			k.did("Remove", k.await(func(done func(bool, error)) { k.blobs.Remove(name, 0, done) }))
		}
		file := exportedWith(k.kit, k.blobs, func(p store.Piece) {
			switch b, _ := p.(*store.Blob); {
			case b == nil:
			case b.Name == "a":
				k.did("Seal", k.seal("replaced", text(300_000), 0))
				k.did("Seal", k.seal("sealed", text(300_000), 0))
				remove("removed")
			case b.Name == "in flight":
				remove("in flight")
			}
		})
		other := k.second()
		if err := imported(k.kit, other.blobs, file); err != nil {
			k.Fatal(err)
		}
		for name, want := range map[string]string{
			"a": text(2_000_000), "in flight": text(2_000_000), "replaced": text(300_000), "sealed": text(300_000),
		} {
			other.wantBlob(name, want)
		}
		other.wantNoBlob("removed")
	}},
}
