package upstream_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/slimwire/swp/internal/bridge/upstream"
	"github.com/slimwire/swp/internal/bridge/upstream/upstreamtest"
	"github.com/slimwire/swp/internal/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newClient(t testing.TB, opts upstream.Options) *upstream.Client {
	c := upstream.New(opts)
	t.Cleanup(c.Close)
	return c
}

func serve(t testing.TB, h http.HandlerFunc) string {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// raw serves each connection with f, which sees the request as octets.
func raw(t testing.TB, f func(conn net.Conn, req *http.Request)) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			if req, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				_, _ = io.Copy(io.Discard, req.Body)
				f(conn, req)
			}
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = ln.Close(); <-done })
	return "http://" + ln.Addr().String()
}

func lines(t testing.TB, r *upstream.Response) (all []string, err error) {
	t.Helper()
	for {
		line, err := r.Line()
		if err != nil {
			return all, err
		}
		all = append(all, string(line))
	}
}

func TestPostSendsWhatItIsGivenAndNothingElse(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	var got http.Header
	var body []byte
	url := serve(t, func(w http.ResponseWriter, req *http.Request) {
		got = req.Header.Clone()
		body, _ = io.ReadAll(req.Body)
		http.SetCookie(w, &http.Cookie{Name: "c", Value: "v"})
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "answer")
	})
	c := newClient(t, upstream.Options{})
	for range 2 {
		header := http.Header{"Swp-Peer": {"spiffe://example.org/a"}, "Idempotency-Key": {`"k"`}}
		r, err := c.Post(t.Context(), url+"/x", header, []byte("question"))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := r.Body()
		r.Close()
		if err != nil || r.Status != http.StatusTeapot || string(answer) != "answer" || string(body) != "question" {
			t.Fatalf("status %d, answer %q to %q, error %v", r.Status, answer, body, err)
		}
		var names []string
		for name := range got {
			names = append(names, name)
		}
		slices.Sort(names)
		want := []string{"Accept-Encoding", "Content-Length", "Idempotency-Key", "Swp-Peer", "User-Agent"}
		if !slices.Equal(names, want) || len(header) != 2 {
			t.Errorf("headers %v, want %v", got, want)
		}
	}
}

func TestGW08RedirectsAreNotFollowed(t *testing.T) {
	var reached atomic.Int64
	other := serve(t, func(http.ResponseWriter, *http.Request) { reached.Add(1) })
	c := newClient(t, upstream.Options{})
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, to := range []string{other, "http://169.254.169.254/latest", "http://2130706433/", "/elsewhere"} {
			url := serve(t, func(w http.ResponseWriter, req *http.Request) {
				if req.URL.Path != "/" {
					reached.Add(1)
				}
				http.Redirect(w, req, to, status)
			})
			r, err := c.Post(t.Context(), url+"/", nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if r.Status != status {
				t.Errorf("%d to %s: status %d", status, to, r.Status)
			}
			r.Close()
		}
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("%d redirects were followed", n)
	}
}

func TestGW08OnlyPlainURLsAreAccepted(t *testing.T) {
	for _, url := range []string{
		"", "://", "host", "/path", "file:///etc/passwd", "unix:///run/x.sock", "gopher://127.0.0.1/", "http://", "http:///x",
		"http://user:secret@127.0.0.1/", "http://user@127.0.0.1/", "http://127.0.0.1/#fragment", "http://127.0.0.1:x/", "http://[::1/",
	} {
		err := upstream.CheckURL(url)
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: error %v, want a refusal without its password", url, err)
		}
		if _, err := newClient(t, upstream.Options{}).Post(t.Context(), url, nil, nil); !errors.Is(err, upstream.ErrUnreached) {
			t.Errorf("%q: Post: %v", url, err)
		}
	}
	for _, url := range []string{"http://127.0.0.1:1/x?y=z", "https://[::1]/", "http://backend.internal:8080"} {
		if err := upstream.CheckURL(url); err != nil {
			t.Errorf("%q: %v", url, err)
		}
	}
}

