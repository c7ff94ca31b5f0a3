package a2afront_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/internal/bridge/a2afront"
	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/profiles/a2a"
)

// stream is a response of server-sent events, read as it comes.
type stream struct {
	t    *testing.T
	resp *http.Response
	r    *bufio.Reader
}

func (b *bench) stream(ctx context.Context, method, path, body string) *stream {
	b.t.Helper()
	resp := b.open(ctx, method, path, body)
	b.t.Cleanup(func() { _ = resp.Body.Close() })
	return &stream{b.t, resp, bufio.NewReader(resp.Body)}
}

// next returns the data of the next event, io.EOF at the end. Comments are returned
// as they are.
func (s *stream) next() string {
	s.t.Helper()
	var data []string
	for {
		line, err := s.r.ReadString('\n')
		switch {
		case err != nil && line == "":
			return err.Error()
		case line == "\n":
			return strings.Join(data, "\n")
		case strings.HasPrefix(line, ":"):
			data = append(data, strings.TrimSuffix(line, "\n"))
		default:
			text, ok := strings.CutPrefix(line, "data: ")
			if !ok {
				s.t.Errorf("line %q", line)
			}
			data = append(data, strings.TrimSuffix(text, "\n"))
		}
	}
}

func (s *stream) want(events ...string) {
	s.t.Helper()
	for _, want := range events {
		if diff := cmp.Diff(want, s.next()); diff != "" {
			s.t.Error(diff)
		}
	}
}

// wrapped is a StreamResponse as JSON-RPC sends it.
func wrapped(octets string) string { return `{"jsonrpc":"2.0","id":1,"result":` + octets + `}` }

func TestEachStreamResponseIsOneEvent(t *testing.T) {
	b := newBench(t, "", a2a.Options{}, a2afront.Options{}, func(_ context.Context, _ *a2a.Task, event func(string, []byte) error) ([]byte, error) {
		for _, octets := range odd {
			if err := event("", []byte(octets)); err != nil {
				return nil, err
			}
		}
		return nil, event("", []byte("{\"returns\":\r\n1}"))
	})
	var bare, inRPC []string
	for _, octets := range append(odd, "{\"returns\": \n1}") {
		bare, inRPC = append(bare, octets), append(inRPC, wrapped(octets))
	}
	s := b.stream(t.Context(), "POST", "/a2a/weather/message:stream", `{}`)
	if h := s.resp.Header; h.Get("Content-Type") != "text/event-stream" || h.Get("Cache-Control") != "no-store" || h.Get("X-Accel-Buffering") != "no" {
		t.Errorf("%v", h)
	}
	s.want(append(bare, "EOF")...)
	s = b.stream(t.Context(), "POST", "/a2a/weather", `{"jsonrpc":"2.0","id":1,"method":"SendStreamingMessage"}`)
	s.want(append(inRPC, "EOF")...)
	s = b.stream(t.Context(), "GET", "/a2a/weather/tasks/x:subscribe", "")
	s.want(append(bare, "EOF")...)
}

