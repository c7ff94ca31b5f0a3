package pgstore

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/slimwire/swp/store"
)

// Limits of a page of rows.
const (
	pageRows   = 256
	pageOctets = 1 << 20
)

// rows calls f after each row of a statement was read into to. An error of f ends the reading.
func (s *Store) rows(ctx context.Context, f func() error, c call, to ...any) error {
	return s.reading(ctx, func(ctx context.Context) error {
		rows, err := s.readers.Query(ctx, c.text, c.args...)
		if err != nil {
			return err
		}
		_, err = pgx.ForEachRow(rows, to, f)
		return err
	})
}

// row reads the only row of a statement into to, if there is one.
func (s *Store) row(ctx context.Context, c call, to ...any) (found bool, err error) {
	err = s.reading(ctx, func(ctx context.Context) error {
		rows, err := s.readers.Query(ctx, c.text, c.args...)
		if err == nil {
			found, err = maybe(rows, to...)
		}
		return err
	})
	return found, err
}

// reading calls work, whose errors are of statements, within the time limit of a statement.
func (s *Store) reading(ctx context.Context, work func(ctx context.Context) error) error {
	select {
	case <-s.gone:
		return store.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	default:
	}
	within, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	err := work(within)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case s.isGone() && codeOf(err) == "": // the pool was closed
		return errors.Join(store.ErrClosed, err)
	}
	return s.fault(err)
}

func (s *Store) isGone() bool {
	select {
	case <-s.gone:
		return true
	default:
		return false
	}
}