func TestGW09SlowHeadersEndTheCall(t *testing.T) {
	gone := make(chan struct{})
	url := raw(t, func(conn net.Conn, _ *http.Request) {
		defer close(gone)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		_, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nX-Slow: ")
		for err == nil {
			<-tick.C
			_, err = conn.Write([]byte("x"))
		}
	})
	c := newClient(t, upstream.Options{Silence: time.Second})
	_, err := c.Post(t.Context(), url, nil, nil)
	if !errors.Is(err, upstream.ErrSilent) {
		t.Errorf("error %v, want %v", err, upstream.ErrSilent)
	}
	<-gone
}

func TestGW09SlowBodyEndsTheCall(t *testing.T) {
	trickle := func(w http.ResponseWriter, req *http.Request) {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for req.Context().Err() == nil {
			<-tick.C
			_, _ = w.Write([]byte("x"))
			w.(http.Flusher).Flush()
		}
	}
	url := serve(t, trickle)
	c := newClient(t, upstream.Options{Silence: time.Second})
	for name, read := range map[string]func(*upstream.Response) ([]byte, error){
		"body": (*upstream.Response).Body, "line": (*upstream.Response).Line,
	} {
		r, err := c.Post(t.Context(), url, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := read(r); !errors.Is(err, upstream.ErrSilent) {
			t.Errorf("%s: error %v, want %v", name, err, upstream.ErrSilent)
		}
		r.Close()
	}
}

func TestLinesRenewTheTime(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		pace := time.NewTicker(150 * time.Millisecond)
		defer pace.Stop()
		for i := range 20 {
			_, _ = fmt.Fprintf(w, "%d\n\n", i)
			w.(http.Flusher).Flush()
			<-pace.C
		}
	})
	// All lines together take longer than one may.
	r, err := newClient(t, upstream.Options{Silence: 2 * time.Second}).Post(t.Context(), url, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if all, err := lines(t, r); len(all) != 20 || err != io.EOF {
		t.Errorf("%d lines, error %v", len(all), err)
	}
}

func TestGW09EndlessStreamEndsWithItsTimeOrSize(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, req *http.Request) {
		for req.Context().Err() == nil {
			if _, err := io.WriteString(w, "line\n"); err != nil {
				return
			}
			w.(http.Flusher).Flush()
		}
	})
	for _, test := range []struct {
		opts upstream.Options
		want error
	}{
		{upstream.Options{Total: time.Second}, upstream.ErrTotal},
		{upstream.Options{MaxLines: 1 << 10}, upstream.ErrTooLarge},
	} {
		r, err := newClient(t, test.opts).Post(t.Context(), url, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := lines(t, r); !errors.Is(err, test.want) {
			t.Errorf("error %v, want %v", err, test.want)
		}
		r.Close()
	}
}

// endless writes a body of n octets without a line break.
func endless(w io.Writer, n int) {
	block := bytes.Repeat([]byte("x"), 1<<20)
	for range n >> 20 {
		if _, err := w.Write(block); err != nil {
			return
		}
	}
}

func TestGW09HugeBodiesAreCutOff(t *testing.T) {
	const gib = 1 << 30
	chunked := serve(t, func(w http.ResponseWriter, _ *http.Request) { endless(w, gib) })
	announced := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(gib))
		endless(w, gib)
	})
	bomb := serve(t, func(w http.ResponseWriter, req *http.Request) {
		if !strings.Contains(req.Header.Get("Accept-Encoding"), "gzip") {
			t.Error("gzip is not accepted")
		}
		w.Header().Set("Content-Encoding", "gzip")
		_ = upstreamtest.Bomb(w, gib)
	})
	c := newClient(t, upstream.Options{MaxBody: 1 << 20, MaxLine: 1 << 20})
	for name, url := range map[string]string{"chunked": chunked, "announced": announced, "gzip bomb": bomb} {
		for kind, read := range map[string]func(*upstream.Response) ([]byte, error){
			"body": (*upstream.Response).Body, "line": (*upstream.Response).Line,
		} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				r, err := c.Post(t.Context(), url, nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				if _, err := read(r); !errors.Is(err, upstream.ErrTooLarge) {
					t.Errorf("error %v, want %v", err, upstream.ErrTooLarge)
				}
				runtime.ReadMemStats(&after)
				if grew := after.TotalAlloc - before.TotalAlloc; grew > 64<<20 {
					t.Errorf("%d MiB were allocated for a limit of 1", grew>>20)
				}
			})
		}
	}
}

