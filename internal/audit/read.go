package audit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Entry is a record that was read from a trail, of an exchange or of the trail itself.
type Entry struct {
	Time      time.Time     `json:"@timestamp"`
	Action    string        `json:"event.action"`
	Took      time.Duration `json:"event.duration"`
	Sequence  uint64        `json:"event.sequence"`
	Identity  string        `json:"user.id"`
	For       string        `json:"swp.for"`
	Profile   string        `json:"swp.profile"`
	Operation string        `json:"swp.operation"`
	Name      string        `json:"swp.name"`
	Partner   string        `json:"swp.partner"`
	Rule      string        `json:"rule.id"`
	Outcome   string        `json:"swp.outcome"`
	Times     uint64        `json:"swp.times"` // of denials that share the record; else 0
	In        uint64        `json:"source.bytes"`
	Out       uint64        `json:"destination.bytes"`

	Of     uint64 `json:"swp.of"`       // of a finding: the sequence of the record that it is about
	Reason string `json:"event.reason"` // of a finding, or of a denial that no rule decided

	Other      string `json:"destination.user.id"` // of an exchange that was sent: the partner
	MsgID      string `json:"swp.msg_id"`          // hexadecimal, as the sums
	ProfileID  uint64 `json:"swp.profile_id"`
	MsgType    uint64 `json:"swp.msg_type"`
	AnswerType uint64 `json:"swp.answer.type"`
	Request    string `json:"swp.request.sha256"`
	Answer     string `json:"swp.answer.sha256"`
	Caller     string `json:"swp.caller.sha256"`
	Target     string `json:"swp.target.sha256"`
	Incomplete bool   `json:"swp.incomplete"`
	Receipt    []byte `json:"swp.receipt"` // of a partner, without its certificates
	Signer     string `json:"swp.audit.certificate.sha256"`

	Claimed string `json:"swp.audit.identity"` // of a checkpoint: the identity that it says it is of

	Line []byte `json:"-"` // the line in the file, without the line feed
}

// Exchange reports whether the entry is about an exchange, not about the trail itself.
func (e *Entry) Exchange() bool {
	return slices.Contains(Actions(), e.Action)
}

// Actions returns every event.action of an entry that is about an exchange.
func Actions() []string {
	return []string{actionExchange, actionBegin, actionSent, OfReceipt + findingSuffix, OfPin + findingSuffix}
}

// Sent reports whether this endpoint has opened the exchange at a partner.
func (e *Entry) Sent() bool { return e.Action == actionSent }

// Finding reports whether the entry says that something is wrong with the receipts or the pinned tools of a partner.
func (e *Entry) Finding() bool { return strings.HasSuffix(e.Action, findingSuffix) }

// Crossed returns the statement of this endpoint about an exchange between partners; false
// if there are no receipts for the exchange.
func (e *Entry) Crossed() (x Exchange, ok bool) {
	if e.MsgID == "" || e.Action != actionExchange && e.Action != actionSent {
		return x, false
	}
	id, err := hex.DecodeString(e.MsgID)
	x = Exchange{
		Asked: e.Sent(), Complete: !e.Incomplete, MsgID: id, ProfileID: e.ProfileID, MsgType: e.MsgType, AnswerType: e.AnswerType,
		Began: e.Time.Add(-e.Took), Ended: e.Time,
	}
	for _, row := range []struct {
		to   *Sum
		text string
	}{{&x.Request, e.Request}, {&x.Answer, e.Answer}, {&x.Caller, e.Caller}, {&x.Target, e.Target}} {
		if len(row.text) == 2*len(row.to) {
			_, failed := hex.Decode(row.to[:], []byte(row.text))
			err = errors.Join(err, failed)
		}
	}
	return x, err == nil
}

// Exchanged yields what receipts are about in the last octets of a trail, about, oldest first:
// exchanges between partners, receipts, and findings about exchanges. What cannot be read is
// skipped. The Line of an Entry is valid until the next one.
func Exchanged(ctx context.Context, dir string, octets int64) iter.Seq[*Entry] {
	return latest(ctx, dir, octets, exchanged)
}

