package sharedblobs_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/sharedblobs"
	"github.com/slimwire/swp/transport/transporttest"
)

func TestBothKindsOfObjectsAnswerAlike(t *testing.T) {
	onEach(t, func(t *testing.T, c *cluster) {
		o, ctx := c.objects(), t.Context()
		defer func() { _ = o.Close() }()
		octets := random(2000)
		if _, err := o.ReadAt(ctx, "octets/a/1", make([]byte, 9), 0); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("ReadAt of a missing object: %v", err)
		}
		if err := o.Delete(ctx, "octets/a/1"); err != nil {
			t.Errorf("Delete of a missing object: %v", err)
		}
		for i := range 3 {
			for _, key := range []string{"octets/a/1", "octets/a/2", "octets/b/1", "other/1"} {
				if err := o.Put(ctx, key, octets[i:]); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, r := range []struct {
			at   int64
			n    int
			want int
			err  error
		}{{0, 1998, 1998, nil}, {0, 0, 0, nil}, {100, 7, 7, nil}, {1997, 1, 1, nil}, {1990, 100, 8, io.EOF}, {1998, 1, 0, io.EOF}, {5000, 1, 0, io.EOF}} {
			p := make([]byte, r.n)
			n, err := o.ReadAt(ctx, "octets/a/1", p, r.at)
			if n != r.want || !errors.Is(err, r.err) || n > 0 && !bytes.Equal(p[:n], octets[2:][r.at:r.at+int64(n)]) {
				t.Errorf("ReadAt(%d octets at %d) = %d, %v, want %d, %v", r.n, r.at, n, err, r.want, r.err)
			}
		}
		for i, want := range []bool{true, false} {
			if made, err := o.Create(ctx, "mark", octets[i:]); made != want || err != nil {
				t.Errorf("Create = %v, %v, want %v", made, err, want)
			}
		}
		p := make([]byte, len(octets))
		if _, err := o.ReadAt(ctx, "mark", p, 0); err != nil || !bytes.Equal(p, octets) {
			t.Errorf("the object of the first Create: %v", err)
		}
		list := func(prefix string) (keys []string) {
			t.Helper()
			err := o.List(ctx, prefix, func(key string, written time.Time) bool {
				if age := time.Since(written); age < -time.Minute || age > 10*time.Minute {
					t.Errorf("%s was written %v ago", key, age)
				}
				keys = append(keys, key)
				return true
			})
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(keys)
			return keys
		}
		if got := list("octets/"); !slices.Equal(got, []string{"octets/a/1", "octets/a/2", "octets/b/1"}) {
			t.Errorf("List = %q", got)
		}
		if err := o.Delete(ctx, "octets/a/1", "octets/a/3", "octets/b/1"); err != nil {
			t.Fatal(err)
		}
		if got := list("octets/"); !slices.Equal(got, []string{"octets/a/2"}) {
			t.Errorf("List = %q", got)
		}
		if got := list("none/"); got != nil {
			t.Errorf("List = %q", got)
		}
		ended, end := context.WithCancel(ctx)
		end()
		for what, err := range map[string]error{
			"Put": o.Put(ended, "a", octets), "Delete": o.Delete(ended, "octets/a/2"),
			"List": o.List(ended, "octets/", func(string, time.Time) bool { return true }),
		} {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s after the end of its context: %v", what, err)
			}
		}
	})
}

func TestABucketIsReachedByTLSWithTheAuthorityOfItsOptions(t *testing.T) {
	ca, dir := transporttest.NewCA(t), t.TempDir()
	cert := ca.Issue(t, transporttest.Named("spiffe://example.org/s3"))
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile := filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	var chain []byte
	for _, der := range cert.Certificate {
		chain = append(chain, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	for file, text := range map[string][]byte{certFile: chain, keyFile: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g := newGateway(t, "--cert", certFile, "--key", keyFile)
	if err := os.Mkdir(filepath.Join(g.dir, "bucket"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		pool *x509.CertPool
		file string
		fine bool
	}{
		{"the authority", ca.Pool(), credentials(t, secretKey), true},
		{"another authority", transporttest.NewCA(t).Pool(), credentials(t, secretKey), false},
		{"another secret", ca.Pool(), credentials(t, "a wrong secret"), false},
	} {
		b, err := sharedblobs.NewBucket(sharedblobs.BucketOptions{
			Endpoint: "https://" + g.address, Name: "bucket", Region: "us-east-1", CredentialsFile: test.file, TLS: &tls.Config{RootCAs: test.pool},
		})
		if err != nil {
			t.Fatal(err)
		}
		s, err := sharedblobs.Open(t.Context(), sharedblobs.Options{Records: newRecords(t), Space: "blobs", Objects: b})
		if !test.fine {
			if !errors.Is(err, store.ErrUnavailable) || strings.Contains(fmt.Sprint(err), "secret") && !strings.Contains(fmt.Sprint(err), "secret access key") {
				t.Errorf("%s: %v, want ErrUnavailable without the secret", test.name, err)
			}
			_ = b.Close()
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		put(t, s, "a", random(100_000))
		if got, err := read(t, s, "a"); err != nil || !bytes.Equal(got, random(100_000)) {
			t.Errorf("%s: %v", test.name, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestCredentialsComeFromTheEnvironment(t *testing.T) {
	g := newGateway(t)
	if err := os.Mkdir(filepath.Join(g.dir, "bucket"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", accessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", secretKey)
	b, err := sharedblobs.NewBucket(sharedblobs.BucketOptions{Endpoint: "http://" + g.address, Name: "bucket", Region: "us-east-1"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	if err := b.Put(t.Context(), "a", nil); err != nil {
		t.Error(err)
	}
	if got := b.String(); got != "http://"+g.address+"/bucket/" {
		t.Errorf("the bucket is named %q", got)
	}
}

func TestOptionsOfABucketThatCannotWorkAreRefused(t *testing.T) {
	const endpoint = "https://s3.example.org"
	for name, o := range map[string]sharedblobs.BucketOptions{
		"no endpoint":              {Name: "a"},
		"no scheme":                {Endpoint: "s3.example.org", Name: "a"},
		"another scheme":           {Endpoint: "ftp://s3.example.org", Name: "a"},
		"a path":                   {Endpoint: endpoint + "/path", Name: "a"},
		"a password":               {Endpoint: "https://user:a-password@s3.example.org", Name: "a"},
		"a broken password":        {Endpoint: "https://user:a-password%@s3.example.org", Name: "a"},
		"no name":                  {Endpoint: endpoint},
		"a prefix without a slash": {Endpoint: endpoint, Name: "a", Prefix: "b"},
		"a prefix with two":        {Endpoint: endpoint, Name: "a", Prefix: "/b/"},
		"a profile of no file":     {Endpoint: endpoint, Name: "a", Profile: "b"},
		"TLS without TLS":          {Endpoint: "http://s3.example.org", Name: "a", TLS: &tls.Config{}},
	} {
		if _, err := sharedblobs.NewBucket(o); err == nil || strings.Contains(err.Error(), "a-password") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := sharedblobs.NewDirectory(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that is not there: %v", err)
	}
}
