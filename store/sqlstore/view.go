package sqlstore

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/clock"
)

// View reads a store that was closed. It neither changes nor locks anything: if a process
// opens the store at the same time, results can be out of date, or damaged. It is safe for
// concurrent use.
type View struct{ s *Store }

// OpenView opens the store in a directory for reading. The error is fs.ErrNotExist if there is
// none, store.ErrLocked if a process has it open or was killed while it had, store.ErrVersion
// for the store of a release with another schema, or store.ErrDamaged. The caller must close it.
func OpenView(dir string) (*View, error) {
	path, err := filepath.Abs(filepath.Join(dir, databaseName))
	if err != nil {
		return nil, fmt.Errorf("sqlstore: %w", err)
	}
	header, err := readHeader(path)
	switch {
	case err != nil:
		return nil, err
	case len(header) == 0:
		return nil, fmt.Errorf("sqlstore: %s: %w", path, fs.ErrNotExist)
	}
	s, err := newStore(Options{Dir: dir})
	if err != nil {
		return nil, err
	}
	s.file = path
	if err := s.checkVersion(header); err != nil {
		return nil, err
	}
	if log, err := os.Stat(path + "-wal"); err == nil && log.Size() > 0 {
		return nil, fmt.Errorf("%w: %s", store.ErrLocked, path)
	}
	c, err := connect(path, atRest, "query_only = ON")
	if err != nil {
		return nil, s.asDamage(err)
	}
	st, err := c.readState(s)
	if err != nil {
		_ = c.close()
		return nil, s.asDamage(err)
	}
	s.clock = clock.New(s.options.Now, st.clock)
	s.readers = make(chan *conn, 1)
	s.readers <- c
	return &View{s}, nil
}

// Close ends the reading.
func (v *View) Close() error { return v.s.Close() }

// Scan is that of store.Records.
func (v *View) Scan(ctx context.Context, space, prefix, after string, yield func(key string, version uint64, value []byte) bool) error {
	return v.s.Scan(ctx, space, prefix, after, yield)
}

// Read and Span are those of store.Logs.
func (v *View) Read(ctx context.Context, space, log string, after uint64, yield func(seq uint64, id string, data []byte) bool) error {
	return v.s.Read(ctx, space, log, after, yield)
}

// Span is that of store.Logs.
func (v *View) Span(ctx context.Context, space, log string) (first, last uint64, err error) {
	return v.s.Span(ctx, space, log)
}

// QueueNames is like Store.QueueNames.
func (v *View) QueueNames(ctx context.Context, space, prefix string, most int) ([]string, error) {
	return v.s.QueueNames(ctx, space, prefix, most)
}

// Owners is like Store.Owners.
func (v *View) Owners(ctx context.Context, after string, yield func(name string, used int64) bool) error {
	return v.s.Owners(ctx, after, yield)
}
