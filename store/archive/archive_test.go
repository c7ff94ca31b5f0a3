package archive_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/archive"
)

var all = []store.Piece{
	&store.Start{Clock: 1, Versions: 2, Items: math.MaxUint32},
	&store.Record{Space: "space", Key: "key\x00\xff", Owner: "owner", Version: 3, Expires: 4, Value: []byte("value")},
	&store.Record{Value: []byte{}},
	&store.Log{Space: "space", Name: "log", Owner: "owner", Last: 5},
	&store.LogEntry{Seq: 5, ID: "id", Owner: "owner", Expires: 6, Data: []byte("data")},
	&store.Item{
		Space: "space", Queue: "queue", ID: "id", Mark: "mark", Owner: "owner", Number: 7, Done: true, Lease: 8, Tries: 9,
		Due: 10, Expires: 11, Keep: math.MaxInt64, Data: []byte("data"),
	},
	&store.Blob{
		Name: "name", Owner: "owner", Version: 12, Mark: math.MaxUint64, Changed: 13, Expires: 14, Idle: 15, Size: 16,
		Tag: []byte("tag"), Note: []byte("note"),
	},
	&store.Octets{Data: bytes.Repeat([]byte("octets"), 20)},
}

func write(t *testing.T, sections ...[]store.Piece) []byte {
	t.Helper()
	var file bytes.Buffer
	w := archive.NewWriter(&file)
	for i, section := range sections {
		err := w.Begin(fmt.Sprint("section ", i))
		for _, p := range section {
			err = errors.Join(err, w.Write(p))
		}
		if err = errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.End(); err != nil {
		t.Fatal(err)
	}
	if w.Size() != int64(file.Len()) {
		t.Errorf("Size = %d of %d", w.Size(), file.Len())
	}
	return file.Bytes()
}

// read returns the pieces and the names of sections that can be read, and why no more can.
func read(file io.Reader) (pieces []store.Piece, names []string, err error) {
	r := archive.NewReader(file)
	for {
		name, err := r.Section()
		if err != nil {
			return pieces, names, err
		}
		names = append(names, name)
		for {
			p, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				return pieces, names, err
			}
			pieces = append(pieces, clone(p))
		}
	}
}

// clone copies the octets of a piece, which are valid until the next one.
func clone(p store.Piece) store.Piece {
	switch p := p.(type) {
	case *store.Record:
		p.Value = append([]byte{}, p.Value...)
	case *store.LogEntry:
		p.Data = append([]byte{}, p.Data...)
	case *store.Item:
		p.Data = append([]byte{}, p.Data...)
	case *store.Blob:
		p.Tag, p.Note = append([]byte{}, p.Tag...), append([]byte{}, p.Note...)
	case *store.Octets:
		p.Data = append([]byte{}, p.Data...)
	}
	return p
}

