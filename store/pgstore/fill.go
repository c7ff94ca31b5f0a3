package pgstore

import (
	"context"
	"fmt"

	"github.com/slimwire/swp/store"
)

const (
	selectFilling = `SELECT written, filling FROM state`
	beginFilling  = `UPDATE state SET filling = true`
	endFilling    = `UPDATE state SET filling = false WHERE written = $1`
)

// beginFilling refuses a database that is not complete, and with Options.Fill one that is not empty. No
// other process has the name of the node.
func (w *writer) beginFilling(ctx context.Context) error {
	var used, filling bool
	if err := w.conn.QueryRow(ctx, selectFilling).Scan(&used, &filling); err != nil {
		return err
	}
	switch {
	case filling:
		return fmt.Errorf("%w: %s", store.ErrUnfinished, w.s.server.name)
	case !w.s.options.Fill:
		return nil
	case used:
		return fmt.Errorf("%w: %s", store.ErrUsed, w.s.server.name)
	}
	_, err := w.conn.Exec(ctx, beginFilling)
	return err
}

// Filled ends what Options.Fill began, if the database is complete, or, if complete is false, still
// empty. Otherwise Open goes on to refuse it.
func (s *Store) Filled(complete bool) error {
	told := make(chan error, 1)
	s.queue.Submit(&op{
		alone: func(ctx context.Context, w *writer) error {
			if err := w.pipeline(ctx, nil, true); err != nil {
				return err
			}
			_, err := w.conn.Exec(ctx, endFilling, complete)
			return err
		},
		size: maxBatchOctets + 1, // too large for a transaction with other operations
		done: func(err error) { told <- err },
	})
	return <-told
}
