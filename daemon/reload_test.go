package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/transport"
)

// copyFile puts the content of one file into another.
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func appendFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(to, os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// foreign makes identities of another authority.
func foreign(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := devpki.Create(dir, devpki.Options{Name: "spiffe://other/swpd"}); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestTL10NewLeafIsUsedWithoutDroppingAnyone(t *testing.T) {
	r := start(t, "")
	pki := filepath.Join(r.dir, "pki")
	before := r.mustDial(r.addrs[0])

	ctx, stop := context.WithCancel(t.Context())
	var calls atomic.Int64
	var load sync.WaitGroup
	load.Go(func() {
		for ctx.Err() == nil {
			if err := echo(t, before); err != nil {
				t.Errorf("a peer that was connected: %v", err)
				return
			}
			calls.Add(1)
		}
	})
	// The server is known by another authority from now on, and so must the
	// client know it.
	other := foreign(t)
	appendFile(t, filepath.Join(other, "ca.crt"), filepath.Join(pki, "ca.crt"))
	copyFile(t, filepath.Join(other, "server.key"), filepath.Join(pki, "server.key"))
	copyFile(t, filepath.Join(other, "server.crt"), filepath.Join(pki, "server.crt"))
	r.reload <- struct{}{}
	r.await(`"identity":"spiffe://other/swpd"`)
	for _, address := range r.addrs[:2] {
		if got := r.mustDial(address).Peer().Identity; got != "spiffe://other/swpd" {
			t.Errorf("%s: the server is %q, want the new identity", address, got)
		}
	}
	stop()
	load.Wait()
	if calls.Load() == 0 {
		t.Error("no call was made meanwhile")
	}
}

func TestTL10ChangedFilesAreFoundWithoutASignal(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	other := foreign(t)
	pki := filepath.Join(r.dir, "pki")
	copyFile(t, filepath.Join(other, "server.key"), filepath.Join(pki, "server.key"))
	copyFile(t, filepath.Join(other, "server.crt"), filepath.Join(pki, "server.crt"))
	r.await(`"identity":"spiffe://other/swpd"`)
}

func TestTL10PeersOfARemovedAuthorityAreClosedAndRefused(t *testing.T) {
	r := start(t, "")
	pki, other := filepath.Join(r.dir, "pki"), foreign(t)
	appendFile(t, filepath.Join(other, "ca.crt"), filepath.Join(pki, "ca.crt"))
	r.reload <- struct{}{}
	r.await("peers held against the new trust anchors and rules")

	stranger := devpki.Client(other)
	stranger.CA = filepath.Join(pki, "ca.crt")
	for _, address := range r.addrs[:2] {
		kept := r.mustDial(address)
		gone, err := dialWith(t, address, stranger)
		if err == nil {
			err = echo(t, gone)
		}
		if err != nil {
			t.Fatal(err)
		}

		with := filepath.Join(t.TempDir(), "ca.crt")
		copyFile(t, filepath.Join(pki, "ca.crt"), with)
		whole, err := os.ReadFile(with)
		if err != nil {
			t.Fatal(err)
		}
		const end = "-----END CERTIFICATE-----\n"
		first, _, _ := strings.Cut(string(whole), end)
		if err := os.WriteFile(filepath.Join(pki, "ca.crt"), []byte(first+end), 0o600); err != nil {
			t.Fatal(err)
		}
		r.reload <- struct{}{}
		select {
		case <-gone.Context().Done():
		case <-time.After(patience):
			t.Fatalf("%s: a peer that is not trusted any more is still connected", address)
		}
		if err := echo(t, kept); err != nil {
			t.Errorf("%s: a trusted peer: %v", address, err)
		}
		stranger.CA = with
		if s, err := dialWith(t, address, stranger); err == nil && echo(t, s) == nil {
			t.Errorf("%s: a peer that is not trusted any more was let in", address)
		}
		copyFile(t, with, filepath.Join(pki, "ca.crt")) // for the next transport
		stranger.CA = filepath.Join(pki, "ca.crt")
		r.reload <- struct{}{}
		r.reload <- struct{}{} // returns when the one before is done
	}
	r.await(`"class":"security","msg":"security event","err_code":"ERR_SECURITY_POLICY","reason":"untrusted"`)
}

func TestTL10CorruptFilesKeepTheOldOnesAndWarn(t *testing.T) {
	r := start(t, "")
	pki := filepath.Join(r.dir, "pki")
	for _, name := range []string{"server.key", "server.crt", "ca.crt"} {
		good := filepath.Join(t.TempDir(), name)
		copyFile(t, filepath.Join(pki, name), good)
		if err := os.WriteFile(filepath.Join(pki, name), []byte("-----BEGIN nothing"), 0o600); err != nil {
			t.Fatal(err)
		}
		r.reload <- struct{}{}
		r.reload <- struct{}{} // returns when the one before is done
		status, _ := r.get("/readyz")
		if body := r.warned(); status != 200 || !strings.Contains(body, "certificates not reloaded, the old ones stay in use: ") || !strings.Contains(body, name) {
			t.Errorf("%s: /readyz says %d, warnings %q", name, status, body)
		}
		copyFile(t, good, filepath.Join(pki, name))
		r.reload <- struct{}{}
		r.reload <- struct{}{}
		if _, body := r.get("/readyz"); body != "ready\n" {
			t.Errorf("%s restored: /readyz says %q", name, body)
		}
		r.mustDial(r.addrs[0])
	}
}

func TestReloadRefusesAKeyThatEveryUserCanRead(t *testing.T) {
	r := start(t, "")
	key := filepath.Join(r.dir, "pki", "server.key")
	if err := os.Chmod(key, 0o644); err != nil {
		t.Fatal(err)
	}
	r.reload <- struct{}{}
	r.await("so every user can reach the secret in it")
}

// The list itself changes, not only the files that it names. Meanwhile every call of a
// trusted peer is answered. A peer whose authority is removed is cut off.
func TestTL10AuthoritiesAreAddedToTheListAndTakenFromIt(t *testing.T) {
	overTLSAndQUIC(t, func(t *testing.T, number int) {
		r := start(t, childYAML(t)+everyoneYAML)
		other := foreign(t)
		stranger := devpki.Client(other)
		ca := stranger.CA
		stranger.CA = filepath.Join(r.dir, "pki", "ca.crt")
		kept, busy := r.mustDial(r.addrs[number]), r.mustDial(r.addrs[number])
		answer, release := kept.waits(t, "child", kept.begin(t, "child"))
		ctx, stop := context.WithCancel(t.Context())
		var load sync.WaitGroup
		var calls atomic.Int64
		load.Go(func() {
			for ctx.Err() == nil {
				if err := echo(t, busy); err != nil {
					t.Errorf("a call of a trusted peer: %v", err)
					return
				}
				calls.Add(1)
			}
		})
		r.rewrite("ca: [pki/ca.crt]", "ca: [pki/ca.crt, '"+ca+"']")
		if got := r.reloads(); len(got.Problems)+len(got.Later) > 0 {
			t.Errorf("answer %+v", got)
		}
		gone, err := dialWith(t, r.addrs[number], stranger)
		if err == nil {
			err = echo(t, gone)
		}
		if err != nil {
			t.Fatalf("a peer of the new authority: %v", err)
		}
		lost, unneeded := gone.waits(t, "child", gone.begin(t, "child"))
		defer unneeded()
		last := make(chan error, 1)
		load.Go(func() {
			for {
				if err := echo(t, gone); err != nil {
					last <- err
					return
				}
			}
		})
		r.rewrite("ca: [pki/ca.crt, '"+ca+"']", "ca: [pki/ca.crt]")
		r.reloaded()
		select {
		case <-gone.Context().Done():
		case <-time.After(patience):
			t.Fatal("a peer that is not trusted any more is still connected")
		}
		// It is cut off without an answer. QUIC has a code for the reason; the log has it always.
		if got := <-lost; strings.Contains(got, "result") {
			t.Errorf("the call of a peer that is not trusted any more: %s", got)
		}
		if err := <-last; gone.Context().Err() == nil {
			t.Errorf("a call of the new authority: %v", err)
		}
		if closed, ok := errors.AsType[*transport.CloseError](context.Cause(gone.Context())); number == 1 && (!ok || closed.Code != uint64(profiles.SecurityPolicy)) {
			t.Errorf("the connection has ended with %v, want the code of SECURITY_POLICY", context.Cause(gone.Context()))
		}
		r.await(`"reason":"untrusted"`)
		if s, err := dialWith(t, r.addrs[number], stranger); err == nil && echo(t, s) == nil {
			t.Error("a peer that is not trusted any more was let in")
		}
		stop()
		load.Wait()
		if calls.Load() == 0 {
			t.Error("no call was made meanwhile")
		}
		release()
		if got, want := <-answer, `{"jsonrpc":"2.0","id":1,"result":"waited"}`; got != want {
			t.Errorf("the call of a trusted peer that was under way: %s, want %s", got, want)
		}
		if err := echo(t, kept); err != nil {
			t.Errorf("a trusted peer: %v", err)
		}
	})
}

// waits calls a tool of a child that answers when release is called, and returns when it
// has begun.
func (s *session) waits(t *testing.T, target, session string) (answer <-chan string, release func()) {
	t.Helper()
	return s.waitsIn(t.Context(), t, target, session)
}

func (s *session) waitsIn(ctx context.Context, t *testing.T, target, session string) (answer <-chan string, release func()) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	told := make(chan string, 1)
	go func() {
		result, err := s.askIn(ctx, mcpmap.Call{
			Target: target, Session: session,
			Octets: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait","arguments":{"socket":%q}}}`, socket),
		})
		if err != nil {
			told <- err.Error()
			return
		}
		told <- string(result.Octets)
	}()
	waiting, err := ln.Accept() // the call has reached the child
	if err != nil {
		t.Fatal(err)
	}
	return told, func() { _ = waiting.Close() }
}

func TestTL10AnotherCertificateIsNamed(t *testing.T) {
	r := start(t, "")
	other := devpki.Server(foreign(t))
	before := r.mustDial(r.addrs[0])
	r.rewrite("cert: pki/server.crt, key: pki/server.key", "cert: '"+other.Cert+"', key: '"+other.Key+"'")
	if got := r.reloads(); len(got.Problems)+len(got.Later) > 0 {
		t.Errorf("answer %+v", got)
	}
	appendFile(t, other.CA, filepath.Join(r.dir, "pki", "ca.crt")) // for the client
	if got := r.mustDial(r.addrs[0]).Peer().Identity; got != "spiffe://other/swpd" {
		t.Errorf("the server is %q, want the new identity", got)
	}
	if err := echo(t, before); err != nil {
		t.Errorf("a peer that was connected: %v", err)
	}
	// Whether there is one at all is decided at the start.
	r.rewrite("identity: {cert: '"+other.Cert+"', key: '"+other.Key+"'}\ntrust: {ca: [pki/ca.crt]}\n", "")
	if got := r.reloads(); !slices.Equal(got.Later, []string{"identity.cert", "identity.key", "trust.ca"}) || len(got.Problems)+len(got.Changed) > 0 {
		t.Errorf("answer %+v", got)
	}
	if status, body := r.get("/status"); status != 200 || !strings.Contains(body, "spiffe://other/swpd") {
		t.Errorf("/status says %d %s", status, body)
	}
}

// What was taken up because the file had changed is in the answer to the next request, once.
func TestAReloadNamesWhatTheFileHasChangedSinceTheLast(t *testing.T) {
	t.Parallel()
	r := start(t, onlySay)
	r.rewrite("[initialize, tools/call]", "[initialize]")
	r.eventually("the reload of a changed file", func() bool { return strings.Contains(r.log.String(), `"access rules reloaded"`) })
	for _, want := range [][]string{{"access.rules"}, {}} {
		if got := r.reloads(); !slices.Equal(got.Changed, want) {
			t.Errorf("changed is %q, want %q", got.Changed, want)
		}
	}
}
