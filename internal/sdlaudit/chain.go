package sdlaudit

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/slimwire/swp/internal/disk"
	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
)

// maxLine limits an entry, in octets with its line feed.
const maxLine = 32 << 10

// counters is how many counters of octets there are for identities, which a hash assigns.
const counters = 4096

// Options configure Open.
type Options struct {
	Path string           // of the file; its directory is created if missing
	Size int64            // octets of the file, at most
	Now  func() time.Time // default time.Now

	// Failed is called with an error when entries can no longer be added, and with nil when
	// they can again. It must not call the Chain. It may be nil.
	Failed func(error)
}

// Chain is an open chain. It is safe for concurrent use.
type Chain struct {
	o    Options
	lock *disk.Lock
	cut  int64

	syncing sync.Mutex // held during a sync; locked before mu
	synced  uint64     // entries on the disk

	mu      sync.Mutex // guards the following fields
	f       *os.File
	end     int64           // octets of entries in the file
	last    canonical.Value // hash of the last entry, null if there is none
	added   uint64          // entries of this process
	failure error
	broken  bool            // the failure stays until the file is opened again
	tried   time.Time       // when Ready has last tried to write
	used    [counters]int64 // octets of this file, by identity, since it was opened
	seed    maphash.Seed
}

// ErrFull is the failure of a chain whose file has its size.
var ErrFull = errors.New("sdlaudit: the file is full; move it to an archive: the next request begins a new one")

// ErrShare refuses an entry of an identity that has seven times what is free of the file.
var ErrShare = errors.New("sdlaudit: this identity has used its share of the audit file; the rest is for others")

// Open continues the chain in a file, or starts one. An incomplete line at the end of the file
// is removed: its request was not answered. Open fails if the last line is not an entry, or if
// another Chain has the file. The caller must call Close.
func Open(o Options) (_ *Chain, err error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	if err := os.MkdirAll(filepath.Dir(o.Path), 0o700); err != nil {
		return nil, fmt.Errorf("sdlaudit: %w", err)
	}
	lock, err := disk.Acquire(o.Path + ".lock")
	if err != nil {
		return nil, fmt.Errorf("sdlaudit: %w", err)
	}
	c := &Chain{o: o, lock: lock, seed: maphash.MakeSeed()}
	if err := c.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("sdlaudit: %s: %w", o.Path, err), lock.Close())
	}
	return c, nil
}

// Cut returns how many octets of an incomplete line Open has removed.
func (c *Chain) Cut() int64 { return c.cut }