// Latest yields the entries in the last octets of a trail, about, oldest first. It skips unreadable
// lines. The Line of an Entry is valid until the next one.
func Latest(ctx context.Context, dir string, octets int64) iter.Seq[*Entry] {
	return latest(ctx, dir, octets, nil)
}

func latest(ctx context.Context, dir string, octets int64, wants func(text []byte) bool) iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		list, err := segments(dir)
		if err != nil {
			return
		}
		from := len(list)
		for ; from > 0 && octets > 0; from-- {
			octets -= list[from-1].size
		}
		r := reader{ctx: ctx, dir: dir, skip: max(0, -octets), wants: wants, yield: func(e *Entry, _ error) bool { return yield(e) }}
		for _, s := range list[from:] {
			if r.segment(s.number) != nil {
				return
			}
			r.skip = 0
		}
	}
}

// exchanged reports whether a line may have an entry of Exchanged. Most have none, and need
// not be parsed.
func exchanged(text []byte) bool {
	return bytes.Contains(text, []byte(`,"swp.msg_id":"`)) || bytes.Contains(text, []byte(`,"swp.receipt":"`)) || bytes.Contains(text, []byte(`,"swp.outcome":"`+OfReceipt+`:`))
}

// Field is a field of an Entry by which entries are searched.
type Field struct {
	Name string
	Of   func(*Entry) string
}

// Fields returns the fields by which entries are searched.
func Fields() []Field {
	return []Field{
		{"identity", func(e *Entry) string { return e.Identity + e.Other }},
		{"for", func(e *Entry) string { return e.For }},
		{"profile", func(e *Entry) string { return e.Profile }},
		{"operation", func(e *Entry) string { return e.Operation }},
		{"name", func(e *Entry) string { return e.Name }},
		{"partner", func(e *Entry) string { return e.Partner }},
		{"action", func(e *Entry) string { return e.Action }},
		{"outcome", func(e *Entry) string { return e.Outcome }},
	}
}

// Begins reports whether the exchange was unfinished.
func (e *Entry) Begins() bool { return e.Action == actionBegin }

// Entries reads a trail, oldest entry first; the trail may be in use. With follow it
// continues with new entries until ctx ends. Lines that are not records are skipped; use
// Verify to find them. The Line of an Entry is valid until the next one.
func Entries(ctx context.Context, dir string, follow bool) iter.Seq2[*Entry, error] {
	return func(yield func(*Entry, error) bool) {
		r := reader{ctx: ctx, dir: dir, follow: follow, yield: yield}
		if err := r.run(); err != nil && !errors.Is(err, errEnough) {
			yield(nil, err)
		}
	}
}

// poll is the interval of checks for new entries.
const poll = 250 * time.Millisecond

// errEnough ends the reading when the caller stops.
var errEnough = errors.New("audit: enough")

type reader struct {
	ctx    context.Context
	dir    string
	follow bool
	skip   int64                  // octets at the beginning of the segment, up to the next line
	wants  func(line []byte) bool // nil: every line
	yield  func(*Entry, error) bool
}

// run reads the segments in order.
func (r *reader) run() error {
	for next := 0; ; next++ {
		number, err := r.after(next)
		if err != nil || number == 0 {
			return err
		}
		next = number
		if err := r.segment(number); err != nil {
			return err
		}
	}
}

// after returns the first segment from next on, or 0.
func (r *reader) after(next int) (int, error) {
	list, err := segments(r.dir)
	if err != nil {
		return 0, fmt.Errorf("audit: %w", err)
	}
	for _, s := range list {
		if s.number >= next {
			return s.number, nil
		}
	}
	return 0, nil
}

