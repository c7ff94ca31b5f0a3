package fetch_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/fetch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// names is a resolver that knows a few names and every literal address.
type names map[string][]string

func (n names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr}, nil
	}
	var addrs []netip.Addr
	for _, s := range n[host] {
		addrs = append(addrs, netip.MustParseAddr(s))
	}
	if len(addrs) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return addrs, nil
}

var (
	here     = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	resolver = names{"example.com": {"127.0.0.1"}}
)

// serve starts a server that example.com is the name of, and returns the address
// of its root and what a Fetcher needs to reach it.
func serve(t *testing.T, handler http.HandlerFunc) (string, fetch.Options) {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	pool := server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return "https://example.com:" + port, fetch.Options{TLS: &tls.Config{RootCAs: pool}, Allow: here, Resolver: resolver}
}

func TestPR18OtherHostsAreNotAsked(t *testing.T) {
	at, o := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{}`) })
	o.Hosts = []string{"example.com"}
	f := fetch.New(o)
	if _, err := f.Fetch(at); err != nil {
		t.Error(err)
	}
	for _, host := range []string{"sub.example.com", "example.com.evil.example", "127.0.0.1", "evil.example"} {
		if _, err := f.Fetch(strings.Replace(at, "example.com", host, 1)); !errors.Is(err, fetch.ErrURI) {
			t.Errorf("%s: %v", host, err)
		}
	}
}

func TestADocumentIsFetched(t *testing.T) {
	at, o := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/schema.json" || r.Host[:11] != "example.com" {
			t.Errorf("asked for %s of %s", r.URL, r.Host)
		}
		fmt.Fprint(w, ` {"type":"object"} `)
	})
	v, err := fetch.New(o).Fetch(at + "/schema.json")
	if err != nil || v.String() != `{"type":"object"}` {
		t.Errorf("%v, %v", v, err)
	}
}

// The document counts only with the hash that the envelope names.
func TestAnEnvelopeWithADocumentElsewhere(t *testing.T) {
	document := `{"type":"object"}`
	at, o := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, document) })
	who := sdl.Identity{AgentID: "a", Name: "n", Instance: "i", Role: "r"}
	payload := canonical.Object(canonical.Member{Name: "base", Value: canonical.String("")}, canonical.Member{Name: "patch", Value: canonical.Array()})
	envelope := sdl.New(sdl.TypeReq, sdl.CTState, who, who, payload, sdl.Writing{}).With("schema", canonical.Object(
		canonical.Member{Name: "kind", Value: canonical.String("uri")},
		canonical.Member{Name: "uri", Value: canonical.String(at + "/")},
		canonical.Member{Name: "id", Value: canonical.String("sha256:a2c799262a3ce3c19ef5cdd983bf3d12b43ab3c426227091b909dcb7054738c0")},
	))
	options := sdl.Options{Fetch: fetch.New(o).Fetch}
	if _, refused := sdl.Validate(envelope, options); refused != nil {
		t.Error(refused)
	}
	document = `{"type":"object","title":"another"}`
	if _, refused := sdl.Validate(envelope, options); refused == nil || refused.Code != sdl.SchemaInvalid {
		t.Errorf("another document: %v", refused)
	}
}

func TestAddressesThatAreRefusedAsTheyAre(t *testing.T) {
	for _, uri := range []string{
		"file:///etc/passwd", "ftp://example.com/", "gopher://example.com/", "http://example.com/", "HTTP://example.com/", "//example.com/", "/x", "x", "",
		"https://", "https:///x", "https://user@example.com/", "https://user:password@example.com/", "https://%zz/", "https://example.com:port/",
		"https://localhost/", "https://LOCALHOST./", "https://a.localhost/", "https://printer.local/", "https://printer.LOCAL./", "https:example.com",
	} {
		f := fetch.New(fetch.Options{Resolver: unused{t}})
		if v, err := f.Fetch(uri); !errors.Is(err, fetch.ErrURI) || strings.Contains(fmt.Sprint(err), "password") {
			t.Errorf("%q: %v, %v", uri, v, err)
		}
	}
}

type unused struct{ t *testing.T }

func (u unused) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	u.t.Errorf("%q is looked up", host)
	return nil, errors.New("unused")
}

func TestPR18HostsThatAreNotPublicAreNotConnectedTo(t *testing.T) {
	connected := make(chan net.Addr, 10)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connected <- conn.RemoteAddr()
			conn.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	f := fetch.New(fetch.Options{HTTP: true, Resolver: names{
		"rebound.example": {"127.0.0.1"}, "mixed.example": {"93.184.215.14", "127.0.0.1"}, "2130706433": {"127.0.0.1"}, "0x7f.1": {"127.0.0.1"},
	}})
	for _, host := range []string{"rebound.example", "mixed.example", "2130706433", "0x7f.1", "127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "[::]", "169.254.169.254"} {
		for _, scheme := range []string{"http://", "https://"} {
			if v, err := f.Fetch(scheme + host + ":" + port + "/"); !errors.Is(err, fetch.ErrAddress) {
				t.Errorf("%s: %v, %v", host, v, err)
			}
		}
	}
	listener.Close()
	<-done
	if len(connected) > 0 {
		t.Errorf("%d connections", len(connected))
	}
}

func TestPublicAddresses(t *testing.T) {
	for _, s := range []string{"93.184.215.14", "1.1.1.1", "172.15.255.255", "172.32.0.1", "100.63.255.255", "100.128.0.0", "223.255.255.255", "2606:4700::1111", "2a00::1", "::ffff:1.1.1.1"} {
		if !fetch.Public(netip.MustParseAddr(s)) {
			t.Errorf("%s is not public", s)
		}
	}
	for _, s := range []string{
		"127.0.0.1", "127.255.255.255", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254", "100.64.0.0", "100.127.255.255",
		"0.0.0.0", "0.1.2.3", "192.0.0.8", "192.0.2.1", "192.88.99.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:0:127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1", "2002:7f00:1::", "2001::1", "2001:db8::1", "3fff::1",
		"fc00::1", "fd00::1", "fe80::1", "fec0::1", "ff02::1", "100::1", "5f00::1", "2606:4700::1%eth0",
	} {
		if fetch.Public(netip.MustParseAddr(s)) {
			t.Errorf("%s is public", s)
		}
	}
	if fetch.Public(netip.Addr{}) {
		t.Error("no address is public")
	}
}

func TestAnswersThatAreNoDocument(t *testing.T) {
	var asked atomic.Int32
	at, o := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, "/ok", http.StatusFound)
		case "/missing":
			http.NotFound(w, r)
		case "/partial":
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "{}")
		case "/text":
			fmt.Fprint(w, "no document")
		case "/twice":
			fmt.Fprint(w, `{"a":1,"a":2}`)
		case "/zipped":
			if r.Header.Get("Accept-Encoding") != "" {
				t.Error("a compressed document is asked for")
			}
			w.Header().Set("Content-Encoding", "gzip")
			fmt.Fprint(w, "\x1f\x8b")
		case "/exact":
			fmt.Fprint(w, `"`+strings.Repeat("x", 98)+`"`)
		case "/over":
			fmt.Fprint(w, `"`+strings.Repeat("x", 99)+`"`)
		case "/endless":
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 4096)); err != nil {
					return
				}
			}
		}
	})
	o.MaxBytes = 100
	f := fetch.New(o)
	if _, err := f.Fetch(at + "/exact"); err != nil {
		t.Error(err)
	}
	for path, want := range map[string]error{
		"/redirect": fetch.ErrStatus, "/missing": fetch.ErrStatus, "/over": fetch.ErrSize, "/endless": fetch.ErrSize,
		"/partial": nil, "/text": nil, "/twice": nil, "/zipped": nil,
	} {
		asked.Store(0)
		v, err := f.Fetch(at + path)
		if err == nil || want != nil && !errors.Is(err, want) || asked.Load() != 1 {
			t.Errorf("%s: %v, %v, asked %d times", path, v, err, asked.Load())
		}
	}
}

func TestOnlyTheServerThatIsNamedAnswers(t *testing.T) {
	at, o := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("asked") })
	_, port, _ := strings.Cut(at[len("https://"):], ":")
	o.Resolver = names{"another.example": {"127.0.0.1"}}
	if _, err := fetch.New(o).Fetch("https://another.example:" + port + "/"); err == nil {
		t.Error("the certificate of another host is accepted")
	}
	o.TLS = nil
	o.Resolver = resolver
	if _, err := fetch.New(o).Fetch(at + "/"); err == nil {
		t.Error("an unknown root is trusted")
	}
}

func TestTimeAndNumberAreBounded(t *testing.T) {
	arrived, over := make(chan struct{}, 2), make(chan struct{})
	at, o := serve(t, func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-over
	})
	t.Cleanup(func() { close(over) }) // before that of the server
	o.Total, o.Calls = time.Second, 1
	f := fetch.New(o)
	first := make(chan error, 1)
	go func() {
		_, err := f.Fetch(at + "/")
		first <- err
	}()
	<-arrived
	if _, err := f.Fetch(at + "/"); !errors.Is(err, fetch.ErrBusy) {
		t.Errorf("a second one at a time: %v", err)
	}
	if err := <-first; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a server that says nothing: %v", err)
	}
	if _, err := f.Fetch(at + "/"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one after the other: %v", err)
	}
}
