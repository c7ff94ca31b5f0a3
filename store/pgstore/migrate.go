package pgstore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/slimwire/swp/store"
)

// schemaName is the namespace of everything in the database.
const schemaName = "swp"

//go:embed schema1.sql
var schema1 string

//go:embed schema2.sql
var schema2 string

//go:embed schema3.sql
var schema3 string

// step makes the next schema. A release that changes the schema appends a step, and never changes an
// earlier one. While nodes are upgraded one after another, two releases use the database: a step that
// only adds keeps the minReader of the step before.
type step struct {
	text      string
	minReader int // programs that know schemas from this one on can use the new one
}

var steps = []step{{schema1, 1}, {schema2, 1}, {schema3, 1}}

const (
	selectSchema = `SELECT schema, min_reader FROM state`
	insertSchema = `INSERT INTO state (id, schema, min_reader, written) VALUES (1, $1, $2, false)
		ON CONFLICT (id) DO UPDATE SET schema = $1, min_reader = $2`
	makeSchema = `CREATE SCHEMA IF NOT EXISTS ` + schemaName
	lockSchema = `SELECT pg_advisory_xact_lock($1, $2)`
)

// schema returns the schema of the database; 0 if it is empty.
func schema(ctx context.Context, c *pgx.Conn) (found, minReader int, err error) {
	err = c.QueryRow(ctx, selectSchema).Scan(&found, &minReader)
	if code := codeOf(err); code == codeNoTable || code == codeNoSchema {
		return 0, 0, nil
	}
	return found, minReader, err
}

// migrate makes the schema of this release, or returns an error if the database has another one that
// this release cannot use.
func (s *Store) migrate(ctx context.Context, c *pgx.Conn) error {
	found, minReader, err := schema(ctx, c)
	if err == nil && (found == 0 || found < len(steps) && s.options.Migrate) {
		err = pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error { return s.take(ctx, tx) })
		if err == nil {
			found, minReader, err = schema(ctx, c)
		}
	}
	switch {
	case err != nil:
		return s.fault(err)
	case found < len(steps):
		return fmt.Errorf("%w: %s: schema %d, and this program uses schema %d", store.ErrOlder, s.server.name, found, len(steps))
	case minReader > len(steps):
		return fmt.Errorf("%w: %s: schema %d for programs that know schema %d, and this program knows schemas up to %d",
			store.ErrNewer, s.server.name, found, minReader, len(steps))
	case found > len(steps):
		s.notice("pgstore: %s: schema %d of a later release, which this program can use", s.server.name, found)
	}
	return nil
}

// take takes the missing steps. Another node may do the same at the same time.
func (s *Store) take(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, lockSchema, int32(lockSpace), int32(0))
	if err != nil {
		return err
	}
	found, _, err := schemaWithin(ctx, tx)
	for i := found; i < len(steps) && err == nil; i++ {
		s.notice("pgstore: %s: step to schema %d", s.server.name, i+1)
		if err = unlimitedTime(ctx, tx.Conn()); err == nil {
			_, err = tx.Conn().PgConn().Exec(ctx, makeSchema+"; "+steps[i].text).ReadAll()
		}
		if err == nil {
			_, err = tx.Exec(ctx, insertSchema, i+1, steps[i].minReader)
		}
	}
	return err
}

// schemaWithin is schema within a transaction, which an error must not break.
func schemaWithin(ctx context.Context, tx pgx.Tx) (found, minReader int, err error) {
	failed := pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error {
		found, minReader, err = schema(ctx, inner.Conn())
		if found == 0 && err == nil {
			return errNoRow
		}
		return err
	})
	if failed != nil && !errors.Is(failed, errNoRow) {
		return 0, 0, failed
	}
	return found, minReader, err
}

// unlimitedTime lets the statements of a transaction last as long as they need.
func unlimitedTime(ctx context.Context, c *pgx.Conn) error {
	_, err := c.PgConn().Exec(ctx, "SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0").ReadAll()
	return err
}
