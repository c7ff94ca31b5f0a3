package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/store"
)

// dataVersion is the version of the data directory, without the tables of the database: sqlstore has
// a schema for them. A release raises it if it writes a format of a record, an entry, a delivery or a
// file that the release before cannot read. It still reads all formats of earlier releases.
//
// The version is in a record of the store, so that a backup has it too. The store is opened before
// any other file of the directory is written.
const dataVersion = 1

// The record of the version, in decimal digits. A store without it has version 1.
const (
	spaceData   = "data"
	nameVersion = "version"
)

// checkVersion refuses the value of a record with a later version than this release writes.
func checkVersion(value []byte) error {
	n, err := strconv.Atoi(string(value))
	switch {
	case err != nil || n < 1:
		return fmt.Errorf("%w: %.40q is no version of the data", store.ErrDamaged, value)
	case n > dataVersion:
		return fmt.Errorf("%w: version %d of the data, and this program knows versions up to %d", store.ErrNewer, n, dataVersion)
	}
	return nil
}

// admit refuses a store whose record of the version says that a later release has written it. The record
// was read with an error, or is nil in a store without it.
func admit(value []byte, err error) error {
	if err == nil && value != nil {
		err = checkVersion(value)
	}
	return err
}

// raise records that this release writes the data from now on.
func (s *Storage) raise(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, keyTime)
	defer cancel()
	value := strconv.AppendInt(nil, dataVersion, 10)
	stored, found, err := s.Get(ctx, spaceData, nameVersion)
	if err != nil || bytes.Equal(found, value) {
		return err
	}
	told := make(chan error, 1)
	s.Put(spaceData, nameVersion, stored, "", value, time.Time{}, func(r store.PutResult) { told <- r.Err })
	select {
	case err = <-told:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// otherRelease adds to an error of an open store which release can read it, and what to do.
func otherRelease(what, dir string, err error) error {
	const unchanged = "and nothing in it was changed"
	switch {
	case errors.Is(err, store.ErrNewer):
		return fmt.Errorf("data: %s: %s in %s was written by a later release, %s: %w\nrun that release, "+
			"or restore the backup from before the upgrade into another data directory (swpd restore)", profiles.CompatibilityPolicy, what, dir, unchanged, err)
	case errors.Is(err, store.ErrOlder) && errors.Is(err, store.ErrDamaged):
		return fmt.Errorf("data: %s in %s was written by an earlier release and is damaged, %s: %w\nrestore it from a copy, "+
			"or start the earlier release once with --accept-damage to continue with the readable part", what, dir, unchanged, err)
	case errors.Is(err, store.ErrOlder):
		return fmt.Errorf("data: %s in %s was written by an earlier release, %s: %w\nits content was not read; swpd run migrates it at its start; "+
			"run swpd check --data and make a backup with the earlier release before", what, dir, unchanged, err)
	}
	return fmt.Errorf("data: %s: %s in %s was written by another release, %s; run that release, or name another directory: %w",
		profiles.CompatibilityPolicy, what, dir, unchanged, err)
}
