package sqlstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/slimwire/swp/internal/disk"
	"github.com/slimwire/swp/store"
)

// Files of a store, besides those of SQLite.
const (
	databaseName = "state.db"
	markName     = "state.mark"
	lockName     = "lock"
)

// Open opens or creates a store. It waits for the integrity check for at most CheckFor; ctx
// ends the wait.
//
// An error store.ErrLocked names the lock; store.ErrNewer, store.ErrOlder, store.ErrVersion and
// store.ErrDamaged name the file, which is not changed.
func Open(ctx context.Context, options Options) (*Store, error) {
	s, err := newStore(options)
	if err != nil {
		return nil, err
	}
	w := s.writer
	if s.options.Dir == "" {
		err = w.openMemory()
	} else {
		err = w.openFile(ctx)
	}
	if err == nil && s.options.Admit != nil {
		err = s.options.Admit(func(space, key string) ([]byte, error) {
			_, value, err := s.Get(ctx, space, key)
			return value, err
		})
	}
	if err != nil {
		_ = s.release()
		return nil, err
	}
	s.written.Go(w.loop)
	return s, nil
}

func (w *writer) openMemory() (err error) {
	if w.conn, err = connect("", ""); err != nil {
		return err
	}
	if err = w.s.makeSchema(w.conn, state{}); err != nil {
		return err
	}
	w.s.readers = make(chan *conn, 1)
	w.s.readers <- w.conn
	return w.load()
}

func (w *writer) openFile(ctx context.Context) error {
	s := w.s
	dir, err := filepath.Abs(s.options.Dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return fmt.Errorf("sqlstore: %w", err)
	}
	s.file = filepath.Join(dir, databaseName)
	if s.lock, err = disk.Acquire(filepath.Join(dir, lockName)); err != nil {
		return fmt.Errorf("sqlstore: %w", err)
	}
	var known mark
	var marked bool
	s.mark, known, marked, err = openMark(filepath.Join(dir, markName))
	if err != nil && !errors.Is(err, errMark) {
		return fmt.Errorf("sqlstore: %w", err)
	}
	badMark := err != nil || !marked

	header, err := readHeader(s.file)
	switch {
	case err != nil:
		return err
	case len(header) == 0 && !marked, !badMark && known.commits == 0:
		// Nothing was ever acknowledged: the store is new, or its creation was interrupted.
		err = s.create()
	default:
		if err = s.checkVersion(header); errors.Is(err, store.ErrOlder) && s.options.Migrate {
			err = s.migrate(ctx, header, known, badMark)
		}
		if err != nil {
			return err
		}
		if err = s.checkSize(header); err == nil {
			err = s.verify(ctx, known, badMark)
		}
		if errors.Is(err, store.ErrDamaged) && s.options.AcceptDamage {
			s.notice("%v: accepted", err)
			err = s.salvage(known.commits)
		}
	}
	if err != nil {
		return err
	}
	if w.conn, err = s.connectWriter(); err != nil {
		return s.asDamage(err)
	}
	if err = w.load(); err == nil && marked {
		err = w.settle(known)
	}
	if err != nil {
		return s.unreadable(err)
	}
	s.readers = make(chan *conn, s.options.Readers)
	for range s.options.Readers {
		s.readers <- nil
	}
	// All connections are made now: opening one later would wait for a stalled disk,
	// although reading cached pages does not.
	for range s.options.Readers {
		c, err := s.connectReader()
		if err != nil {
			return s.asDamage(err)
		}
		<-s.readers
		s.readers <- c
	}
	return nil
}

// headerSize is the size of the header of a database file. It is read without SQLite,
// because SQLite changes a file when it opens it.
const headerSize = 100

// readHeader returns the header of a file; nothing if the file is missing or empty.
func readHeader(path string) ([]byte, error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("sqlstore: %w", err)
	}
	defer func() { _ = file.Close() }()
	header, err := io.ReadAll(io.LimitReader(file, headerSize))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return header, nil
}

// checkVersion refuses a readable database of another application, or with another schema.
func (s *Store) checkVersion(header []byte) error {
	if !readable(header) {
		return nil // damaged; verify reports it
	}
	if id := binary.BigEndian.Uint32(header[68:]); id != applicationID {
		return fmt.Errorf("%w: %s: application id %#x, want %#x", store.ErrVersion, s.file, id, applicationID)
	}
	schema := int64(binary.BigEndian.Uint32(header[60:]))
	if err := s.checkSchema(schema); err != nil && !errors.Is(err, store.ErrOlder) {
		return err
	}
	// A migration may be in the log only.
	if log, err := os.Stat(s.file + "-wal"); err == nil && log.Size() > 0 {
		c, err := connect(s.file, readOnly)
		if err != nil {
			return nil // verify reports it
		}
		defer func() { _ = c.close() }()
		if schema, err = c.schema(); err != nil {
			return nil // verify reports it
		}
	}
	return s.checkSchema(schema)
}

// checkSize reports a database at rest that ends too early: SQLite reads what is missing of its last
// page as zeros.
func (s *Store) checkSize(header []byte) error {
	if log, err := os.Stat(s.file + "-wal"); err == nil && log.Size() > 0 || !readable(header) {
		return nil
	}
	info, err := os.Stat(s.file)
	if err != nil {
		return unavailable(err)
	}
	if size := int64(binary.BigEndian.Uint16(header[16:])); info.Size()%max(size, 512) != 0 {
		return s.damaged("ends within a page, after %d octets", info.Size())
	}
	return nil
}

func readable(header []byte) bool {
	return len(header) == headerSize && string(header[:16]) == "SQLite format 3\x00"
}

// create makes a new database. A database without a mark was not completed, and is
// replaced.
func (s *Store) create() error {
	if err := s.mark.write(0, s.options.Durability); err != nil {
		return unavailable(err)
	}
	if err := s.mark.file.Sync(); err != nil {
		return unavailable(err)
	}
	if err := s.makeDatabase(s.file, state{commits: 1}, nil); err != nil {
		return err
	}
	return s.firstMark(1)
}

// firstMark writes the mark of a new database.
func (s *Store) firstMark(commits int64) error {
	err := s.mark.write(commits, s.options.Durability)
	if err == nil {
		err = s.mark.file.Sync()
	}
	if err == nil {
		err = disk.SyncDir(filepath.Dir(s.file))
	}
	return unavailable(err)
}

// makeDatabase creates a database at a path, replaces an existing one, and fills it.
func (s *Store) makeDatabase(path string, first state, fill func(*conn) error) error {
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return unavailable(err)
		}
	}
	// SQLite gives its additional files the same mode.
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return unavailable(err)
	}
	if err := file.Close(); err != nil {
		return unavailable(err)
	}
	c, err := connect(path, readWrite)
	if err != nil {
		return err
	}
	if err = c.run("BEGIN"); err == nil {
		err = s.makeSchema(c, first)
	}
	if err == nil && fill != nil {
		err = fill(c)
	}
	if err == nil {
		err = c.run("COMMIT")
	}
	if closed := c.close(); err == nil {
		err = closed
	}
	if err == nil {
		err = unavailable(disk.SyncDir(filepath.Dir(path)))
	}
	return err
}

func (s *Store) makeSchema(c *conn, first state) error {
	err := c.run(schema + fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, firstSchema+len(steps)))
	if err == nil {
		err = s.takeSteps(context.Background(), c, firstSchema+len(steps))
	}
	if err == nil {
		_, err = c.exec(insertState)
	}
	if err == nil {
		err = c.writeState(first)
	}
	return err
}

func unavailable(err error) error { return store.Unavailable(err) }
