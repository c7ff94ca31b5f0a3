package worker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/internal/bridge/upstream"
	"github.com/slimwire/swp/internal/bridge/worker"
	"github.com/slimwire/swp/profiles"
)

// posted returns a worker that posts to h, with what the options allow.
func posted(t *testing.T, opts upstream.Options, h http.HandlerFunc) *worker.HTTP {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return postedTo(t, opts, server.URL+"/tasks?a=b")
}

func postedTo(t *testing.T, opts upstream.Options, url string) *worker.HTTP {
	t.Helper()
	client := upstream.New(opts)
	t.Cleanup(client.Close)
	w, err := worker.NewHTTP(client, url)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// echo answers with the lines that were the input.
func echo(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }

func TestHTTPLinesBecomeEventsAndTheOutput(t *testing.T) {
	w := posted(t, upstream.Options{}, echo)
	for _, test := range lineRules {
		t.Run(test.name, func(t *testing.T) {
			o := do(t.Context(), w, task(test.lines))
			switch {
			case test.name == "two outputs": // what follows the output is not read
				if o.err != nil || o.output != "1" {
					t.Errorf("%+v", o)
				}
			case test.reason != "":
				wantFailure(t, o.err, test.reason)
			case o.err != nil:
				t.Fatal(o.err)
			default:
				if diff := cmp.Diff(test.events, o.events); diff != "" {
					t.Error(diff)
				}
				if o.output != test.output {
					t.Errorf("output %q, want %q", o.output, test.output)
				}
			}
		})
	}
}

func TestHTTPEventsArriveAsTheyAreWritten(t *testing.T) {
	seen := make(chan struct{})
	w := posted(t, upstream.Options{}, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "one\n")
		w.(http.Flusher).Flush()
		<-seen
		_, _ = io.WriteString(w, `{"output":1}`)
	})
	output, err := w.Run(t.Context(), task(""), func(string, []byte) error {
		close(seen)
		return nil
	})
	if err != nil || string(output) != "1" {
		t.Errorf("%q, %v", output, err)
	}
}

func TestHTTPLearnsOfItsTaskFromHeaders(t *testing.T) {
	var got *http.Request
	var body []byte
	w := posted(t, upstream.Options{}, func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		_, _ = io.WriteString(w, `{"output":null}`)
	})
	ctx := profiles.WithTrace(t.Context(), profiles.Trace{Parent: "00-1-2-01", State: "a=b"})
	ctx = profiles.WithHints(ctx, hints)
	if o := do(ctx, w, task("in\x00put")); o.err != nil || o.output != "null" {
		t.Fatalf("%+v", o)
	}
	if got.Method != http.MethodPost || got.URL.String() != "/tasks?a=b" || string(body) != "in\x00put" {
		t.Errorf("%s %s with %q", got.Method, got.URL, body)
	}
	for name, want := range map[string]string{
		"Swp-Task-Id": "cafe", "Swp-Task-Kind": "summarize", "Swp-Peer": "spiffe://example.org/a",
		"Traceparent": "00-1-2-01", "Tracestate": "a=b", "Accept": "application/x-ndjson",
		"Swp-Policy": "region=eu;MUST, note=a%0D%0Ab;MAY",
	} {
		if v := got.Header.Values(name); len(v) != 1 || v[0] != want {
			t.Errorf("%s: %q, want %q", name, v, want)
		}
	}
}

func TestHTTPFailures(t *testing.T) {
	status := func(code int, kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		}
	}
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"status":          {status(503, "application/json", `{"secret":1}`), "the worker answered 503 Service Unavailable"},
		"status and text": {status(422, "text/plain; charset=utf-8", "no such\x1b document\nat line 7"), "the worker answered 422 Unprocessable Entity: no such  document"},
		"redirect":        {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/other", http.StatusFound) }, "the worker answered 302 Found"},
		"no output":       {status(200, "application/x-ndjson", "one\n"), "the worker ended without an output"},
		"nothing":         {status(204, "", ""), "the worker ended without an output"},
		"sudden end": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "one\n")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, "the connection to the worker was lost"},
	} {
		o := do(t.Context(), posted(t, upstream.Options{}, test.handler), task(""))
		if f := wantFailure(t, o.err, ""); f.Reason != test.want {
			t.Errorf("%s: reason %q, want %q", name, f.Reason, test.want)
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + ln.Addr().String()
	_ = ln.Close()
	o := do(t.Context(), postedTo(t, upstream.Options{}, url), task(""))
	if f := wantFailure(t, o.err, "cannot be reached"); strings.Contains(f.Reason, "127.0.0.1") || !errors.Is(o.err, upstream.ErrUnreached) {
		t.Errorf("reason %q, error %v", f.Reason, o.err)
	}
}

func TestGW01OddTasksDoNotChangeTheRequest(t *testing.T) {
	var requests atomic.Int64
	w := posted(t, upstream.Options{}, func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		_, _ = io.WriteString(w, `{"output":1}`)
	})
	odd := task("")
	odd.Kind = "k\r\nHost: elsewhere"
	wantFailure(t, do(t.Context(), w, odd).err, "cannot be reached")
	if n := requests.Load(); n != 0 {
		t.Errorf("%d requests", n)
	}
	for _, url := range []string{"", "ftp://127.0.0.1/", "http://user:pw@127.0.0.1/", "/tasks"} {
		if _, err := worker.NewHTTP(upstream.New(upstream.Options{}), url); err == nil {
			t.Errorf("URL %q is accepted", url)
		}
	}
}

func TestGW09SilentHTTPWorkerFailsTheTask(t *testing.T) {
	w := posted(t, upstream.Options{Silence: time.Second}, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "one\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	o := do(t.Context(), w, task(""))
	wantFailure(t, o.err, "silent for too long")
	if len(o.events) != 1 {
		t.Errorf("%d events", len(o.events))
	}
}

func TestGW09HTTPWorkerThatWritesTooMuchFailsTheTask(t *testing.T) {
	const limit = 1000
	for n, fails := range map[int]bool{limit: false, limit + 1: true} {
		w := posted(t, upstream.Options{MaxLine: limit}, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, "%s\n{\"output\":1}", strings.Repeat("x", n))
		})
		o := do(t.Context(), w, task(""))
		if fails {
			wantFailure(t, o.err, "wrote too much")
		} else if o.err != nil {
			t.Errorf("a line of %d: %v", n, o.err)
		}
	}
}

func TestGW09EndOfTheTaskEndsTheRequest(t *testing.T) {
	why := errors.New("over")
	for _, by := range []string{"context", "event"} {
		t.Run(by, func(t *testing.T) {
			ended := make(chan struct{})
			w := posted(t, upstream.Options{}, func(w http.ResponseWriter, r *http.Request) {
				defer close(ended)
				_, _ = io.WriteString(w, "one\n")
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			})
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			_, err := w.Run(ctx, task(""), func(string, []byte) error {
				if by == "event" {
					return why
				}
				cancel(why)
				return nil
			})
			if !errors.Is(err, why) {
				t.Errorf("error %v, want %v", err, why)
			}
			<-ended
		})
	}
}
