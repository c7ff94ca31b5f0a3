package filestore

import (
	"context"
	"os"
	"path/filepath"
)

// probeName is the file that Check writes.
const probeName = "probe"

// Check implements store.Blobs.
func (s *Store) Check(ctx context.Context) error {
	if found := s.damage.Load(); found != nil {
		return *found
	}
	select {
	case s.probes <- struct{}{}:
	case <-ctx.Done(): // a write can take as long as the medium needs
		return ctx.Err()
	}
	told := make(chan error, 1)
	go func() {
		told <- s.probe()
		<-s.probes
	}()
	select {
	case err := <-told:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// probe truncates its file before it writes, because overwriting would succeed on a full
// volume.
func (s *Store) probe() error {
	f, err := os.OpenFile(filepath.Join(s.dir, probeName), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return unavailable(err)
	}
	if _, err = f.Write(make([]byte, 4096)); err == nil {
		err = s.sync(f)
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return unavailable(err)
}