func TestLimitsAreExact(t *testing.T) {
	const limit = 10_000
	for _, n := range []int{limit, limit + 1} {
		for _, end := range []string{"", "\n", "\r\n"} {
			url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, strings.Repeat("x", n)+end)
			})
			c := newClient(t, upstream.Options{MaxBody: limit + len(end), MaxLine: limit})
			for kind, read := range map[string]func(*upstream.Response) ([]byte, error){
				"body": (*upstream.Response).Body, "line": (*upstream.Response).Line,
			} {
				r, err := c.Post(t.Context(), url, nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				got, err := read(r)
				r.Close()
				switch {
				case n > limit && !errors.Is(err, upstream.ErrTooLarge):
					t.Errorf("%s of %d%q: %d octets, error %v", kind, n, end, len(got), err)
				case n == limit && err != nil:
					t.Errorf("%s of %d%q: %v", kind, n, end, err)
				}
			}
		}
	}
	huge := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Huge", strings.Repeat("x", 1<<20)) })
	if _, err := newClient(t, upstream.Options{}).Post(t.Context(), huge, nil, nil); !errors.Is(err, upstream.ErrLost) {
		t.Errorf("a head of 1 MiB: %v", err)
	}
}

func TestGW09SuddenCloseIsToldFromAnEnd(t *testing.T) {
	for name, answer := range map[string]string{
		"before the head":    "",
		"inside the head":    "HTTP/1.1 200 OK\r\nContent-",
		"inside the body":    "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nline\nli",
		"inside the chunks":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nline\n\r\n",
		"no HTTP at all":     "SSH-2.0-OpenSSH\r\n",
		"a body not asked":   "HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 1\r\n\r\nx",
		"gzip that is plain": "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nplain",
	} {
		t.Run(name, func(t *testing.T) {
			url := raw(t, func(conn net.Conn, _ *http.Request) { _, _ = io.WriteString(conn, answer) })
			r, err := newClient(t, upstream.Options{}).Post(t.Context(), url, nil, []byte("body"))
			if err == nil {
				defer r.Close()
				_, err = lines(t, r)
			}
			if !errors.Is(err, upstream.ErrLost) && !errors.Is(err, upstream.ErrBroken) {
				t.Errorf("error %v, want the loss told", err)
			}
		})
	}
}

func TestWhatWasNeverSentIsToldFromWhatWasLost(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	_ = ln.Close()
	c := newClient(t, upstream.Options{})
	for _, url := range []string{"http://" + addr, "http://127.0.0.1:1", "https://" + addr} {
		if _, err := c.Post(t.Context(), url, nil, nil); !errors.Is(err, upstream.ErrUnreached) {
			t.Errorf("%s: %v", url, err)
		}
	}
	bad := http.Header{"Swp-Peer": {"a\r\nb"}}
	if _, err := c.Post(t.Context(), "http://"+addr, bad, nil); !errors.Is(err, upstream.ErrUnreached) {
		t.Errorf("a header that cannot be sent: %v", err)
	}
}

// A request under an Idempotency-Key that is lost with its connection must not
// be sent again behind the caller's back.
func TestNothingIsSentTwice(t *testing.T) {
	var posts atomic.Int64
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if posts.Add(1) == 1 {
			return
		}
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	})
	c := newClient(t, upstream.Options{})
	for _, body := range [][]byte{nil, []byte("body")} {
		posts.Store(0)
		for want := range int64(2) {
			header := http.Header{"Idempotency-Key": {"k"}, "X-Idempotency-Key": {"k"}}
			r, err := c.Post(t.Context(), url, header, body)
			if err == nil {
				_, err = r.Body()
				r.Close()
			}
			if n := posts.Load(); n != want+1 {
				t.Errorf("call %d arrived %d times, error %v", want+1, n-want, err)
			}
		}
	}
}

func TestCloseAndContextEndTheCallAtTheServer(t *testing.T) {
	ended := make(chan struct{}, 1)
	url := serve(t, func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.WriteString(w, "line\n")
		w.(http.Flusher).Flush()
		<-req.Context().Done()
		ended <- struct{}{}
	})
	c := newClient(t, upstream.Options{})
	cause := errors.New("cancelled by the peer")
	for _, byContext := range []bool{false, true} {
		ctx, cancel := context.WithCancelCause(t.Context())
		r, err := c.Post(ctx, url, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if line, err := r.Line(); string(line) != "line" || err != nil {
			t.Fatalf("%q, %v", line, err)
		}
		if byContext {
			cancel(cause)
			if _, err := r.Line(); !errors.Is(err, cause) {
				t.Errorf("error %v, want %v", err, cause)
			}
		}
		r.Close()
		<-ended
		cancel(nil)
	}
}

