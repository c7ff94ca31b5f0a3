package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/slimwire/swp/store"
)

// step makes the next schema of a database, within the transaction of a migration. It reads rows
// with the checksums of the schema before, and returns store.ErrDamaged for a wrong one: a damaged
// row must not get a correct checksum.
type step func(ctx context.Context, c *conn) error

// statements is a step of SQL alone.
func statements(text string) step {
	return func(ctx context.Context, c *conn) error { return c.runWithin(ctx, text) }
}

// steps returns the steps of this release and of a planted later one.
func (s *Store) steps() []step {
	all := steps[:len(steps):len(steps)]
	for _, text := range s.options.Later {
		all = append(all, statements(text))
	}
	return all
}

// schema returns the committed schema of a database.
func (c *conn) schema() (int64, error) {
	row, err := c.row("PRAGMA user_version")
	if err != nil {
		return 0, err
	}
	return number(row[0]), nil
}

// checkSchema returns an error unless found is the schema of this release.
func (s *Store) checkSchema(found int64) error {
	last := int64(firstSchema + len(s.steps()))
	switch {
	case found > last:
		return fmt.Errorf("%w: %s: schema %d, and this program knows schemas up to %d", store.ErrNewer, s.file, found, last)
	case found < firstSchema:
		return fmt.Errorf("%w: %s: schema %d was never released; this program knows schemas from %d to %d",
			store.ErrVersion, s.file, found, firstSchema, last)
	case found < last:
		return fmt.Errorf("%w: %s: schema %d, and this program uses schema %d", store.ErrOlder, s.file, found, last)
	}
	return nil
}

// takeSteps takes all steps after a schema.
func (s *Store) takeSteps(ctx context.Context, c *conn, from int) error {
	for i, step := range s.steps()[from-firstSchema:] {
		next := from + i + 1
		err := step(ctx, c)
		if err == nil {
			err = c.run(fmt.Sprintf("PRAGMA user_version = %d", next))
		}
		if err != nil {
			return fmt.Errorf("step to schema %d: %w", next, err)
		}
	}
	return nil
}

// migrateTold is the time between two messages about a migration.
const migrateTold = 5 * time.Second

// migrate brings the database of an earlier release to the schema of this one. The caller has
// checked that the database is one.
//
// The transaction is in the write-ahead log until it is committed: the database does not change
// before, and stays unchanged after a crash and on a full volume. At the end the log is written back, so that
// the header of the database has the new schema.
func (s *Store) migrate(ctx context.Context, header []byte, known mark, badMark bool) error {
	from, err := s.verifyEarlier(header, known, badMark)
	if err != nil {
		return earlier(err)
	}
	c, err := s.connectWriter()
	if err != nil {
		return s.asDamage(err)
	}
	began := time.Now()
	what := fmt.Sprintf("sqlstore: %s: migration from schema %d to %d", s.file, from, firstSchema+len(s.steps()))
	s.notice("%s begins; the store cannot be used until it ends", what)
	stop := s.tellProgress(what, began)
	err = s.transform(ctx, c, int(from))
	stop()
	switch {
	case err == nil:
		// Without room for this the log stays, and is written back later.
		_, _ = c.row("PRAGMA wal_checkpoint(TRUNCATE)")
		s.notice("%s took %v", what, time.Since(began).Round(time.Millisecond))
	case ctx.Err() != nil:
		err = ctx.Err() // the driver says that it was interrupted
	default:
		err = earlier(fmt.Errorf("the migration was undone: %w", s.asDamage(err)))
	}
	return cmp.Or(err, c.close())
}

// earlier adds ErrOlder to damage: only the earlier release can save the readable part.
func earlier(err error) error {
	if errors.Is(err, store.ErrDamaged) {
		return fmt.Errorf("%w: %w", store.ErrOlder, err)
	}
	return err
}

// verifyEarlier returns the schema of a database, or the damage that is known before the first write.
// The table of the state is the same in all schemas.
func (s *Store) verifyEarlier(header []byte, known mark, badMark bool) (schema int64, err error) {
	if err = s.checkSize(header); err != nil {
		return 0, err
	}
	if badMark {
		return 0, s.damaged("%s: missing, or not the mark of this store", markName)
	}
	c, err := connect(s.file, readOnly)
	if err != nil {
		return 0, s.asDamage(err)
	}
	defer func() { _ = c.close() }()
	if schema, err = c.schema(); err == nil {
		err = s.verifyEnd(c, known)
	}
	return schema, s.asDamage(err)
}

// transform takes the missing steps in one transaction.
func (s *Store) transform(ctx context.Context, c *conn, from int) error {
	err := c.run("BEGIN IMMEDIATE")
	if err == nil {
		err = s.takeSteps(ctx, c, from)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		return c.run("COMMIT")
	}
	_ = c.run("ROLLBACK") // closing the connection does the same
	return err
}

// tellProgress reports how long a migration takes, and how much it has written, until stop is called.
func (s *Store) tellProgress(what string, began time.Time) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(migrateTold)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				var written int64
				if log, err := os.Stat(s.file + "-wal"); err == nil {
					written = log.Size()
				}
				s.notice("%s has run for %v and has written %d MiB", what, time.Since(began).Round(time.Second), written>>20)
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}
