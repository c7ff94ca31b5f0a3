package daemon

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
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
	token  string // empty: there is nothing to back up
	file   string // with the token
	ctx    context.Context
	cancel context.CancelFunc
}

// open writes the token into the data directory.
func (b *backups) open(d *daemon) error {
	b.d = d
	b.ctx, b.cancel = context.WithCancel(context.Background())
	if d.config.Store == config.StoreMemory {
		return nil
	}
	b.token, b.file = rand.Text(), filepath.Join(d.config.Data, BackupToken)
	next := b.file + ".new"
	if err := os.Remove(next); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("data: %w", err)
	}
	if err := os.WriteFile(next, []byte(b.token+"\n"), 0o600); err != nil {
		return fmt.Errorf("data: %w", err)
	}
	if err := os.Rename(next, b.file); err != nil {
		return fmt.Errorf("data: %w", err)
	}
	return nil
}

func (b *backups) retire() {
	if b.cancel != nil {
		b.cancel()
	}
}

func (b *backups) close() {
	b.retire()
	if b.file != "" {
		_ = os.Remove(b.file) // the next start replaces it
	}
}

// serve writes a backup. An answer that does not end in order is no backup.
func (b *backups) serve(w http.ResponseWriter, r *http.Request) {
	given, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case b.token == "":
		say(w, http.StatusServiceUnavailable, "data: the store is in memory and ends with the process, so it has no backup")
		return
	case subtle.ConstantTimeCompare([]byte(given), []byte(b.token)) != 1:
		say(w, http.StatusForbidden, "a backup is for accounts that can read "+b.file)
		return
	}
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
