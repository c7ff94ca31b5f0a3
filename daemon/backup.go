package daemon

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
)

// Bounds of a backup: the octets that are written at once, and the time for them.
const (
	backupStep     = 256 << 10
	backupPatience = 30 * time.Second
)

// backups serves backups of the store.
type backups struct {
	d      *daemon
	ctx    context.Context
	cancel context.CancelFunc
}

func (b *backups) open(d *daemon) {
	b.d = d
	b.ctx, b.cancel = context.WithCancel(context.Background())
}

func (b *backups) retire() {
	if b.cancel != nil {
		b.cancel()
	}
}

// handler returns the handler of backups, for accounts that can read the data directory.
func (b *backups) handler(d *daemon) http.Handler {
	if d.config.Store == config.StoreMemory {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			say(w, http.StatusServiceUnavailable, "data: the store is in memory and ends with the process, so it has no backup")
		})
	}
	return d.desk.Local("a backup", b.serve)
}

// serve writes a backup. An answer that does not end in order is no backup.
func (b *backups) serve(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	control := http.NewResponseController(w)
	defer context.AfterFunc(b.ctx, func() {
		cancel()
		_ = control.SetWriteDeadline(time.Now()) // a write that waits ends
	})()
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Trailer", HeaderSummary+", "+HeaderDigest)
	sum := sha256.New()
	to := &patient{w: w, ctx: ctx, extend: control.SetWriteDeadline}
	buf := bufio.NewWriterSize(io.MultiWriter(to, sum), backupStep)
	b.d.log.Info("backup begins")
	n, err := b.d.state.Backup(ctx, buf)
	if err == nil {
		err = buf.Flush()
	}
	switch {
	case err != nil && !to.begun:
		b.d.log.Warn("no backup was made", zap.Error(err))
		h.Del("Trailer")
		say(w, http.StatusServiceUnavailable, err.Error())
		return
	case err != nil:
		b.d.log.Warn("a backup ended early", zap.Error(err))
		panic(http.ErrAbortHandler) // so that the client sees no end
	}
	summary, _ := json.Marshal(n) // it has numbers
	h.Set(HeaderSummary, string(summary))
	h.Set(HeaderDigest, hex.EncodeToString(sum.Sum(nil)))
	b.d.log.Info("backup ended", zap.Int64("octets", n.Bytes), zap.Int("records", n.Records), zap.Int("artifacts", n.Artifacts))
}

// patient is a response of any length: each write has backupPatience.
type patient struct {
	w      io.Writer
	ctx    context.Context
	extend func(time.Time) error
	begun  bool
}

func (p *patient) Write(b []byte) (int, error) {
	if err := p.extend(time.Now().Add(backupPatience)); err != nil {
		return 0, err
	}
	if err := context.Cause(p.ctx); err != nil { // after the extension, which may have undone a deadline
		return 0, err
	}
	p.begun = true
	return p.w.Write(b)
}
