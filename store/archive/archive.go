// Package archive is the file of an export: the pieces of package store, checked and in sections.
//
//	file    := "swp-store-export 1\n" section* end
//	section := begin piece* close
//
// begin, piece, close and end are records. A record is a frame of package frame, whose body is
// a CRC-32C of 4 octets, the kind of the record in one octet, and its fields. The checksum
// covers the place of the record in the file (its number from 0 as 8 octets), the kind and the
// fields. Fields are uvarints, texts after their length, and flags of one octet; fields lists
// them. close and end have the SHA-256 of all octets before them: a reader knows that a section,
// or the file, is complete.
package archive

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"

	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/store"
)

const magic = "swp-store-export 1\n"

// Kinds of records besides those of pieces.
const (
	kindBegin = 'b' // of a section, with its name
	kindClose = 'c' // of a section
	kindEnd   = 'z' // of the file
)

// MaxSection limits the name of a section, in octets.
const MaxSection = 64

const (
	sumSize = 4

	// maxBody is the largest body of a record: a value, and the names of an item.
	maxBody = store.MaxValue + 16<<10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum is the checksum of a record.
func sum(number uint64, content []byte) uint32 {
	var place [8]byte
	binary.BigEndian.PutUint64(place[:], number)
	return crc32.Update(crc32.Checksum(place[:], castagnoli), castagnoli, content)
}

// pieces makes an empty piece of each kind.
var pieces = map[byte]func() store.Piece{
	's': func() store.Piece { return new(store.Start) },
	'r': func() store.Piece { return new(store.Record) },
	'l': func() store.Piece { return new(store.Log) },
	'e': func() store.Piece { return new(store.LogEntry) },
	'i': func() store.Piece { return new(store.Item) },
	'f': func() store.Piece { return new(store.Blob) },
	'o': func() store.Piece { return new(store.Octets) },
}

// visitor writes or reads fields.
type visitor interface {
	number(*uint64)
	flag(*bool)
	text(*string)
	octets(*[]byte)
}

// fields passes the fields of a piece, in the order of the file, and returns its kind.
func fields(v visitor, p store.Piece) (kind byte) {
	texts := func(all ...*string) {
		for _, text := range all {
			v.text(text)
		}
	}
	numbers := func(all ...*uint64) {
		for _, n := range all {
			v.number(n)
		}
	}
	switch p := p.(type) {
	case *store.Start:
		numbers(&p.Clock, &p.Versions, &p.Items)
		return 's'
	case *store.Record:
		texts(&p.Space, &p.Key, &p.Owner)
		numbers(&p.Version, &p.Expires)
		v.octets(&p.Value)
		return 'r'
	case *store.Log:
		texts(&p.Space, &p.Name, &p.Owner)
		numbers(&p.Last)
		return 'l'
	case *store.LogEntry:
		numbers(&p.Seq, &p.Expires)
		texts(&p.ID, &p.Owner)
		v.octets(&p.Data)
		return 'e'
	case *store.Item:
		texts(&p.Space, &p.Queue, &p.ID, &p.Mark, &p.Owner)
		v.flag(&p.Done)
		numbers(&p.Number, &p.Lease, &p.Tries, &p.Due, &p.Expires, &p.Keep)
		v.octets(&p.Data)
		return 'i'
	case *store.Blob:
		texts(&p.Name, &p.Owner)
		numbers(&p.Version, &p.Mark, &p.Changed, &p.Expires, &p.Idle, &p.Size)
		v.octets(&p.Tag)
		v.octets(&p.Note)
		return 'f'
	case *store.Octets:
		v.octets(&p.Data)
		return 'o'
	}
	return 0
}

// Writer writes a file. It is not safe for concurrent use.
type Writer struct {
	out    *bufio.Writer
	hash   hash.Hash
	number uint64
	size   int64
	buf    []byte
	err    error
}

// NewWriter returns a Writer, which writes to w.
func NewWriter(w io.Writer) *Writer {
	out := &Writer{out: bufio.NewWriterSize(w, 64<<10), hash: sha256.New()}
	out.put([]byte(magic))
	return out
}

// Size returns the octets of the file so far.
func (w *Writer) Size() int64 { return w.size }

func (w *Writer) put(b []byte) {
	if w.err != nil {
		return
	}
	_, _ = w.hash.Write(b) // never fails
	_, w.err = w.out.Write(b)
	w.size += int64(len(b))
}

// record writes a record whose kind and fields are in w.buf after room for the checksum.
func (w *Writer) record(body []byte) error {
	binary.BigEndian.PutUint32(body, sum(w.number, body[sumSize:]))
	w.number++
	w.put(frame.AppendHeader(make([]byte, 0, frame.HeaderSize), len(body)))
	w.put(body)
	return w.err
}

// start returns an empty body of a record.
func (w *Writer) start(kind byte) []byte {
	w.buf = append(w.buf[:0], 0, 0, 0, 0, kind)
	return w.buf
}

// Begin begins a section.
func (w *Writer) Begin(name string) error {
	if len(name) > MaxSection {
		return fmt.Errorf("archive: the name of a section has %d octets, limit %d", len(name), MaxSection)
	}
	return w.record(append(w.start(kindBegin), name...))
}

// Write writes a piece of the section that was begun.
func (w *Writer) Write(p store.Piece) error {
	if err := p.Check(); err != nil {
		return err
	}
	e := encoder(w.start(0))
	e[sumSize] = fields(&e, p)
	w.buf = e
	return w.record(e)
}

// Close ends the section that was begun.
func (w *Writer) Close() error { return w.record(w.hash.Sum(w.start(kindClose))) }

// End ends the file and writes what is buffered.
func (w *Writer) End() error {
	if err := w.record(w.hash.Sum(w.start(kindEnd))); err != nil {
		return err
	}
	return w.out.Flush()
}

// encoder writes fields.
type encoder []byte

func (e *encoder) number(n *uint64) { *e = binary.AppendUvarint(*e, *n) }
func (e *encoder) text(s *string)   { *e = append(binary.AppendUvarint(*e, uint64(len(*s))), *s...) }
func (e *encoder) octets(b *[]byte) { *e = append(binary.AppendUvarint(*e, uint64(len(*b))), *b...) }
func (e *encoder) flag(set *bool) {
	n := byte(0)
	if *set {
		n = 1
	}
	*e = append(*e, n)
}

// Reader reads a file, and refuses a file that differs from the written one in any octet. The
// error is store.ErrDamaged, with the number of the record and the position of its first octet;
// store.ErrVersion for another format; or the error of the source. It is not safe for concurrent
// use.
type Reader struct {
	in     *bufio.Reader
	frames *frame.Reader
	hash   hash.Hash
	number uint64
	at     int64 // where the next record begins
	inside bool  // of a section
	err    error // the first; io.EOF after the end
}

// NewReader returns a Reader of r.
func NewReader(r io.Reader) *Reader {
	in := bufio.NewReaderSize(r, 4<<10)
	return &Reader{in: in, frames: frame.NewReader(in, frame.Options{Limit: maxBody}), hash: sha256.New()}
}

// Size returns the octets of the file that were read.
func (r *Reader) Size() int64 { return r.at }

func (r *Reader) damaged(format string, args ...any) error {
	return fmt.Errorf("%w: record %d of the export, at octet %d: %w", store.ErrDamaged, r.number, r.at, fmt.Errorf(format, args...))
}

// begin reads the name of the format.
func (r *Reader) begin() error {
	b := make([]byte, len(magic))
	n, err := io.ReadFull(r.in, b)
	stem := magic[:len(magic)-2]
	switch {
	case err != nil && err != io.EOF && err != io.ErrUnexpectedEOF:
		return err
	case string(b) == magic:
	case n == len(b) && bytes.HasPrefix(b, []byte(stem)):
		return fmt.Errorf("%w: the export has format %q, want %q", store.ErrVersion, b, magic)
	case n == 0:
		return fmt.Errorf("%w: this is no export of a store: it is empty", store.ErrDamaged)
	default:
		return fmt.Errorf("%w: this is no export of a store: it does not begin with %q", store.ErrDamaged, stem)
	}
	_, _ = r.hash.Write(b) // never fails
	r.at = int64(len(b))
	return nil
}

// record returns the kind and the fields of the next record, valid until the next call.
func (r *Reader) record() (kind byte, content []byte, err error) {
	if r.at == 0 {
		if err := r.begin(); err != nil {
			return 0, nil, err
		}
	}
	body, err := r.frames.Next()
	switch {
	case err == io.EOF, errors.Is(err, frame.ErrTruncated):
		return 0, nil, r.damaged("the export ends here, without its end")
	case unframed(err):
		return 0, nil, r.damaged("%w", err)
	case err != nil:
		return 0, nil, err
	case len(body) <= sumSize || binary.BigEndian.Uint32(body) != sum(r.number, body[sumSize:]):
		return 0, nil, r.damaged("it does not fit its checksum")
	}
	kind, content = body[sumSize], body[sumSize+1:]
	if (kind == kindClose || kind == kindEnd) && !bytes.Equal(content, r.hash.Sum(nil)) {
		return 0, nil, r.damaged("what is before it does not fit its digest")
	}
	_, _ = r.hash.Write(frame.AppendHeader(make([]byte, 0, frame.HeaderSize), len(body)))
	_, _ = r.hash.Write(body)
	return kind, content, nil
}

// unframed reports whether octets that were read are no frame.
func unframed(err error) bool {
	_, large := errors.AsType[*frame.TooLargeError](err)
	return large || errors.Is(err, frame.ErrTruncated) || errors.Is(err, frame.ErrZeroLength)
}

func (r *Reader) passed(content []byte) {
	r.number++
	r.at += int64(frame.HeaderSize + sumSize + 1 + len(content))
}

// Section returns the name of the next section. The error is io.EOF after the last one; the file
// is then whole. The pieces of the section before must have been read.
func (r *Reader) Section() (name string, err error) {
	if r.err == nil {
		name, r.err = r.section()
	}
	return name, r.err
}

func (r *Reader) section() (string, error) {
	kind, content, err := r.record()
	switch {
	case err != nil:
		return "", err
	case kind == kindBegin && len(content) <= MaxSection && !r.inside:
		r.passed(content)
		r.inside = true
		return string(content), nil
	case kind != kindEnd || r.inside:
		return "", r.damaged("a record of kind %q, want the beginning of a section, or the end", kind)
	}
	r.passed(content)
	switch _, err := r.frames.Next(); {
	case err == io.EOF:
		return "", io.EOF
	case err == nil, unframed(err):
		return "", r.damaged("something follows the end")
	default:
		return "", err
	}
}

// Next returns the next piece of the section. The error is io.EOF at its end; the section is then
// whole. The octets of a piece are valid until the next call.
func (r *Reader) Next() (store.Piece, error) {
	if r.err != nil {
		return nil, r.err
	}
	if !r.inside {
		return nil, io.EOF
	}
	p, err := r.piece()
	if err != nil && err != io.EOF {
		r.err = err
	}
	return p, err
}

func (r *Reader) piece() (store.Piece, error) {
	kind, content, err := r.record()
	if err != nil {
		return nil, err
	}
	if kind == kindClose {
		r.passed(content)
		r.inside = false
		return nil, io.EOF
	}
	empty := pieces[kind]
	if empty == nil {
		return nil, r.damaged("a record of kind %q, want a piece", kind)
	}
	p, d := empty(), decoder{rest: content}
	fields(&d, p)
	if d.failed || len(d.rest) > 0 {
		return nil, r.damaged("its fields cannot be read")
	}
	if err := p.Check(); err != nil {
		return nil, r.damaged("%w", err)
	}
	r.passed(content)
	return p, nil
}

// decoder reads fields.
type decoder struct {
	rest   []byte
	failed bool
}

func (d *decoder) number(to *uint64) {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 {
		d.failed, d.rest = true, nil
		return
	}
	*to, d.rest = n, d.rest[size:]
}

func (d *decoder) flag(to *bool) {
	if len(d.rest) == 0 || d.rest[0] > 1 {
		d.failed, d.rest = true, nil
		return
	}
	*to, d.rest = d.rest[0] == 1, d.rest[1:]
}

func (d *decoder) octets(to *[]byte) {
	var n uint64
	if d.number(&n); n > uint64(len(d.rest)) {
		d.failed, d.rest = true, nil
		return
	}
	*to, d.rest = d.rest[:n:n], d.rest[n:]
}

func (d *decoder) text(to *string) {
	var b []byte
	d.octets(&b)
	*to = string(b)
}
