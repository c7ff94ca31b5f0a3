package audit

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slimwire/swp/internal/effort"
)

// planted is a fault that a test has made, and which records it is about.
type planted struct {
	kind        string
	first, last uint64
}

// found reports whether some finding is about the fault, or about the record behind it.
func (p *planted) found(sequences []uint64) bool {
	at, _ := slices.BinarySearch(sequences, p.first)
	return at < len(sequences) && sequences[at] <= p.last+1
}

// kinds of faults in a line, with the lines that stand for it and the one behind it.
var kinds = map[string]func(r *rand.Rand, line, next string, before Sum) []string{
	"changed": func(r *rand.Rand, line, next string, _ Sum) []string {
		octets := []byte(line)
		octets[r.IntN(len(octets))] ^= 1 << r.IntN(8)
		return []string{string(octets), next}
	},
	"removed": func(_ *rand.Rand, _, next string, _ Sum) []string { return []string{next} },
	"swapped": func(_ *rand.Rand, line, next string, _ Sum) []string { return []string{next, line} },
	"cut": func(r *rand.Rand, line, next string, _ Sum) []string {
		return []string{line[:r.IntN(len(line)-1)], next}
	},
	"repeated": func(_ *rand.Rand, line, next string, _ Sum) []string {
		return []string{line, line, next}
	},
	"added": func(_ *rand.Rand, line, next string, before Sum) []string {
		s, _ := parse([]byte(strings.TrimSuffix(line, "\n")))
		body, _, _ := bytes.Cut(s.body, []byte(sequenceMember))
		c := chain{sequence: s.sequence - 1, hash: before}
		return []string{string(c.seal(bytes.Replace(body, []byte("alice"), []byte("mallo"), 1), 0)), line, next}
	},
}

func TestEveryPlantedFaultIsFound(t *testing.T) {
	records, faults := 20_000, 100
	if effort.Long() {
		records, faults = 200_000, 1000
	}
	const perFile = 5000
	r := rand.New(rand.NewPCG(1, 2))
	k := open(t, t.TempDir(), newCertificate(t), 0)
	partner := newAuthority(t).endpoint(far)
	for n := 0; n < records; n += perFile {
		k.append(perFile / 2)
		for range 10 {
			if _, err := k.Receipt("other", signedBy(t, partner, 20)); err != nil {
				t.Fatal(err)
			}
		}
		k.append(perFile / 2)
		k.file.Lock()
		err := k.rotate()
		k.file.Unlock()
		if err != nil {
			t.Fatal(err)
		}
	}
	k.close(t)
	names := slices.Sorted(func(yield func(string) bool) {
		for name := range kinds {
			if !yield(name) {
				return
			}
		}
	})
	list, err := segments(k.dir)
	if err != nil {
		t.Fatal(err)
	}
	old := k.lines(t, 1)
	replayed := list[len(list)/2].number
	var all []planted
	perSegment := (faults - 1) / (len(list) - 2) // neither the last one nor the one to be replayed
	for _, s := range list[:len(list)-1] {
		lines := k.lines(t, s.number)
		if s.number == replayed {
			all = append(all, planted{"an old segment again", sequenceOf(t, lines[0]), sequenceOf(t, lines[len(lines)-1])})
			k.write(t, s.number, old)
			continue
		}
		n := perSegment
		if s.number == list[len(list)-2].number {
			n = faults - 1 - perSegment*(len(list)-3)
		}
		stride := len(lines) / (n + 1)
		var out []string
		from := 0
		for i := 1; i <= n; i++ {
			at := i*stride + r.IntN(stride/2)
			kind := names[r.IntN(len(names))]
			before, ok := parse([]byte(strings.TrimSuffix(lines[at-1], "\n")))
			if !ok {
				t.Fatal(lines[at-1])
			}
			sequence := sequenceOf(t, lines[at])
			all = append(all, planted{kind, sequence, sequence + 1})
			out = append(append(out, lines[from:at]...), kinds[kind](r, lines[at], lines[at+1], before.hash)...)
			from = at + 2
		}
		k.write(t, s.number, append(out, lines[from:]...))
	}
	_, findings := k.verify(t)
	var sequences []uint64
	for _, f := range findings {
		sequences = append(sequences, f.Sequence)
	}
	slices.Sort(sequences)
	counts := make(map[string]int)
	for _, p := range all {
		if counts[p.kind]++; !p.found(sequences) {
			t.Errorf("a record %s at %d was not found", p.kind, p.first)
		}
	}
	if len(all) != faults {
		t.Errorf("%d faults were planted, want %d", len(all), faults)
	}
	t.Logf("%d records, %v: %d findings", records, counts, len(findings))
}

// The last records of a process that was killed are not followed by a checkpoint. A process that goes
// on with them removes half a line, and no record.
func TestST04AFlippedBitInTheLastRecordsIsFoundAlsoAfterARestart(t *testing.T) {
	cert := newCertificate(t)
	k := open(t, t.TempDir(), cert, 0)
	k.append(10)
	path := filepath.Join(k.dir, segmentName(1))
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	k.close(t)
	lines := bytes.SplitAfter(good, []byte("\n"))
	last, two := len(good)-len(lines[len(lines)-2]), len(good)-len(lines[len(lines)-2])-len(lines[len(lines)-3])
	r := rand.New(rand.NewPCG(3, 4))
	for i := two; i < len(good); i++ {
		bad := bytes.Clone(good)
		bad[i] ^= 1 << r.IntN(8)
		restarted := i >= len(good)-3 || i >= last-3 && i < last+3 || i%16 == 0
		for _, torn := range []string{"", `{"@timestamp":"2026`} {
			k.dir = t.TempDir()
			if err := os.WriteFile(filepath.Join(k.dir, segmentName(1)), append(bytes.Clone(bad), torn...), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, faults := k.verify(t); len(faults) == 0 {
				t.Errorf("octet %d of %d: no fault", i-two, len(good)-two)
			}
			if !restarted {
				continue
			}
			again := open(t, k.dir, cert, 0)
			again.append(2)
			again.close(t)
			if _, faults := k.verify(t); len(faults) == 0 {
				t.Errorf("octet %d of %d, restarted: no fault", i-two, len(good)-two)
			}
		}
	}
}

func sequenceOf(t *testing.T, line string) uint64 {
	t.Helper()
	s, ok := parse([]byte(strings.TrimSuffix(line, "\n")))
	if !ok {
		t.Fatal(line)
	}
	return s.sequence
}
