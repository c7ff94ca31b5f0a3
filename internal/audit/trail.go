package audit

import (
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/internal/disk"
)

// Options configure Open.
type Options struct {
	Dir string // created if missing

	// Size limits the octets of all segments, see Bound.
	Size int64

	// Identity and Certificate describe the endpoint. The key of the certificate
	// signs checkpoints.
	Identity    func() string
	Certificate func() *tls.Certificate

	// Failed is called with an error when writing fails, and with nil when it works again.
	// It must not block.
	Failed func(error)
}

// Limits of a trail.
const (
	defaultSize = 1 << 30
	fewest      = 16       // segments that fill Size
	maxPending  = 1 << 20  // octets of pending records while the disk fails
	maxSegment  = 64 << 20 // octets, about

	flushEvery      = time.Second // interval of writing and syncing
	checkpointEvery = time.Minute
)

// Trail is an open trail. Append, Commit and Err are safe for concurrent use.
type Trail struct {
	o    Options
	lock *disk.Lock
	each atomic.Bool // Commit syncs
	size atomic.Int64

	appended, committed atomic.Uint64 // sequence of the last record in buf, and in the file
	failure             atomic.Pointer[error]

	mu    sync.Mutex // guards the following fields; held only while a record is added
	chain chain
	clock clock
	buf   []byte // sealed lines that are not written yet
	spare []byte
	lost  uint64 // records dropped for lack of room

	file    sync.Mutex // guards the following fields; held during disk operations; locked before mu
	f       *os.File
	number  int
	written int64 // octets of the segment
	dirty   bool  // not synced yet
	known   string
	theirs  map[string]bool // certificates of partners in the segment, by fingerprint
	signed  uint64          // sequence of the last checkpoint
	due     time.Time

	wake chan struct{}
	stop chan struct{}
	done chan struct{}
}

// Open continues the trail in a directory, or starts one. It fails if another Trail, of this
// process or another, has the directory.
func Open(o Options) (_ *Trail, err error) {
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	lock, err := disk.Acquire(filepath.Join(o.Dir, "lock"))
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	defer func() {
		if err != nil {
			_ = lock.Close()
		}
	}()
	t := &Trail{o: o, lock: lock, wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	t.Bound(o.Size)
	if err := t.resume(); err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	t.note(time.Now(), actionStart, func(l line) line { return l.text("swp.audit.identity", t.o.Identity()) })
	if err := t.sign(); err != nil {
		return nil, errors.Join(fmt.Errorf("audit: %w", err), t.f.Close())
	}
	go t.run()
	return t, nil
}

// resume finds the end of the trail.
func (t *Trail) resume() error {
	list, err := segments(t.o.Dir)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return t.begin(1)
	}
	last := list[len(list)-1]
	path := filepath.Join(t.o.Dir, segmentName(last.number))
	end, err := readEnding(path)
	s := end.last
	if errors.Is(err, errNoRecord) && len(list) > 1 {
		var before ending
		before, err = readEnding(filepath.Join(t.o.Dir, segmentName(list[len(list)-2].number)))
		s = before.last
	}
	if errors.Is(err, errNoRecord) && last.number == 1 {
		err = nil // the process ended before the first record was complete
	}
	if err != nil {
		return fmt.Errorf("%s: %w; move the directory away to begin a new trail", path, err)
	}
	t.chain.sequence, t.chain.hash = s.sequence, s.hash
	t.appended.Store(s.sequence)
	t.committed.Store(s.sequence)
	if !end.damaged {
		if err := os.Truncate(path, end.line); err != nil { // half a line; its exchange was not answered
			return err
		}
	}
	if end.damaged || end.line != end.record { // lines that nobody wrote here: Verify has to find them
		return t.begin(last.number + 1)
	}
	t.number, t.written = last.number, end.line
	if t.f, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
		return err
	}
	return nil
}

// begin starts a segment. The caller holds file, or is the only user of the trail.
func (t *Trail) begin(number int) error {
	path := filepath.Join(t.o.Dir, segmentName(number))
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := disk.SyncDir(t.o.Dir); err != nil {
		return errors.Join(err, f.Close(), os.Remove(path))
	}
	if t.f != nil {
		err = t.f.Close()
	}
	t.f, t.number, t.written = f, number, 0
	t.known, t.theirs = "", nil // each segment contains the certificates of its signatures
	return err
}

// Append adds the record of an exchange, and returns its sequence. Commit writes it.
func (t *Trail) Append(r *Record) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.buf) > maxPending {
		t.lost++
		return 0
	}
	begins := len(t.buf)
	t.buf = t.chain.seal(r.open(&t.clock, t.buf), begins)
	t.appended.Store(t.chain.sequence)
	return t.chain.sequence
}

