package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/boundlog"
	"github.com/slimwire/swp/internal/disk"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/archive"
	"github.com/slimwire/swp/store/filestore"
	"github.com/slimwire/swp/store/sharedblobs"
)

// Sections of the file of an export.
const (
	sectionStore     = "store"
	sectionArtifacts = "artifacts"
)

// dirStaging is the directory of an import until it is complete. If it exists, an import runs, or
// was killed.
const dirStaging = "import"

// Transferred counts what an export or import has carried.
type Transferred struct {
	Records   int    `json:"records"`
	Logs      int    `json:"logs"`
	Entries   int    `json:"entries"` // of logs
	Items     int    `json:"items"`   // of queues, with remembered ids
	Artifacts int    `json:"artifacts"`
	Bytes     int64  `json:"bytes"`          // of the file
	Data      string `json:"data,omitempty"` // the directory, or the URL of a shared store; empty for a Backup
}

func (t *Transferred) count(p store.Piece) {
	switch p.(type) {
	case *store.Record:
		t.Records++
	case *store.Log:
		t.Logs++
	case *store.LogEntry:
		t.Entries++
	case *store.Item:
		t.Items++
	case *store.Blob:
		t.Artifacts++
	}
}

// Transfer is an export or import of the store of a configuration. No process may have the store
// open.
type Transfer struct {
	Config   *config.Config
	Log      io.Writer         // for warnings of the store, as lines of text
	Progress func(Transferred) // called with each piece; may be nil

	t      Transferred
	digest *archive.Digest // of what is exported; may be nil
	starts []store.Start   // of the sections that are exported
	now    func() time.Time

	// verify is called with the complete store of an import before that counts as done. May be nil.
	verify func(*Storage) error
}

// logger returns the log for the warnings of the store.
func (t *Transfer) logger() (log *zap.Logger, stop func()) {
	text := new(atomic.Bool)
	text.Store(true)
	return boundlog.New(boundlog.Options{Level: zapcore.WarnLevel, Text: text, Output: t.Log})
}

// passed counts a piece of an export.
func (t *Transfer) passed(p store.Piece, size int64) {
	if s, is := p.(*store.Start); is {
		t.starts = append(t.starts, *s)
	}
	if t.digest != nil {
		t.digest.Add(p)
	}
	t.step(p, size)
}

func (t *Transfer) step(p store.Piece, size int64) {
	t.t.count(p)
	t.t.Bytes = size
	if t.Progress != nil {
		t.Progress(t.t)
	}
}

// carrier is an engine of the store.
type carrier interface {
	store.Exporter
	store.Importer
}

// Export writes the content of the store and its artifacts in the format of package archive. Import
// refuses the file unless Export returned without an error.
func (t *Transfer) Export(ctx context.Context, to io.Writer) (done Transferred, err error) {
	s, end, err := t.open(ctx)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, end()) }()
	return s.export(ctx, to, t)
}

// open opens the existing store of the configuration, and returns how to close it.
func (t *Transfer) open(ctx context.Context) (s *Storage, end func() error, err error) {
	if err := t.locate(); err != nil {
		return nil, nil, err
	}
	if !t.Config.Clustered() {
		switch there, err := used(filepath.Join(t.Config.Data, dirStore)); {
		case err != nil:
			return nil, nil, err
		case !there:
			return nil, nil, fmt.Errorf("data: there is no store in %s", t.Config.Data)
		}
	}
	log, stop := t.logger()
	if s, err = Open(ctx, Options{Config: t.Config, Log: log, now: t.now}); err != nil {
		stop()
		return nil, nil, err
	}
	return s, func() error {
		defer stop()
		return s.Close()
	}, nil
}

