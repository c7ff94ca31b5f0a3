package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/effort"
)

// artifactSize is how large the artifact of the test is, in octets: 64 MiB, or as
// SWP_ARTIFACT_SIZE says. `make artifact-2g` sets it; memory is asserted then.
func artifactSize(t *testing.T) (size int64, asked bool) {
	t.Helper()
	text := os.Getenv("SWP_ARTIFACT_SIZE")
	if text == "" {
		return int64(effort.Rounds(160 << 20)), false
	}
	size, err := strconv.ParseInt(text, 10, 64)
	if err != nil || size < 1<<20 {
		t.Fatalf("SWP_ARTIFACT_SIZE=%q, want at least %d", text, 1<<20)
	}
	return size, true
}

// mostMemory is how much memory swpd and swp-client may have, whatever the size of
// an artifact, in KiB.
const mostMemory = 200 << 10

// windowOctets is more than a client has on its way: what was written of it and not
// acknowledged is cut off again.
const windowOctets = 8 << 20

// peak is the largest resident memory of processes, in KiB.
type peak struct{ swpd, client int }

func (p *peak) look(n *node, cmd *exec.Cmd) {
	p.swpd = max(p.swpd, resident(n.cmd.Process.Pid))
	p.client = max(p.client, resident(cmd.Process.Pid))
}

// resident returns the peak resident memory of a process, 0 if it is gone.
func resident(pid int) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, _ := strconv.Atoi(strings.Fields(value)[0])
			return n
		}
	}
	return 0
}

// transfer is a swp-client that moves an artifact.
type transfer struct {
	cmd   *exec.Cmd
	out   bytes.Buffer
	ended chan error
}

func (n *node) transfer(t *testing.T, args ...string) *transfer {
	t.Helper()
	x := &transfer{cmd: n.client(append([]string{"artifact"}, args...)...), ended: make(chan error, 1)}
	x.cmd.Stdout, x.cmd.Stderr = &x.out, &x.out
	if err := x.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.cmd.Process.Kill() })
	go func() { x.ended <- x.cmd.Wait() }()
	return x
}

// await waits until so many octets have arrived. Other processes are awaited, so
// there is nothing to wait on but time.
func (x *transfer) await(t *testing.T, n *node, p *peak, arrived func() int64, want int64) {
	t.Helper()
	for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		p.look(n, x.cmd)
		if arrived() >= want {
			return
		}
		select {
		case err := <-x.ended:
			t.Fatalf("it ended with %v before %d octets had arrived: %s", err, want, x.out.String())
		default:
		}
	}
	t.Fatalf("%d octets never arrived", want)
}

func (x *transfer) kill(t *testing.T) {
	t.Helper()
	if err := x.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-x.ended
}

// finish waits for the end, which must be a good one.
func (x *transfer) finish(t *testing.T, n *node, p *peak) {
	t.Helper()
	for {
		select {
		case err := <-x.ended:
			if err != nil {
				t.Fatalf("it ended with %v: %s", err, x.out.String())
			}
			return
		case <-time.After(5 * time.Millisecond):
			p.look(n, x.cmd)
		}
	}
}

// largest returns the size of the largest file of a directory, 0 if there is none.
func largest(dir string) (size int64) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && !e.IsDir() {
			size = max(size, info.Size())
		}
	}
	return size
}

// noise makes a file of random octets and returns its digest.
func noise(t *testing.T, path string, size int64) string {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	h := sha256.New()
	_, err = io.CopyN(io.MultiWriter(f, h), rand.NewChaCha8([32]byte{1}), size)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func digestOf(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// An artifact is uploaded over TLS while its client is killed twice and swpd once,
// and then downloaded the same way. What was durable is not sent again, the digest
// is right at either end, and neither process needs more memory for more octets.
func TestPR10ALargeArtifactSurvivesKills(t *testing.T) {
	t.Parallel()
	size, asked := artifactSize(t)
	n := configured(t, "")
	file := filepath.Join(n.dir, "large")
	sum := noise(t, file, size)
	var p peak

	kept := filepath.Join(n.dir, "data", "artifacts")
	arrived := func() int64 { return largest(kept) }
	put := []string{"put", n.tls, file, "--id", "large"}
	began := time.Now()
	held := int64(0)
	for _, percent := range []int64{15, 35} {
		x := n.transfer(t, put...)
		x.await(t, n, &p, arrived, size*percent/100)
		x.kill(t)
		if now := arrived(); now < held {
			t.Errorf("%d octets are held, %d were", now, held)
		} else {
			held = now
		}
	}
	x := n.transfer(t, put...)
	x.await(t, n, &p, arrived, size*60/100)
	n.kill(t)
	held = arrived()
	n.launch(t)
	if now := arrived(); now < held-windowOctets {
		t.Errorf("%d octets are held after swpd was killed, %d were written", now, held)
	}
	x.finish(t, n, &p)
	t.Logf("%d MiB uploaded in %v, with three kills", size>>20, time.Since(began).Round(time.Millisecond))
	if !strings.Contains(x.out.String(), "; again in ") {
		t.Errorf("the client did not notice that swpd was gone: %s", x.out.String())
	}
	if listed := run(t, n.bin+"/swp-client", "--identity", filepath.Join(n.dir, "pki"), "artifact", "ls", n.tls, "--json"); !strings.Contains(listed, sum) {
		t.Errorf("listed: %s, want the digest %s", listed, sum)
	}

	dir := filepath.Join(n.dir, "downloads")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	got := filepath.Join(dir, "large")
	arrived = func() int64 { return largest(dir) }
	get := []string{"get", n.tls, "large", got}
	began = time.Now()
	for _, percent := range []int64{15, 35} {
		x := n.transfer(t, get...)
		x.await(t, n, &p, arrived, size*percent/100)
		x.kill(t)
		if _, err := os.Stat(got); err == nil {
			t.Error("the file is there before it is complete")
		}
	}
	x = n.transfer(t, get...)
	x.await(t, n, &p, arrived, size*60/100)
	n.kill(t)
	n.launch(t)
	x.finish(t, n, &p)
	t.Logf("%d MiB downloaded in %v, with three kills", size>>20, time.Since(began).Round(time.Millisecond))
	if digest := digestOf(t, got); digest != sum {
		t.Errorf("digest %s, want %s", digest, sum)
	}
	if left := largest(dir); left != size {
		t.Errorf("the largest file is of %d octets, want %d", left, size)
	}
	t.Logf("peak memory: swpd %d MiB, swp-client %d MiB", p.swpd>>10, p.client>>10)
	if asked && (p.swpd > mostMemory || p.client > mostMemory) {
		t.Errorf("peak memory: swpd %d KiB, swp-client %d KiB, want at most %d each", p.swpd, p.client, mostMemory)
	}
}
