package sqlstore

import (
	"time"

	"modernc.org/sqlite"
)

// checkpointer writes the write-ahead log back into the database, so that the log does not
// grow. Most of this happens on a separate connection, concurrently with the writer. The
// writer does the rest between two transactions; then the log is empty and restarts at its
// beginning.
type checkpointer struct {
	pages  int        // pages written by the writer when the last checkpoint began
	urgent bool       // begin with the next transaction
	retry  time.Time  // earliest time after a failure
	told   time.Time  // time of the last report of a failure
	result chan error // result of the running checkpoint; nil if none runs
}

const (
	checkpointPages = 4000                // of 4 KiB; a longer log is written back
	checkpointLag   = 2 * checkpointPages // for a log of this length the writer waits for the checkpoint
	checkpointRetry = time.Second
	checkpointTold  = time.Minute
	writeBack       = `PRAGMA wal_checkpoint(PASSIVE)`
)

// step is called by the writer between transactions, after their callers have the results.
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

// failed records a failure, which costs only disk space: the log keeps the pages. It is
// reported once a minute.
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

// reset resets the counters for a new connection.
func (k *checkpointer) reset() { k.pages, k.urgent = 0, true }

// stop waits for the running checkpoint. SQLite writes back the rest when the last
// connection closes.
func (k *checkpointer) stop(w *writer) {
	if k.result != nil {
		k.failed(w, <-k.result)
		k.result = nil
	}
}