// stepping is an agent that sends what it is told, {"n":1} and so on.
func stepping(steps <-chan int) agent {
	return func(ctx context.Context, _ *a2a.Task, event func(string, []byte) error) ([]byte, error) {
		for {
			select {
			case n, ok := <-steps:
				if !ok {
					return nil, nil
				}
				if err := event("", fmt.Appendf(nil, `{"n":%d}`, n)); err != nil {
					return nil, err
				}
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}
}

func TestAStreamGoesOnWhereItWasAfterALostLink(t *testing.T) {
	for _, path := range []string{"/a2a/weather", "/a2a/weather/message:stream"} {
		steps := make(chan int)
		b := newBench(t, "", a2a.Options{}, a2afront.Options{}, stepping(steps))
		go func() { steps <- 1 }()
		s, form := b.stream(t.Context(), "POST", path, `{"jsonrpc":"2.0","id":1,"method":"SendStreamingMessage","params":{}}`), wrapped
		if strings.HasSuffix(path, "stream") {
			form = func(octets string) string { return octets }
		}
		s.want(form(`{"n":1}`))
		for n := 2; n <= 4; n++ {
			b.link("http:alice").cut()
			go func() { steps <- n }()
			s.want(form(fmt.Sprintf(`{"n":%d}`, n)))
		}
		close(steps)
		s.want("EOF")
		b.given()
		b.untouched("a lost link")
		if n := b.link("http:alice").count; n != 4 {
			t.Errorf("%d sessions", n)
		}
	}
}

func TestAnOperationGoesOnAfterALostLink(t *testing.T) {
	for _, method := range []string{"SendMessage", "GetTask"} {
		let := make(chan struct{})
		b := newBench(t, "", a2a.Options{}, a2afront.Options{}, func(ctx context.Context, _ *a2a.Task, _ func(string, []byte) error) ([]byte, error) {
			select {
			case <-let:
				return []byte(`{}`), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})
		done := make(chan answer, 1)
		go func() { done <- b.rpc(method, `{}`) }()
		first := b.given()
		b.link("http:alice").cut()
		if method == "GetTask" {
			if second := b.given(); string(second.ID) == string(first.ID) {
				t.Error("a read is not done again, but waited for")
			}
		}
		close(let)
		if got := <-done; got.body != wrapped(`{}`) {
			t.Errorf("%s: %d %s", method, got.status, got.body)
		}
		b.untouched(method)
	}
}

func TestALinkThatIsGoneEndsTheStreamWithAnError(t *testing.T) {
	steps := make(chan int)
	b := newBench(t, "", a2a.Options{}, a2afront.Options{Patience: time.Millisecond}, stepping(steps))
	go func() { steps <- 1 }()
	s := b.stream(t.Context(), "POST", "/a2a/weather/message:stream", `{}`)
	s.want(`{"n":1}`)
	b.link("http:alice").refuse(io.ErrClosedPipe)
	b.link("http:alice").cut()
	if got := s.next(); !strings.Contains(got, `"code":503`) || !strings.Contains(got, "LINK_LOST") {
		t.Errorf("%s", got)
	}
	s.want("EOF")
}

func TestSilentStreamsShowThatTheyAreAlive(t *testing.T) {
	steps := make(chan int)
	b := newBench(t, "", a2a.Options{}, a2afront.Options{KeepAlive: time.Millisecond}, stepping(steps))
	s := b.stream(t.Context(), "POST", "/a2a/weather/message:stream", `{}`)
	s.want(": waiting", ": waiting")
	go func() { steps <- 1 }()
	for got := s.next(); got != `{"n":1}`; got = s.next() {
		if got != ": waiting" {
			t.Fatal(got)
		}
	}
	close(steps)
}

// TestLeavingEndsTheDelivery is R7: the task of the agent, which is another thing,
// does not end.
func TestLeavingEndsTheDelivery(t *testing.T) {
	ended := make(chan error, 1)
	b := newBench(t, "", a2a.Options{}, a2afront.Options{}, func(ctx context.Context, _ *a2a.Task, event func(string, []byte) error) ([]byte, error) {
		if err := event("", []byte(`{}`)); err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			ended <- ctx.Err()
		case <-t.Context().Done():
		}
		return nil, ctx.Err()
	})
	ctx, leave := context.WithCancel(t.Context())
	s := b.stream(ctx, "POST", "/a2a/weather/message:stream", `{}`)
	s.want(`{}`)
	b.given()
	leave()
	b.released("http:alice")
	select {
	case err := <-ended:
		t.Errorf("the agent was stopped: %v", err)
	default:
	}
}

// released waits until the far end of a link holds no exchange any more.
func (b *bench) released(caller string) {
	b.t.Helper()
	l := b.link(caller)
	timeout := time.After(patience)
	for l.far.InFlight() > 0 {
		select {
		case <-timeout:
			b.t.Fatalf("%d exchanges are held", l.far.InFlight())
		case <-time.After(time.Millisecond):
		}
	}
}

func TestAnEventThatIsNoneEndsTheStream(t *testing.T) {
	for octets, want := range map[string]string{
		`{`:                          "INVALID_AGENT_RESPONSE",
		"{}\n\ndata: {\"forged\":1}": "INVALID_AGENT_RESPONSE",
		`{},"id":2,"result":{}`:      "INVALID_AGENT_RESPONSE",
		"\"\xff\"":                   "INVALID_AGENT_RESPONSE",
		"":                           "LINK_LOST", // a note of an endpoint, that events are lost
	} {
		b := newBench(t, "", a2a.Options{}, a2afront.Options{}, func(_ context.Context, _ *a2a.Task, event func(string, []byte) error) ([]byte, error) {
			if err := event("", []byte(`{"n":1}`)); err != nil {
				return nil, err
			}
			return nil, event("note", []byte(octets))
		})
		s := b.stream(t.Context(), "POST", "/a2a/weather", `{"jsonrpc":"2.0","id":1,"method":"SendStreamingMessage","params":{}}`)
		s.want(wrapped(`{"n":1}`))
		if got := s.next(); !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":1,"error":{`) || !strings.Contains(got, want) {
			t.Errorf("%q: %s", octets, got)
		}
		s.want("EOF")
	}
}

func TestAStreamThatFailsSaysSoWhereItIs(t *testing.T) {
	fail := a2abinding.Fail(a2abinding.CodeUnsupported, "no").Result()
	b := newBench(t, "", a2a.Options{}, a2afront.Options{}, func(_ context.Context, _ *a2a.Task, event func(string, []byte) error) ([]byte, error) {
		if err := event("", []byte(`{}`)); err != nil {
			return nil, err
		}
		return nil, fail
	})
	s := b.stream(t.Context(), "POST", "/a2a/weather/message:stream", `{}`)
	s.want(`{}`)
	if got := s.next(); s.resp.StatusCode != http.StatusOK || !strings.HasPrefix(got, `{"error":{"code":400,`) {
		t.Errorf("%d %s", s.resp.StatusCode, got)
	}
	s.want("EOF")
}

// What has one answer is one JSON document, however long the agent takes.
func TestAnAnswerThatTakesLongIsNoStream(t *testing.T) {
	b := newBench(t, "", a2a.Options{}, a2afront.Options{KeepAlive: time.Millisecond},
		func(context.Context, *a2a.Task, func(string, []byte) error) ([]byte, error) {
			time.Sleep(50 * time.Millisecond)
			return []byte(`{"task":{}}`), nil
		})
	for _, got := range []answer{
		b.rpc("SendMessage", `{"message":{}}`),
		b.do("POST", "/a2a/weather/message:send", `{"message":{}}`),
	} {
		if kind := got.header.Get("Content-Type"); kind != "application/json" || !json.Valid([]byte(got.body)) {
			t.Errorf("%s %q", kind, got.body)
		}
	}
}

// TestADocumentToWhoDoesNotReadIsGivenUp is ABUSE GW-09.
func TestADocumentToWhoDoesNotReadIsGivenUp(t *testing.T) {
	effort.Unwatched(t)
	b := newBench(t, "", a2a.Options{}, a2afront.Options{Write: 100 * time.Millisecond}, fixed(`"`+strings.Repeat("x", 7<<20)+`"`))
	resp := b.open(t.Context(), "POST", "/a2a/weather/message:send", `{}`)
	defer func() { _ = resp.Body.Close() }()
	for began := time.Now(); b.serving.Load() > 0; <-time.After(time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatal("the document is not given up")
		}
	}
	if n, err := io.Copy(io.Discard, resp.Body); err == nil {
		t.Errorf("%d octets came after all", n)
	}
}
