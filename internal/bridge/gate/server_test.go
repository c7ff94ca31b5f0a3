package gate_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/internal/bridge/gate"
	"github.com/slimwire/swp/internal/pipes"
)

// trickle sends head at once and then rest, an octet each second, to a Server of next.
// It returns what was answered and how long the connection lasted.
func trickle(t *testing.T, next http.Handler, head, rest string) (answer string, lasted time.Duration) {
	t.Helper()
	g, err := gate.New(gate.Options{Anonymous: "me"})
	if err != nil {
		t.Fatal(err)
	}
	server := g.Server(next)
	ln := pipes.Listen()
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	near, err := ln.Dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	written := make(chan struct{})
	go func() {
		defer close(written)
		if _, err := io.WriteString(near, head); err != nil {
			return
		}
		for i := range rest {
			<-time.After(time.Second)
			if _, err := near.Write([]byte{rest[i]}); err != nil {
				return // the connection has ended
			}
		}
	}()
	octets, err := io.ReadAll(near) // until the other end closes
	if err != nil {
		t.Error(err)
	}
	lasted = time.Since(start)
	_ = near.Close()
	<-written
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
	return string(octets), lasted
}

func TestGW09AHeadOfOneOctetASecondIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("served") })
		answer, lasted := trickle(t, next, "", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if lasted > 6*time.Second || strings.Contains(answer, " 200 ") {
			t.Errorf("%q after %v", answer, lasted)
		}
	})
}

// Whatever is answered, the server reads a body to its end before, up to a bound of its
// own: who is not let in, or asks for what is not there, must not hold it up.
func TestGW09ABodyOfOneOctetASecondThatNobodyReadsIsCutOff(t *testing.T) {
	for _, row := range []struct{ what, headers, status string }{
		{"foreign host", "Host: evil.example\r\n", "403"},
		{"foreign origin", "Host: localhost\r\nOrigin: http://evil.example\r\n", "403"},
		{"unknown token", "Host: localhost\r\nAuthorization: Bearer nobody\r\n", "401"},
		{"nothing there", "Host: localhost\r\n", "404"},
	} {
		for _, length := range []string{"Content-Length: 1000", "Transfer-Encoding: chunked"} {
			rest := strings.Repeat("x", 1000)
			if strings.HasPrefix(length, "T") {
				rest = strings.Repeat("1\r\nx\r\n", 200)
			}
			synctest.Test(t, func(t *testing.T) {
				answer, lasted := trickle(t, http.NotFoundHandler(), "POST / HTTP/1.1\r\n"+row.headers+length+"\r\n\r\n", rest)
				if lasted > 6*time.Second || !strings.HasPrefix(answer, "HTTP/1.1 "+row.status+" ") {
					t.Errorf("%s, %s: %q after %v", row.what, length, answer, lasted)
				}
			})
		}
	}
}

// What is open for long after its body came is not cut off with it.
func TestAnswersMayTakeLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			control := http.NewResponseController(w)
			_ = control.SetReadDeadline(time.Now().Add(time.Second))
			_, _ = io.ReadAll(r.Body)
			_ = control.SetReadDeadline(time.Time{})
			select {
			case <-time.After(time.Hour):
			case <-r.Context().Done():
				t.Error("cancelled")
			}
		})
		answer, lasted := trickle(t, next, "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx", "")
		if lasted != time.Hour || !strings.HasPrefix(answer, "HTTP/1.1 200 ") {
			t.Errorf("%q after %v", answer, lasted)
		}
	})
}
