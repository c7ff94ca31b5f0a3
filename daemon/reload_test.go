package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slimwire/swp/daemon/devpki"
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
		status, body := r.get("/readyz")
		if status != 200 || !strings.Contains(body, "warning: certificates not reloaded, the old ones stay in use: ") || !strings.Contains(body, name) {
			t.Errorf("%s: /readyz says %d %q", name, status, body)
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
	r.await("so every user can reach the private key")
}

// The list itself changes, not only the files that it names.
func TestTL10AuthoritiesAreAddedToTheListAndTakenFromIt(t *testing.T) {
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		r := start(t, "")
		other := foreign(t)
		stranger := devpki.Client(other)
		ca := stranger.CA
		stranger.CA = filepath.Join(r.dir, "pki", "ca.crt")
		kept := r.mustDial(r.addrs[transport])
		r.rewrite("ca: [pki/ca.crt]", "ca: [pki/ca.crt, '"+ca+"']")
		if got := r.reloads(); len(got.Problems)+len(got.Later) > 0 {
			t.Errorf("answer %+v", got)
		}
		gone, err := dialWith(t, r.addrs[transport], stranger)
		if err == nil {
			err = echo(t, gone)
		}
		if err != nil {
			t.Fatalf("a peer of the new authority: %v", err)
		}
		r.rewrite("ca: [pki/ca.crt, '"+ca+"']", "ca: [pki/ca.crt]")
		r.reloaded()
		select {
		case <-gone.Context().Done():
		case <-time.After(patience):
			t.Fatal("a peer that is not trusted any more is still connected")
		}
		if s, err := dialWith(t, r.addrs[transport], stranger); err == nil && echo(t, s) == nil {
			t.Error("a peer that is not trusted any more was let in")
		}
		if err := echo(t, kept); err != nil {
			t.Errorf("a trusted peer: %v", err)
		}
	})
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