// Receipt writes a receipt of a partner, which the caller has verified, and returns its
// sequence. It waits for the disk.
func (t *Trail) Receipt(partner string, r *Receipt) (uint64, error) {
	t.file.Lock()
	defer t.file.Unlock()
	if err := t.Err(); err != nil {
		return 0, err
	}
	name, now := fingerprint(r.Chain[0]), time.Now()
	bare := *r
	bare.Chain = nil
	t.mu.Lock()
	if !t.theirs[name] {
		t.add(newLine(nil, now, actionCertificate).list("swp.audit.certificates", encoded(r.Chain)))
	}
	t.add(newLine(nil, now, actionReceipt).text("user.id", r.Signer).text("swp.partner", partner).number("swp.receipt.number", r.Number).
		number("swp.receipt.exchanges", uint64(len(r.Exchanges))).text("swp.audit.certificate.sha256", name).
		text("swp.receipt", base64.StdEncoding.EncodeToString(bare.Append(nil))))
	sequence := t.chain.sequence
	t.mu.Unlock()
	t.flush()
	if t.theirs == nil {
		t.theirs = make(map[string]bool)
	}
	t.theirs[name] = true
	return sequence, t.Err()
}

// Subjects of findings about a partner.
const (
	OfReceipt = "receipt"
	OfPin     = "pin"
)

// PartnerFinding is something wrong with the receipts or the pinned tools of a partner.
type PartnerFinding struct {
	About             string // OfReceipt or OfPin
	Partner, Identity string
	What              string // one word, such as differs
	Text              string
	Tool              string // of OfPin
	Of                uint64 // sequence of the record of the exchange; 0: there is none
	MsgID             []byte
}

// Find adds a record of a finding. Commit writes it.
func (t *Trail) Find(f *PartnerFinding) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.buf) > maxPending {
		t.lost++
		return
	}
	l := newLine(nil, time.Now(), f.About+findingSuffix).text("event.outcome", "failure").text("user.id", f.Identity).text("swp.partner", f.Partner).
		text("swp.name", f.Tool).text("swp.outcome", f.About+":"+f.What).text("event.reason", f.Text)
	if f.Of > 0 {
		l = l.number("swp.of", f.Of)
	}
	if len(f.MsgID) > 0 {
		l = l.octets("swp.msg_id", f.MsgID)
	}
	t.add(l)
}

// encoded returns certificates in base64.
func encoded(chain [][]byte) (list []string) {
	for _, der := range chain {
		list = append(list, base64.StdEncoding.EncodeToString(der))
	}
	return list
}

// note adds a record that is not an exchange.
func (t *Trail) note(at time.Time, action string, more func(line) line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(more(newLine(nil, at, action)))
}

// add adds a line. The caller holds mu, or is the only user of the trail.
func (t *Trail) add(l line) {
	t.buf = append(t.buf, t.chain.seal(l, 0)...)
	t.appended.Store(t.chain.sequence)
}

// Each sets whether Commit syncs, so that records survive a power cut. Without it, records
// are synced within a second.
func (t *Trail) Each(durable bool) { t.each.Store(durable) }

// Bound limits the octets of all segments; 0 means 1 GiB. When the current segment is full,
// the oldest ones are removed; the current one stays.
func (t *Trail) Bound(size int64) {
	if size == 0 {
		size = defaultSize
	}
	t.size.Store(size)
}

// Size returns the limit of Bound.
func (t *Trail) Size() int64 { return t.size.Load() }