// Backup is Export of the store while it is used: everything that was acknowledged before the call is
// included. A second one at the same time is refused with ErrBackup.
func (s *Storage) Backup(ctx context.Context, to io.Writer) (Transferred, error) {
	if s.conf.Store == config.StoreMemory {
		return Transferred{}, errMemory
	}
	if !s.backup.TryLock() {
		return Transferred{}, ErrBackup
	}
	defer s.backup.Unlock()
	return s.export(ctx, to, new(Transfer))
}

// ErrBackup: one backup at a time, because the log of the database grows until it ends.
var ErrBackup = errors.New("another backup runs; wait for its end")

var errMemory = errors.New("data: the store is in memory and ends with the process: nothing can be exported or imported; configure another store")

// export writes the content of the store.
func (s *Storage) export(ctx context.Context, to io.Writer, t *Transfer) (Transferred, error) {
	w := archive.NewWriter(to)
	private := append(filestore.Spaces(spaceArtifacts), sharedblobs.Spaces(spaceArtifacts)...) // the other section has what these records describe
	section := func(name string, from carrier) error {
		if err := w.Begin(name); err != nil {
			return err
		}
		if t.digest != nil {
			t.digest.Begin(name)
		}
		err := from.Export(ctx, func(p store.Piece) error {
			if r, is := p.(*store.Record); is && slices.Contains(private, r.Space) {
				return nil
			}
			err := w.Write(p)
			t.passed(p, w.Size())
			return err
		})
		if err != nil {
			err = fmt.Errorf("export of the %s: %w", name, err)
		}
		if errors.Is(err, store.ErrDamaged) {
			err = fmt.Errorf("%w\nwithout the damaged part: start swpd once with --accept-damage, stop it, and export then", err)
		}
		return cmp.Or(err, w.Close())
	}
	err := section(sectionStore, s.engine)
	if err == nil {
		err = section(sectionArtifacts, s.blobs)
	}
	if err == nil {
		err = w.End()
	}
	t.t.Bytes = w.Size()
	return t.t, err
}

// locate says where the store is, unless it is in memory.
func (t *Transfer) locate() error {
	if t.Config.Store == config.StoreMemory {
		return errMemory
	}
	if t.t.Data = t.Config.Data; t.Config.Clustered() {
		t.t.Data = t.Config.Store
	}
	return nil
}

// Import makes the store and its artifacts of an export. There must be none. It uses a separate
// directory until all was read: after an error there is no store. A shared store is as empty after an
// error as before, or, if its artifacts hold a part of the import, is refused by Open.
func (t *Transfer) Import(ctx context.Context, from io.Reader) (done Transferred, err error) {
	if err := t.locate(); err != nil {
		return done, err
	}
	if t.Config.Clustered() {
		if err := t.fill(ctx, t.Config.Data, from); err != nil {
			return done, err
		}
		return t.t, nil
	}
	dir := t.Config.Data
	for _, name := range []string{dirStore, dirArtifacts} {
		full := filepath.Join(dir, name)
		switch there, err := used(full); {
		case err != nil:
			return done, err
		case there:
			return done, fmt.Errorf("data: %s is not empty; an import needs a data directory without a store: name another one, or move this away", full)
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return done, fmt.Errorf("data: %w", err)
	}
	staging := filepath.Join(dir, dirStaging)
	switch err := os.Mkdir(staging, 0o700); {
	case errors.Is(err, fs.ErrExist):
		return done, fmt.Errorf("data: another import or copy runs or was killed; if none runs, remove %s", staging)
	case err != nil:
		return done, fmt.Errorf("data: %w", err)
	}
	if err = t.fill(ctx, staging, from); err == nil {
		// The store is last: without it, nothing was imported.
		for _, name := range []string{dirArtifacts, dirStore} {
			if err == nil {
				err = move(filepath.Join(staging, name), filepath.Join(dir, name))
			}
		}
	}
	err = errors.Join(err, os.RemoveAll(staging))
	if err == nil {
		err = disk.SyncDir(dir)
	}
	if errors.Is(err, store.ErrVersion) {
		err = fmt.Errorf("%w; import it with the release that wrote it, or a later one", err)
	}
	if err != nil {
		return done, fmt.Errorf("nothing was imported: %w", err)
	}
	return t.t, nil
}

// used reports whether a directory has content. A missing one has none.
func used(dir string) (bool, error) {
	list, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("data: %w", err)
	}
	return len(list) > 0, nil
}