// segment reads a segment to its end. With follow it waits at the end of the last segment.
func (r *reader) segment(number int) error {
	f, err := os.Open(filepath.Join(r.dir, segmentName(number)))
	if errors.Is(err, os.ErrNotExist) { // removed in the meantime because of the size limit
		return nil
	}
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	defer f.Close()
	if _, err := f.Seek(r.skip, io.SeekStart); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	in := bufio.NewReaderSize(f, maxLine)
	var half []byte // start of a line that is being written
	over := false   // the segment is complete
	for {
		text, err := nextLine(in)
		half = append(half, text...)
		switch {
		case err == nil:
			if err := r.line(half); err != nil {
				return err
			}
			half = half[:0]
		case errors.Is(err, errLong):
			half = half[:0]
		case !errors.Is(err, io.EOF):
			return fmt.Errorf("audit: %w", err)
		case over:
			return nil
		default:
			if over, err = r.wait(number); err != nil {
				return err
			}
		}
	}
}

// errLong means that a line is longer than any record.
var errLong = errors.New("audit: a line that is too long")

// nextLine returns a line without its line feed, valid until the next read; with io.EOF
// what follows the last line feed. errLong means that it skipped a line that does not fit
// into the buffer of in.
func nextLine(in *bufio.Reader) ([]byte, error) {
	text, err := in.ReadSlice('\n')
	if err == nil {
		return text[:len(text)-1], nil
	}
	if !errors.Is(err, bufio.ErrBufferFull) {
		return text, err
	}
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = in.ReadSlice('\n')
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = errLong
	}
	return nil, err
}

// wait is called at the end of a segment. over reports that the segment is complete.
func (r *reader) wait(number int) (over bool, err error) {
	if !r.follow {
		return true, nil
	}
	next, err := r.after(number + 1)
	if err != nil || next > 0 {
		return true, err
	}
	select {
	case <-r.ctx.Done():
		return true, errEnough
	case <-time.After(poll):
		return false, nil
	}
}

func (r *reader) line(text []byte) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	if r.wants != nil && !r.wants(text) {
		return nil
	}
	e := new(Entry)
	if _, ok := parse(text); !ok || json.Unmarshal(text, e) != nil {
		return nil
	}
	if e.Line = text; !r.yield(e, nil) {
		return errEnough
	}
	return nil
}

// Export copies the complete segments with entries from from to until into an empty
// directory, so that Verify can check them. It returns their number.
func Export(ctx context.Context, dir, to string, from, until time.Time) (int, error) {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return 0, fmt.Errorf("audit: %w", err)
	}
	if there, err := os.ReadDir(to); err != nil || len(there) > 0 {
		return 0, errors.Join(err, fmt.Errorf("audit: %s is not empty", to))
	}
	list, err := segments(dir)
	if err != nil {
		return 0, fmt.Errorf("audit: %w", err)
	}
	n := 0
	for i, s := range list {
		begins, err := firstTime(filepath.Join(dir, segmentName(s.number)))
		if err != nil {
			return n, err
		}
		ends := time.Time{}
		if i+1 < len(list) {
			if ends, err = firstTime(filepath.Join(dir, segmentName(list[i+1].number))); err != nil {
				return n, err
			}
		}
		if begins.After(until) || !ends.IsZero() && ends.Before(from) {
			continue
		}
		if err := copyFile(ctx, filepath.Join(dir, segmentName(s.number)), filepath.Join(to, segmentName(s.number))); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// firstTime returns the time of the first record of a segment.
func firstTime(path string) (time.Time, error) {
	f, err := os.Open(path)
	if err != nil {
		return time.Time{}, fmt.Errorf("audit: %w", err)
	}
	defer f.Close()
	text, err := nextLine(bufio.NewReaderSize(f, maxLine))
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, errLong) {
		return time.Time{}, fmt.Errorf("audit: %w", err)
	}
	var e Entry
	_ = json.Unmarshal(text, &e) // a damaged record without a time counts as old
	return e.Time, nil
}

func copyFile(ctx context.Context, from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Sync(), out.Close(), ctx.Err()); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return nil
}