// Err returns the reason why records cannot be written; nil if they can.
func (t *Trail) Err() error {
	if err := t.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// Commit writes the records appended before the call, which then survive the end of the
// process. If that fails, Err returns the reason until the records are written; writing is
// retried once a second.
func (t *Trail) Commit() {
	if t.committed.Load() >= t.appended.Load() {
		return
	}
	t.file.Lock()
	defer t.file.Unlock()
	if t.Err() == nil {
		t.flush()
	}
}

// flush writes pending lines. The caller holds file.
func (t *Trail) flush() {
	t.mu.Lock()
	t.noteLost()
	buf, upto := t.buf, t.chain.sequence
	t.buf, t.spare = t.spare[:0], nil
	t.mu.Unlock()
	n, err := t.f.Write(buf)
	t.written += int64(n)
	t.dirty = t.dirty || n > 0
	if err == nil && (t.each.Load() || t.Err() != nil) { // after a failure it works when a sync succeeds
		err = t.sync()
	}
	t.mu.Lock()
	if n < len(buf) { // the rest is written first next time
		t.buf = append(buf[n:len(buf):len(buf)], t.buf...)
	} else {
		t.spare = buf[:0]
	}
	t.mu.Unlock()
	t.say(err)
	if n == len(buf) {
		t.committed.Store(upto)
	}
	if t.written >= t.segmentSize() {
		select {
		case t.wake <- struct{}{}:
		default:
		}
	}
}

// noteLost adds a record with the number of dropped records. The caller holds mu.
func (t *Trail) noteLost() {
	if n := t.lost; n > 0 && len(t.buf) <= maxPending {
		t.lost = 0
		t.add(newLine(nil, time.Now(), actionLost).number("swp.audit.lost", n))
	}
}

// say records whether writing works.
func (t *Trail) say(err error) {
	failed := t.failure.Load() != nil
	switch {
	case err != nil:
		err = fmt.Errorf("audit: %w", err)
		t.failure.Store(&err)
	case failed:
		t.failure.Store(nil)
	}
	if failed != (err != nil) {
		t.o.Failed(err)
	}
}

func (t *Trail) sync() error {
	if !t.dirty {
		return nil
	}
	if err := t.f.Sync(); err != nil {
		return err
	}
	t.dirty = false
	return nil
}

func (t *Trail) segmentSize() int64 { return min(max(t.size.Load()/fewest, 1), maxSegment) }

// run writes, syncs, signs and removes old segments until Close.
func (t *Trail) run() {
	defer close(t.done)
	ticker := time.NewTicker(flushEvery)
	defer ticker.Stop()
	for {
		select {
		case <-t.stop:
			return
		case <-t.wake:
		case <-ticker.C:
		}
		t.look()
	}
}

// look performs the tasks that are due.
func (t *Trail) look() {
	if err := t.write(); err != nil {
		return
	}
	// Commit does not wait for this sync. Only this goroutine closes the file.
	t.file.Lock()
	f, dirty := t.f, t.dirty
	t.dirty = false
	t.file.Unlock()
	if !dirty {
		return
	}
	if err := f.Sync(); err != nil {
		t.file.Lock()
		defer t.file.Unlock()
		t.dirty = true
		t.say(err)
	}
}

// write writes what is pending, and a checkpoint or a new segment if that is due.
func (t *Trail) write() (err error) {
	t.file.Lock()
	defer t.file.Unlock()
	if t.committed.Load() < t.appended.Load() || t.Err() != nil {
		t.flush()
	}
	switch err = t.Err(); {
	case err != nil:
		return err
	case t.written >= t.segmentSize():
		err = t.rotate()
	case t.appended.Load() > t.signed && !time.Now().Before(t.due):
		err = t.checkpoint()
	}
	if err != nil {
		t.say(err)
	}
	return err
}

// checkpoint signs the trail and writes the signature. The caller holds file.
func (t *Trail) checkpoint() error {
	cert := t.o.Certificate()
	name := fingerprint(cert.Certificate[0])
	t.mu.Lock()
	if name != t.known {
		t.add(newLine(nil, time.Now(), actionCertificate).list("swp.audit.certificates", encoded(cert.Certificate)))
	}
	identity, sequence, hash := t.o.Identity(), t.chain.sequence, t.chain.hash
	signature, err := sign(cert, signed(identity, sequence, hash)) // takes some 10 µs, once a minute
	if err == nil {
		t.add(newLine(nil, time.Now(), actionCheckpoint).text("swp.audit.identity", identity).
			text("swp.audit.certificate.sha256", name).text("swp.audit.signature", base64.StdEncoding.EncodeToString(signature)))
		t.known, t.signed, t.due = name, t.chain.sequence, time.Now().Add(checkpointEvery)
	}
	t.mu.Unlock()
	if err != nil {
		return err
	}
	t.flush()
	return t.Err()
}

// sign writes and syncs a checkpoint.
func (t *Trail) sign() error {
	t.file.Lock()
	defer t.file.Unlock()
	if err := t.checkpoint(); err != nil {
		return err
	}
	return t.sync()
}

// rotate ends a segment after a checkpoint, starts the next one, and removes the oldest
// beyond the size. The caller holds file.
func (t *Trail) rotate() error {
	if err := errors.Join(t.checkpoint(), t.sync()); err != nil {
		return err
	}
	if err := t.begin(t.number + 1); err != nil {
		return err
	}
	if err := t.removeOldest(); err != nil {
		return err
	}
	return t.checkpoint()
}

// removeOldest adds a record about the segments to remove, and removes them when the record
// is durable.
func (t *Trail) removeOldest() error {
	list, err := segments(t.o.Dir)
	if err != nil {
		return err
	}
	var sum int64
	for _, s := range list {
		sum += s.size
	}
	n := 0
	for ; n < len(list)-1 && sum > t.size.Load(); n++ {
		sum -= list[n].size
	}
	if n == 0 {
		return nil
	}
	end, err := readEnding(filepath.Join(t.o.Dir, segmentName(list[n-1].number)))
	if err != nil {
		return err
	}
	t.note(time.Now(), actionRemoved, func(l line) line {
		return l.number("swp.audit.segment", uint64(list[n-1].number)).number("swp.audit.last", end.last.sequence).sum("swp.audit.hash", end.last.hash)
	})
	t.flush()
	if err := errors.Join(t.Err(), t.sync()); err != nil {
		return err
	}
	for _, s := range list[:n] {
		err = errors.Join(err, os.Remove(filepath.Join(t.o.Dir, segmentName(s.number))))
	}
	return errors.Join(err, disk.SyncDir(t.o.Dir))
}

// Close signs, writes and closes the trail. Append nothing afterwards.
func (t *Trail) Close() error {
	close(t.stop)
	<-t.done
	err := t.sign()
	t.file.Lock()
	defer t.file.Unlock()
	return errors.Join(err, t.f.Close(), t.lock.Close())
}
