package sharedblobs_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/store/sharedblobs"
)

// gateway is a server process of S3, with files below a directory.
type gateway struct {
	dir     string // has a directory for each bucket
	address string
	args    []string // of the process, besides the address and the directory
	process *exec.Cmd
	ended   chan struct{}
}

// Credentials of every gateway.
const (
	accessKey = "test"
	secretKey = "the secret of the test"
)

// program returns the path of versitygw, which is built once and kept in the build cache. A
// test that needs it is skipped, with the reason, where it cannot be built.
var program = sync.OnceValues(func() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "go", "tool", "-n", "-modfile=../../tools/versitygw/go.mod", "versitygw").Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %.300s", err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
})

// newGateway starts a gateway, which ends with the test.
func newGateway(t testing.TB, args ...string) *gateway {
	t.Helper()
	if !effort.Long() {
		t.Skip("it is a long test, because versitygw is built for minutes the first time; the same runs on a directory")
	}
	if _, err := program(); err != nil {
		t.Skipf("versitygw cannot be built: %v", err)
	}
	g := &gateway{dir: t.TempDir(), args: args}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g.address = l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	g.start(t)
	t.Cleanup(func() { g.stop() })
	return g
}

// start starts the process at the address of the gateway, and waits until it answers.
func (g *gateway) start(t testing.TB) {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	g.process = exec.Command(path, slices.Concat([]string{"--port", g.address, "--quiet"}, g.args, []string{"posix", g.dir})...)
	g.process.Env = []string{"ROOT_ACCESS_KEY=" + accessKey, "ROOT_SECRET_KEY=" + secretKey, "PATH=" + os.Getenv("PATH"), "HOME=" + g.dir}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	g.process.Stdout, g.process.Stderr = log, log
	if err := g.process.Start(); err != nil {
		t.Fatal(err)
	}
	g.ended = make(chan struct{})
	go func() {
		_ = g.process.Wait() // it is killed
		close(g.ended)
	}()
	for {
		conn, err := net.Dial("tcp", g.address)
		if err == nil {
			_ = conn.Close()
			return
		}
		select {
		case <-g.ended:
			said, _ := os.ReadFile(log.Name())
			t.Fatalf("versitygw has ended: %.1000s", said)
		case <-t.Context().Done():
			t.Fatal(err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// stop kills the process.
func (g *gateway) stop() {
	_ = g.process.Process.Kill() // it may have ended
	<-g.ended
}

// bucket returns a bucket of the gateway, and makes it the first time.
func (g *gateway) bucket(t testing.TB, name string) *sharedblobs.Bucket {
	t.Helper()
	if err := os.Mkdir(filepath.Join(g.dir, name), 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
	b, err := sharedblobs.NewBucket(sharedblobs.BucketOptions{
		Endpoint: "http://" + g.address, Name: name, Prefix: "swp/", Region: "us-east-1", CredentialsFile: credentials(t, secretKey),
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// credentials returns a file with credentials.
func credentials(t testing.TB, secret string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "credentials")
	text := "[default]\naws_access_key_id = " + accessKey + "\naws_secret_access_key = " + secret + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
