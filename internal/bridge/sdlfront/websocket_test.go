package sdlfront_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/slimwire/swp/internal/bridge/sdlfront"
	"github.com/slimwire/swp/internal/fair/fairtest"
	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/internal/pipes"
	"github.com/slimwire/swp/profiles"
)

// web is the end of a program, in a bubble of synctest: a WebSocket, and the pipe under it, which
// has no buffer.
type web struct {
	*websocket.Conn
	under net.Conn
}

func dial(t *testing.T, f *sdlfront.Front, e *endpoint) *web {
	t.Helper()
	ln := pipes.Listen()
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: f.Handler(sdlfront.HTTP{
		Session: func(string) (profiles.Session, error) { return e, nil }, Caller: func(*http.Request) string { return caller },
	})}
	go func() { _ = server.Serve(ln) }()
	near, err := ln.Dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return near, nil }}
	conn, _, err := websocket.Dial(t.Context(), "http://front"+sdlfront.Path, &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}}) //nolint:bodyclose // a WebSocket has none
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = near.Close()
		_ = conn.CloseNow()
		_ = server.Close()
		transport.CloseIdleConnections()
	})
	return &web{conn, near}
}

// say sends a message in fragments.
func (w *web) say(t *testing.T, fragments ...string) {
	t.Helper()
	out, err := w.Writer(t.Context(), websocket.MessageText)
	for _, octets := range fragments {
		if err == nil {
			_, err = io.WriteString(out, octets)
		}
	}
	if err == nil {
		err = out.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (w *web) hear(t *testing.T) string {
	t.Helper()
	typ, body, err := w.Read(t.Context())
	if err != nil || typ != websocket.MessageBinary {
		t.Fatal(typ, err)
	}
	return string(body)
}

// over waits for the end, in which the other side says goodbye.
func (w *web) over(t *testing.T) {
	t.Helper()
	if _, body, err := w.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("%.100q, %v, want the end", body, err)
	}
}

func TestGW12AMessageOfAWebSocketIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget, e := memory.New(1<<20), new(endpoint)
		f := serving(t, e, sdlfront.Options{Memory: budget})
		w := dial(t, f, e)
		whole := of(4 << 10)
		for _, fragments := range [][]string{{whole}, {whole[:1], "", whole[1:2000], whole[2000:]}} {
			w.say(t, fragments...)
			if got := w.hear(t); got != whole {
				t.Errorf("at the limit: %.100s", got)
			}
		}
		for _, fragments := range [][]string{{of(4<<10 + 1)}, {whole, "x"}} {
			w := dial(t, f, e)
			w.say(t, fragments...)
			if got := w.hear(t); !strings.Contains(got, `"BAD_REQUEST"`) || !strings.Contains(got, `"max_bytes":4096`) {
				t.Errorf("%s", got)
			}
			w.over(t)
		}
		synctest.Wait()
		if e.requests() != 2 || budget.Used() != 0 {
			t.Errorf("%d requests, %d octets are held", e.requests(), budget.Used())
		}
	})
}

func TestGW12ASlowMessageOfAWebSocketIsNotWaitedFor(t *testing.T) {
	const more, empty = "\x00\x80mask", "\x01\x80mask" // a fragment without octets: a further one, the first one
	for name, flow := range map[string]func(net.Conn) error{
		"stops": func(conn net.Conn) error { _, err := io.WriteString(conn, empty); return err },
		"empty fragments": func(conn net.Conn) error {
			_, err := io.WriteString(conn, empty)
			for err == nil {
				time.Sleep(time.Millisecond)
				_, err = io.WriteString(conn, more)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				budget, e := memory.New(1<<20), new(endpoint)
				f := serving(t, e, sdlfront.Options{Memory: budget})
				w := dial(t, f, e)
				time.Sleep(time.Hour) // between two messages a program may be silent
				began, flown := time.Now(), make(chan error, 1)
				go func() { flown <- flow(w.under) }()
				if got := w.hear(t); !strings.Contains(got, `"BAD_REQUEST"`) {
					t.Errorf("%s", got)
				}
				if took := time.Since(began); took < 5*time.Second || took > 6*time.Second {
					t.Errorf("after %v", took)
				}
				_ = w.under.Close()
				if err := <-flown; err != nil {
					t.Error(err)
				}
				synctest.Wait()
				if e.requests() != 0 || budget.Used() != 0 || f.Stats().Streams != 0 {
					t.Errorf("%d requests, %d octets are held, %d streams", e.requests(), budget.Used(), f.Stats().Streams)
				}
			})
		})
	}
}

func TestGW12AWebSocketWhoseProgramDoesNotReadIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget, e := memory.New(1<<20), new(endpoint)
		f := serving(t, e, sdlfront.Options{Memory: budget})
		w := dial(t, f, e)
		w.say(t, of(1000))
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if n := f.Stats().Streams; n != 0 || budget.Used() != 0 {
			t.Errorf("%d streams, %d octets are held", n, budget.Used())
		}
	})
}

func TestGW12PingsCountAsEnvelopes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := new(endpoint)
		f := serving(t, e, sdlfront.Options{Burst: 3, PerSecond: -1})
		w := dial(t, f, e)
		w.say(t, of(100))
		w.hear(t)
		reads := w.CloseRead(t.Context())
		var answered []bool
		for range 3 {
			ctx, cancel := context.WithTimeout(reads, time.Minute)
			answered = append(answered, w.Ping(ctx) == nil)
			cancel()
		}
		if want := []bool{true, true, false}; !slices.Equal(answered, want) {
			t.Errorf("%v, want %v", answered, want)
		}
	})
}

// What a drain leaves due is written to a WebSocket, too, and then it is closed.
func TestADrainAnswersWhatIsDueOnAWebSocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{wait: make(chan struct{})}
		f := serving(t, e, sdlfront.Options{})
		w := dial(t, f, e)
		w.say(t, of(100))
		synctest.Wait()
		f.Drain()
		synctest.Wait()
		close(e.wait)
		if got := w.hear(t); got != of(100) {
			t.Errorf("%s", got)
		}
		w.over(t)
	})
}

func TestGW12StreamsOfOneCallerLeavePlacesForAnother(t *testing.T) {
	fairtest.Places(t, "sdl: streams without SWP", "places of 16", func(t *testing.T) (func(string) bool, func(string)) {
		f := serving(t, new(endpoint), sdlfront.Options{Streams: 16})
		type held struct {
			conn  net.Conn
			ended chan struct{}
		}
		has := map[string][]held{}
		end := func(one held) {
			_ = one.conn.Close()
			<-one.ended
		}
		take := func(who string) bool {
			here, there := net.Pipe()
			one := held{here, make(chan struct{})}
			go func() {
				_ = f.Stream(there, who)
				close(one.ended)
			}()
			if _, err := here.Write(framed(of(100))); err != nil {
				end(one)
				return false
			}
			if got := receive(t, here); !bytes.Contains([]byte(got), []byte(`"req"`)) {
				t.Errorf("%s", got)
			}
			has[who] = append(has[who], one)
			return true
		}
		return take, func(who string) {
			n := len(has[who]) - 1
			end(has[who][n])
			has[who] = has[who][:n]
		}
	})
}