func TestCallsAreBounded(t *testing.T) {
	release := make(chan struct{})
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		<-release
	})
	c := newClient(t, upstream.Options{Calls: 2})
	var open []*upstream.Response
	for range 2 {
		r, err := c.Post(t.Context(), url, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, r)
	}
	if _, err := c.Post(t.Context(), url, nil, nil); !errors.Is(err, upstream.ErrBusy) {
		t.Errorf("the third call: %v", err)
	}
	open[0].Close()
	r, err := c.Post(t.Context(), url, nil, nil)
	if err != nil {
		t.Fatalf("after one has ended: %v", err)
	}
	r.Close()
	open[1].Close()
	close(release)
}

func TestDoUsesTheMethod(t *testing.T) {
	var got []string
	url := serve(t, func(_ http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		got = append(got, fmt.Sprintf("%s %d %q", req.Method, req.ContentLength, body))
	})
	c := newClient(t, upstream.Options{})
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		r, err := c.Do(t.Context(), method, url, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
	}
	if want := []string{`GET 0 ""`, `DELETE 0 ""`}; !slices.Equal(got, want) {
		t.Errorf("requests %v, want %v", got, want)
	}
}

func TestReadIsBoundedBySilenceAndSize(t *testing.T) {
	const size = 1 << 10
	url := serve(t, func(w http.ResponseWriter, req *http.Request) {
		_, _ = w.Write(make([]byte, size))
		if req.URL.Path == "/silent" {
			_ = http.NewResponseController(w).Flush()
			<-req.Context().Done()
		}
	})
	read := func(opts upstream.Options, path string) (int, error) {
		r, err := newClient(t, opts).Post(t.Context(), url+path, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		defer r.Await()()
		all, err := io.ReadAll(r)
		return len(all), err
	}
	if n, err := read(upstream.Options{MaxLines: size}, "/"); n != size || err != nil {
		t.Errorf("at the limit: %d octets, error %v", n, err)
	}
	if _, err := read(upstream.Options{MaxLines: size - 1}, "/"); !errors.Is(err, upstream.ErrTooLarge) {
		t.Errorf("above the limit: error %v, want ErrTooLarge", err)
	}
	if n, err := read(upstream.Options{Silence: time.Second}, "/silent"); n != size || !errors.Is(err, upstream.ErrSilent) {
		t.Errorf("silent server: %d octets, error %v, want ErrSilent", n, err)
	}
}

// Long answers of a server are in the budget until their call is closed.
func TestRS15LongAnswersOfServersAreInTheBudget(t *testing.T) {
	const size = 1 << 20
	long := strings.Repeat("x", size)
	for name, read := range map[string]func(r *upstream.Response) (int, error){
		"whole": func(r *upstream.Response) (int, error) {
			b, err := r.Body()
			return len(b), err
		},
		"line": func(r *upstream.Response) (int, error) {
			b, err := r.Line()
			return len(b) + len("data: "), err
		},
		"event": func(r *upstream.Response) (int, error) {
			ev, err := r.Events(2*size, nil).Next()
			return len(ev.Data), err
		},
	} {
		for _, room := range []int{64 << 20, size} {
			b := memory.New(room)
			c := newClient(t, upstream.Options{Memory: b})
			url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				if name == "whole" {
					_, _ = io.WriteString(w, long)
				} else {
					_, _ = io.WriteString(w, "data: "+long+"\n\n")
				}
			})
			r, err := c.Post(t.Context(), url, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			n, err := read(r)
			if fits := room > size; fits != (err == nil && n >= size) || !fits && !errors.Is(err, memory.ErrFull) {
				t.Errorf("%s with a budget of %d: %d octets, %v", name, room, n, err)
			}
			if used := b.Used(); room > size && used < size {
				t.Errorf("%s: %d octets are in the budget", name, used)
			}
			r.Close()
			if used := b.Used(); used != 0 {
				t.Errorf("%s: %d octets are in the budget after the end", name, used)
			}
		}
	}
}
