package daemon

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/relay"
)

// backup asks for a backup with a token; the token in the data directory if it is empty.
func (r *running) backup(ctx context.Context, token string) (*http.Response, error) {
	r.t.Helper()
	if token == "" {
		text, err := os.ReadFile(filepath.Join(r.dir, "data", AdminToken))
		if err != nil {
			r.t.Fatal(err)
		}
		token = strings.TrimSpace(string(text))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.admin+"/backup", http.NoBody)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	own := r.socket()
	r.t.Cleanup(own.CloseIdleConnections)
	return (&http.Client{Transport: own}).Do(req)
}

// acked are numbers up to which everything was acknowledged.
type acked struct{ deliveries, artifacts atomic.Int64 }

func loadOctets(i int64) []byte { return bytes.Repeat(fmt.Appendf(nil, "artifact %d ", i), 9000) }

// loads publishes and uploads until ctx ends.
func (r *running) loads(ctx context.Context, done *acked) (wait func()) {
	var work sync.WaitGroup
	_, publisher := relayPeer(r.t, r, r.addrs[0])
	uploader := r.mustDial(r.addrs[1]).Session
	work.Go(func() {
		for i := int64(1); ctx.Err() == nil; i++ {
			if _, err := relay.Send(ctx, publisher, &relay.Publication{ID: fmt.Append(nil, i), Topic: "t", Payload: loadOctets(i)[:1000]}); err != nil {
				if ctx.Err() == nil {
					r.t.Errorf("delivery %d: %v", i, err)
				}
				return
			}
			done.deliveries.Store(i)
		}
	})
	work.Go(func() {
		for i := int64(1); ctx.Err() == nil; i++ {
			octets := loadOctets(i)
			u := artifact.Upload{ArtifactID: fmt.Sprint(i), Size: uint64(len(octets)), Hash: sha256.Sum256(octets), Octets: bytes.NewReader(octets), Sync: syncPlain}
			if err := u.Send(ctx, uploader); err != nil {
				if ctx.Err() == nil {
					r.t.Errorf("artifact %d: %v", i, err)
				}
				return
			}
			done.artifacts.Store(i)
		}
	})
	return work.Wait
}

// untilTrue polls for what other goroutines count.
func untilTrue(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the load stands still")
		}
	}
}

func TestABackupUnderLoadHasAllThatWasAcknowledgedBeforeIt(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	ctx, stop := context.WithCancel(t.Context())
	var done acked
	wait := r.loads(ctx, &done)
	untilTrue(t, func() bool { return done.deliveries.Load() >= 50 && done.artifacts.Load() >= 5 })
	deliveries, artifacts := done.deliveries.Load(), done.artifacts.Load()
	resp, err := r.backup(t.Context(), "")
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%+v, %v", resp, err)
	}
	// It is read slowly, so that the load goes on meanwhile.
	var file bytes.Buffer
	for err == nil {
		_, err = io.CopyN(&file, resp.Body, 64<<10)
		more := done.deliveries.Load()
		untilTrue(t, func() bool { return done.deliveries.Load() > more })
	}
	_ = resp.Body.Close()
	if err != io.EOF {
		t.Fatal(err)
	}
	var n Transferred
	if err := json.Unmarshal([]byte(resp.Trailer.Get(HeaderSummary)), &n); err != nil || n.Bytes != int64(file.Len()) {
		t.Errorf("summary %+v, %v; %d octets", n, err, file.Len())
	}
	if sum := fmt.Sprintf("%x", sha256.Sum256(file.Bytes())); resp.Trailer.Get(HeaderDigest) != sum {
		t.Errorf("digest %s, want %s", resp.Trailer.Get(HeaderDigest), sum)
	}
	stop()
	wait()
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d deliveries and %d artifacts before the backup, %d and %d after; %d octets", deliveries, artifacts, done.deliveries.Load(), done.artifacts.Load(), file.Len())

	// Restored into an empty directory.
	c, err := config.Load(filepath.Join(r.dir, "swpd.yaml"), nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Data = filepath.Join(r.dir, "restored")
	transfer := Transfer{Config: c, Log: t.Output()}
	if _, err := transfer.Import(t.Context(), &file); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(r.dir, "data")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(c.Data, filepath.Join(r.dir, "data")); err != nil {
		t.Fatal(err)
	}
	r = startIn(t, r.dir, "")
	_, asks := relayPeer(t, r, r.addrs[0])
	for i := int64(1); i <= deliveries; i++ {
		if state, _, err := relay.Ask(t.Context(), asks, fmt.Append(nil, i)); err != nil || state != relay.Queued {
			t.Fatalf("delivery %d of %d: %q, %v", i, deliveries, state, err)
		}
	}
	s := r.mustDial(r.addrs[1])
	for i := int64(1); i <= artifacts; i++ {
		var back bytes.Buffer
		_, err := artifact.Download{ArtifactID: fmt.Sprint(i), Sink: func(c *artifact.Chunk) error { back.Write(c.Data); return nil }}.Receive(t.Context(), s.Session)
		if err != nil || !bytes.Equal(back.Bytes(), loadOctets(i)) {
			t.Fatalf("artifact %d of %d: %d octets, %v", i, artifacts, back.Len(), err)
		}
	}
}

func TestABackupIsForThoseWhoCanReadTheDataDirectory(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	info, err := os.Stat(filepath.Join(r.dir, "data", AdminToken))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the token: %v, %v", info, err)
	}
	for _, token := range []string{"wrong", " "} {
		resp, err := r.backup(t.Context(), token)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(resp.Body); resp.StatusCode != http.StatusUnauthorized || err != nil || len(body) > 500 {
			t.Errorf("token %q: %s %s, %v", token, resp.Status, body, err)
		}
		_ = resp.Body.Close()
	}
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(r.dir, "data", AdminToken)); !os.IsNotExist(err) {
		t.Errorf("after the stop: %v", err)
	}
	r = startIn(t, r.dir, "store: memory\n")
	resp, err := r.backup(t.Context(), "any")
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(resp.Body); resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), "the store is in memory") {
		t.Errorf("in memory: %s %s, %v", resp.Status, body, err)
	}
	_ = resp.Body.Close()
}

// A backup whose reader stands still keeps neither another one nor a stop waiting.
func TestAStopEndsABackup(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	s := r.mustDial(r.addrs[0])
	octets := bytes.Repeat([]byte("0123456789abcdef"), 2<<20) // more than sockets hold
	u := artifact.Upload{ArtifactID: "x", Size: uint64(len(octets)), Hash: sha256.Sum256(octets), Octets: bytes.NewReader(octets), Sync: syncPlain}
	if err := u.Send(t.Context(), s.Session); err != nil {
		t.Fatal(err)
	}
	resp, err := r.backup(t.Context(), "")
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%+v, %v", resp, err)
	}
	second, err := r.backup(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if body, _ := io.ReadAll(second.Body); second.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), "another backup runs") {
		t.Errorf("a second one: %s %s", second.Status, body)
	}
	_ = second.Body.Close()
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	r.await(`"msg":"a backup ended early"`)
	if n, err := io.Copy(io.Discard, resp.Body); err == nil {
		t.Errorf("the backup ended in order after %d octets", n)
	}
	_ = resp.Body.Close()
}