// unfinished returns an error if a data directory has an import that is not complete, and no store. A
// new store would be empty, and the import could not be repeated.
func unfinished(dir string) error {
	staging := filepath.Join(dir, dirStaging)
	if _, err := os.Stat(staging); err != nil {
		return nil
	}
	if there, err := used(filepath.Join(dir, dirStore)); there || err != nil {
		return err
	}
	return fmt.Errorf("data: there is no store in %s, because swpd store import or copy runs or was killed; wait for it, or remove %s and repeat it", dir, staging)
}

// move renames a directory. An empty one may have the name.
func move(from, to string) error {
	if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Rename(from, to)
}

// fill makes a store in a directory, or a shared one. The engine of artifacts is opened after the store
// was imported, because it may write to it.
func (t *Transfer) fill(ctx context.Context, dir string, from io.Reader) (err error) {
	c := *t.Config
	c.Data = dir
	log, stop := t.logger()
	defer stop()
	opts := &Options{Config: &c, Log: log, now: t.now, fill: true}
	if c.Clustered() {
		if err := placeIsEmpty(ctx, &c); err != nil {
			return err
		}
	}
	open, openBlobs := enginesOf(&c)
	engine, err := open(ctx, opts, newCommits())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	r := archive.NewReader(from)
	if err := t.take(ctx, r, sectionStore, engine); err != nil {
		return errors.Join(err, endFilling(engine, false))
	}
	err = t.fillArtifacts(ctx, r, &Storage{engine: engine, conf: &c}, func() (blobs, error) { return openBlobs(ctx, opts, engine) })
	if err == nil {
		err = endFilling(engine, true)
	}
	if err != nil && c.Clustered() {
		return fmt.Errorf("the content is not complete, and swpd does not start on it; %s: %w", refill, err)
	}
	return err
}

// endFilling tells an engine that was opened with Options.fill that its content is complete, or that it is still
// empty. An embedded one is complete when its directory gets its name.
func endFilling(e engine, complete bool) error {
	if s, is := e.(shared); is {
		return s.Filled(complete)
	}
	return nil
}

// fillArtifacts imports the artifacts of a store, and reads the end of the export.
func (t *Transfer) fillArtifacts(ctx context.Context, r *archive.Reader, to *Storage, open func() (blobs, error)) (err error) {
	if to.blobs, err = open(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.blobs.Close()) }()
	if err := t.take(ctx, r, sectionArtifacts, to.blobs); err != nil {
		return err
	}
	name, err := r.Section()
	switch {
	case err == nil:
		return fmt.Errorf("%w: the export has the section %q, which this release does not know", store.ErrVersion, name)
	case err != io.EOF:
		return err
	}
	t.t.Bytes = r.Size()
	if t.verify != nil {
		return t.verify(to)
	}
	return nil
}

// take imports the next section of an export; its name is want.
func (t *Transfer) take(ctx context.Context, r *archive.Reader, want string, to store.Importer) error {
	name, err := r.Section()
	if err == io.EOF || err == nil && name != want {
		err = fmt.Errorf("%w: the export has the section %q where %q belongs", store.ErrDamaged, name, want)
	}
	if err != nil {
		return err
	}
	err = to.Import(ctx, func() (store.Piece, error) {
		p, err := r.Next()
		if v, is := p.(*store.Record); is && v.Space == spaceData && v.Key == nameVersion {
			err = checkVersion(v.Value)
		}
		if err == nil {
			t.step(p, r.Size())
		}
		return p, err
	})
	if err != nil {
		return fmt.Errorf("import of the %s: %w", name, err)
	}
	return nil
}