func TestAFileIsReadAsItWasWritten(t *testing.T) {
	for name, wrap := range map[string]func(io.Reader) io.Reader{
		"at once":        func(r io.Reader) io.Reader { return r },
		"octet by octet": iotest.OneByteReader,
		"end with data":  iotest.DataErrReader,
	} {
		pieces, names, err := read(wrap(bytes.NewReader(write(t, all, nil, all[:1]))))
		if err != io.EOF {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(append(append([]store.Piece{}, all...), all[0]), pieces); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
		if diff := cmp.Diff([]string{"section 0", "section 1", "section 2"}, names); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

// wantRefused expects an error with the place, and pieces from the front only.
func wantRefused(t *testing.T, what string, file []byte) {
	t.Helper()
	pieces, _, err := read(bytes.NewReader(file))
	if !errors.Is(err, store.ErrDamaged) && !errors.Is(err, store.ErrVersion) {
		t.Errorf("%s: %v after %d pieces", what, err, len(pieces))
		return
	}
	if text := err.Error(); !strings.Contains(text, " at octet ") && !strings.Contains(text, "begin") && !strings.Contains(text, "format") && !strings.Contains(text, "empty") {
		t.Errorf("%s: %q does not say where", what, text)
	}
	if n := len(pieces); n > len(all) || n > 0 && !cmp.Equal(all[:n], pieces) {
		t.Errorf("%s: other pieces are read than were written", what)
	}
}

func TestST04AnExportWithAChangedOctetIsRefused(t *testing.T) {
	file := write(t, all)
	for i := range file {
		for _, flip := range []byte{1, 0x80, 0xff} {
			changed := bytes.Clone(file)
			changed[i] ^= flip
			wantRefused(t, fmt.Sprintf("octet %d of %d xor %#x", i, len(file), flip), changed)
		}
	}
}

func TestST04ACutExportIsRefused(t *testing.T) {
	file := write(t, all)
	for n := range file {
		wantRefused(t, fmt.Sprintf("the first %d octets of %d", n, len(file)), file[:n])
	}
}

func TestST04AnExportWithOctetsAddedRemovedOrMovedIsRefused(t *testing.T) {
	file := write(t, all)
	for i := range len(file) + 1 {
		wantRefused(t, fmt.Sprint("an octet more at ", i), append(append(bytes.Clone(file[:i]), 'x'), file[i:]...))
		if i < len(file) {
			wantRefused(t, fmt.Sprint("an octet less at ", i), append(bytes.Clone(file[:i]), file[i+1:]...))
		}
	}
	wantRefused(t, "twice", append(bytes.Clone(file), file...))

	// Records that are whole, at another place.
	const head = len("swp-store-export 1\n")
	var records [][]byte
	for rest := file[head:]; len(rest) > 0; {
		n := 4 + int(rest[2])<<8 + int(rest[3])
		records, rest = append(records, rest[:n]), rest[n:]
	}
	join := func(all ...[]byte) []byte { return append(bytes.Clone(file[:head]), bytes.Join(all, nil)...) }
	for i := range records {
		wantRefused(t, fmt.Sprint("without record ", i), join(append(append([][]byte{}, records[:i]...), records[i+1:]...)...))
		wantRefused(t, fmt.Sprint("record twice: ", i), join(append(append([][]byte{}, records[:i+1]...), records[i:]...)...))
		if i > 0 {
			swapped := append([][]byte{}, records...)
			swapped[i-1], swapped[i] = swapped[i], swapped[i-1]
			wantRefused(t, fmt.Sprint("swapped with the one before: ", i), join(swapped...))
		}
	}
}

func TestTheFormatIsNamedIfItIsAnother(t *testing.T) {
	file := write(t, all)
	file[len("swp-store-export ")] = '2'
	_, _, err := read(bytes.NewReader(file))
	if !errors.Is(err, store.ErrVersion) || !strings.Contains(err.Error(), `"swp-store-export 2\n"`) {
		t.Errorf("%v", err)
	}
	if _, _, err = read(strings.NewReader("PK\x03\x04 and more than enough")); !errors.Is(err, store.ErrDamaged) || !strings.Contains(err.Error(), "no export") {
		t.Errorf("%v", err)
	}
}

func TestAPieceAboveItsLimitIsNeitherWrittenNorRead(t *testing.T) {
	largest := &store.Item{
		Space: strings.Repeat("s", store.MaxSpace), Queue: strings.Repeat("q", store.MaxName), ID: strings.Repeat("i", store.MaxName),
		Mark: strings.Repeat("m", store.MaxName), Owner: strings.Repeat("o", store.MaxOwner), Data: make([]byte, store.MaxValue),
		Number: math.MaxInt64, Due: math.MaxInt64, Expires: math.MaxInt64, Keep: math.MaxInt64,
	}
	pieces, _, err := read(bytes.NewReader(write(t, []store.Piece{largest})))
	if err != io.EOF || len(pieces) != 1 {
		t.Errorf("the largest item: %v", err)
	}
	largest.Data = append(largest.Data, 0)
	err = archive.NewWriter(io.Discard).Write(largest)
	if !errors.Is(err, store.ErrTooLarge) {
		t.Errorf("an octet more: %v", err)
	}
}

func TestAnErrorOfTheSourceIsNoDamage(t *testing.T) {
	broken := errors.New("broken")
	file := write(t, all)
	for n := range file {
		_, _, err := read(io.MultiReader(bytes.NewReader(file[:n]), iotest.ErrReader(broken)))
		if !errors.Is(err, broken) || errors.Is(err, store.ErrDamaged) {
			t.Fatalf("after %d octets: %v", n, err)
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("swp-store-export 1\n"))
	var file bytes.Buffer
	w := archive.NewWriter(&file)
	_ = w.Begin("section")
	for _, p := range all {
		_ = w.Write(p)
	}
	_ = w.Close()
	_ = w.End()
	f.Add(file.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, _, err := read(bytes.NewReader(b)); err == nil {
			t.Error("it does not end")
		}
	})
}

// digestOf returns the digest of pieces.
func digestOf(pieces ...store.Piece) *archive.Digest {
	d := new(archive.Digest)
	d.Begin("section")
	for _, p := range pieces {
		d.Add(p)
	}
	return d
}

func TestADigestDependsOnEachFieldAndNotOnTheEngine(t *testing.T) {
	whole := digestOf(all...).Sum()
	octets := all[len(all)-1].(*store.Octets).Data
	cut := append(all[1:len(all)-1:len(all)-1], &store.Octets{Data: octets[:7]}, &store.Octets{Data: octets[7:]})
	if got := digestOf(cut...).Sum(); got != whole {
		t.Errorf("with octets in two pieces, and without counters: %s, want %s", got, whole)
	}
	var file bytes.Buffer
	for _, p := range digestOf(all...).Parts() {
		_, _ = fmt.Fprintln(&file, p.Name, p.Pieces)
	}
	const want = "section: records of space 1\nsection: records of  1\nsection: logs of space 2\nsection: queues of space 1\nsection: blobs 1\n"
	if file.String() != want {
		t.Errorf("the parts are %q, want %q", file.String(), want)
	}
	seen := map[string]string{"": digestOf().Sum(), "all": whole}
	for i, p := range all[1:] {
		rest := append(all[1:i+1:i+1], all[i+2:]...)
		if i < len(all)-2 { // octets cannot be without their blob
			seen[fmt.Sprintf("without %T %d", p, i)] = digestOf(rest...).Sum()
		}
		fields := reflect.ValueOf(p).Elem()
		for f := range fields.NumField() {
			changed := append([]store.Piece(nil), all[1:]...)
			other := reflect.New(fields.Type())
			other.Elem().Set(fields)
			switch v := other.Elem().Field(f); v.Kind() {
			case reflect.String:
				v.SetString(v.String() + "x")
			case reflect.Uint64:
				v.SetUint(v.Uint() ^ 1)
			case reflect.Bool:
				v.SetBool(!v.Bool())
			default:
				v.SetBytes(append(v.Bytes()[:v.Len():v.Len()], 'x'))
			}
			changed[i] = other.Interface().(store.Piece)
			seen[fmt.Sprintf("%T %d with another %s", p, i, fields.Type().Field(f).Name)] = digestOf(changed...).Sum()
		}
	}
	by := make(map[string]string)
	for what, sum := range seen {
		if by[sum] != "" {
			t.Errorf("%s and %s have the same digest", what, by[sum])
		}
		by[sum] = what
	}
	if len(seen) < 40 {
		t.Errorf("only %d digests were compared", len(seen))
	}
}
