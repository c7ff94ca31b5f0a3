package sqlstore

import (
	"time"

	"modernc.org/sqlite"
)

// checkpointer writes the log back into the database, so that it does not grow.
// Most of it is done beside the writer, on a connection of its own; the writer
// does the rest between two transactions: then the log is empty and restarts at
// its beginning.
type checkpointer struct {
	pages  int        // that the writer had written when it last began
	urgent bool       // begin with the next transaction
	retry  time.Time  // not before, after a failure
	told   time.Time  // when a failure was last told
	result chan error // of what runs beside the writer; nil if nothing does
}

const (
	checkpointPages = 4000                // of 4 KiB, after which the log is written back
	checkpointLag   = 2 * checkpointPages // and after which the writer waits for the checkpoint
	checkpointRetry = time.Second
	checkpointTold  = time.Minute
	writeBack       = `PRAGMA wal_checkpoint(PASSIVE)`
)

// step is called by the writer between transactions, when callers are told.
func (k *checkpointer) step(w *writer) {
	if w.s.file == "" || w.conn == nil {
		return
	}
	pages, _, err := w.conn.raw.Status(sqlite.DBStatusCacheWrite, false)
	if err != nil {
		return
	}
	if k.result != nil {
		if len(k.result) == 0 && pages-k.pages < checkpointLag {
			return
		}
		err := <-k.result
		k.result = nil
		if err == nil {
			_, err = w.conn.row(writeBack)
		}
		k.failed(w, err)
		return
	}
	if !k.urgent && pages-k.pages < checkpointPages || time.Now().Before(k.retry) {
		return
	}
	k.pages, k.urgent = pages, false
	result := make(chan error, 1)
	k.result = result
	go func() { result <- w.s.writeBack() }()
}

func (s *Store) writeBack() error {
	c, err := s.connectWriter()
	if err != nil {
		return err
	}
	_, err = c.row(writeBack)
	if closed := c.close(); err == nil {
		err = closed
	}
	return err
}

// failed notes a failure, which costs nothing but room: the log keeps what is
// not written back. It is told once a minute.
func (k *checkpointer) failed(w *writer, err error) {
	if err == nil {
		return
	}
	now := time.Now()
	if now.Sub(k.told) >= checkpointTold {
		k.told = now
		w.s.notice("sqlstore: %s: writing back the log: %v", w.s.file, err)
	}
	k.urgent = true
	k.retry = now.Add(checkpointRetry)
}

// reset begins with a new connection, which counts from zero.
func (k *checkpointer) reset() { k.pages, k.urgent = 0, true }

// stop waits for the checkpoint beside the writer. The last connection writes
// back the rest when it closes.
func (k *checkpointer) stop(w *writer) {
	if k.result != nil {
		k.failed(w, <-k.result)
		k.result = nil
	}
}