// open opens the file. The caller holds mu, or is the only user of the Chain.
func (c *Chain) open() error {
	f, err := os.OpenFile(c.o.Path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	end, last, size, err := ending(f)
	if err == nil && size > end {
		if err = f.Truncate(end); err == nil {
			err = f.Sync()
		}
	}
	if err == nil {
		err = disk.SyncDir(filepath.Dir(c.o.Path))
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	c.f, c.end, c.last, c.cut = f, end, last, size-end
	clear(c.used[:])
	return nil
}

// ending returns where the last complete line of a file ends, its hash, and the size of the file.
func ending(f *os.File) (end int64, last canonical.Value, size int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, last, 0, err
	}
	size = info.Size()
	begin := max(0, size-2*maxLine)
	tail := make([]byte, size-begin)
	if _, err := f.ReadAt(tail, begin); err != nil {
		return 0, last, size, err
	}
	lf := bytes.LastIndexByte(tail, '\n')
	if damagedEnd(tail[lf+1:]) {
		return 0, last, size, fmt.Errorf("the last line: %w; move the file away to begin a new one", errEnd)
	}
	if lf < 0 {
		if begin > 0 {
			return 0, last, size, errors.New("the end of the file is no entry; move the file away to begin a new one")
		}
		return 0, last, size, nil // the process ended in its first entry
	}
	line := tail[bytes.LastIndexByte(tail[:lf], '\n')+1 : lf]
	entry, err := parse(line)
	if err != nil {
		return 0, last, size, fmt.Errorf("the last line is %w; move the file away to begin a new one", err)
	}
	return begin + int64(lf) + 1, entry.Get("entry_hash"), size, nil
}

// Ready returns an error if no entry of an identity can be added now: ErrShare, or the failure of
// the chain. If the file was moved away, it begins a new one. After a failure it tries to write
// once a second.
func (c *Chain) Ready(who string) error {
	if c.moved() {
		if err := c.begin(); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch now := c.o.Now(); {
	case c.broken:
	case c.end+maxLine > c.o.Size:
		c.fail(ErrFull)
	case c.failure != nil && now.Sub(c.tried) >= time.Second:
		c.tried = now
		c.fail(c.write(make([]byte, maxLine), true))
	}
	if c.failure == nil && *c.of(who) > 7*(c.o.Size-c.end) {
		return ErrShare
	}
	return c.failure
}

// of returns the counter of an identity. The caller holds mu.
func (c *Chain) of(who string) *int64 { return &c.used[maphash.String(c.seed, who)%counters] }

// moved reports whether the file is no longer at its path.
func (c *Chain) moved() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken {
		return false
	}
	at, err := os.Lstat(c.o.Path)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	info, err := c.f.Stat()
	return err == nil && !os.SameFile(at, info)
}

// begin starts a new file after the old one was moved away.
func (c *Chain) begin() error {
	c.syncing.Lock()
	defer c.syncing.Unlock()
	if !c.moved() {
		return nil // another caller was first
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.f
	err := old.Sync()
	if err == nil {
		err = c.open()
	}
	if err != nil {
		c.fail(fmt.Errorf("sdlaudit: a new file: %w", err))
		return c.failure
	}
	c.synced = c.added
	c.fail(nil)
	_ = old.Close() // synced
	return nil
}

// fail notes that entries cannot be added, or can again. The caller holds mu.
func (c *Chain) fail(err error) {
	if (err == nil) != (c.failure == nil) {
		c.o.Failed(err)
	}
	c.failure = err
}

// write writes octets behind the last entry, and removes them again if that fails or if they are
// a trial. The caller holds mu.
func (c *Chain) write(octets []byte, trial bool) error {
	_, err := c.f.WriteAt(octets, c.end)
	if err == nil && !trial {
		return nil
	}
	if undo := c.f.Truncate(c.end); err == nil {
		err = undo
	}
	if err != nil {
		return fmt.Errorf("sdlaudit: %w", err)
	}
	return nil
}

// Add adds the entry of an event of an identity, and returns its receipt when the entry is on the
// disk. Ready says whether the identity has room.
func (c *Chain) Add(who string, event canonical.Value, by Signer) (receipt canonical.Value, err error) {
	entry, n, err := c.add(who, event, by)
	if err == nil {
		err = c.sync(n)
	}
	if err != nil {
		return canonical.Value{}, err
	}
	return receiptOf(entry), nil
}

func (c *Chain) add(who string, event canonical.Value, by Signer) (entry canonical.Value, n uint64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken {
		return entry, 0, c.failure
	}
	entry = newEntry(sdl.FormatTime(c.o.Now()), event, c.last, by)
	line := append(entry.AppendJSON(nil), '\n')
	switch {
	case len(line) > maxLine:
		return entry, 0, fmt.Errorf("sdlaudit: an entry of %d octets, want at most %d", len(line), maxLine)
	case c.end+int64(len(line)) > c.o.Size:
		err = ErrFull
	default:
		err = c.write(line, false)
	}
	if err != nil {
		c.fail(err) // Ready finds that it is over
		return entry, 0, err
	}
	c.end += int64(len(line))
	*c.of(who) += int64(len(line))
	c.last = entry.Get("entry_hash")
	c.added++
	return entry, c.added, nil
}

// sync returns when the first n entries of this process are on the disk. One sync is for all
// entries before it. After a failed sync nobody knows what is on the disk: no entry is added
// until the file is opened again.
func (c *Chain) sync(n uint64) error {
	c.syncing.Lock()
	defer c.syncing.Unlock()
	if c.synced >= n {
		return nil
	}
	c.mu.Lock()
	f, added, broken, failure := c.f, c.added, c.broken, c.failure
	c.mu.Unlock()
	if broken {
		return failure
	}
	if err := f.Sync(); err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.fail(fmt.Errorf("sdlaudit: %w; a restart tries again", err))
		c.broken = true
		return c.failure
	}
	c.synced = added
	return nil
}

// Used returns the octets of the file, and how many it may have.
func (c *Chain) Used() (octets, most int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.end, c.o.Size
}

// Err returns the last failure, nil if entries can be added.
func (c *Chain) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failure
}

// Close closes the file, after which nothing can be added.
func (c *Chain) Close() error {
	c.syncing.Lock()
	defer c.syncing.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failure, c.broken = fs.ErrClosed, true
	return errors.Join(c.f.Sync(), c.f.Close(), c.lock.Close())
}
