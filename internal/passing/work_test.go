package passing_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/passing"
	"github.com/slimwire/swp/transport"
)

// place returns the process that takes connections, until a function is called.
func (r *rig) place() (passing.Place, func()) {
	at, _ := r.passer.Place()
	var end context.CancelFunc
	at.Until, end = context.WithCancel(context.Background())
	r.t.Cleanup(end)
	return at, end
}

// upper is work: it repeats what it gets, in capital letters, behind the request.
func upper(_ context.Context, conn transport.Conn, s transport.Stream, request []byte, answer func(error) error) {
	if string(request) == `"no"` {
		_ = answer(errors.New("not today"))
		return
	}
	if answer(nil) != nil {
		return
	}
	text, _ := io.ReadAll(s)
	_, _ = s.Write([]byte(string(request) + strings.ToUpper(string(text))))
	_ = s.CloseWrite()
	<-conn.Context().Done() // the other side has everything
}

func withUpper(o *passing.TakerOptions) { o.Work = upper }

// A process that takes no connections of peers works for others.
func TestWorkIsDoneOverItsFirstStream(t *testing.T) {
	r := newRig(t, withUpper)
	at, _ := r.place()
	conn, s, err := r.passer.Work(t.Context(), at, map[string]int{"n": 1})
	must(t, err)
	defer func() { _ = conn.Close(0) }()
	large := strings.Repeat("work ", 1<<17)
	go func() { _, _ = io.WriteString(s, large); _ = s.CloseWrite() }()
	if got, want := all(t, s), `{"n":1}`+strings.ToUpper(large); got != want {
		t.Fatalf("%d octets, want %d", len(got), len(want))
	}
}

func TestWorkThatIsRefusedSaysWhy(t *testing.T) {
	for name, tt := range map[string]struct {
		request string
		options []func(*passing.TakerOptions)
		want    string
	}{
		"by the work": {"no", []func(*passing.TakerOptions){withUpper}, "not today"},
		"without any": {"yes", nil, "no work here"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, tt.options...)
			at, _ := r.place()
			_, _, err := r.passer.Work(t.Context(), at, tt.request)
			if !errors.Is(err, passing.ErrRefused) || !strings.Contains(err.Error(), tt.want) {
				t.Fatal(err)
			}
		})
	}
}

func TestARequestAboveTheLimitIsNotSent(t *testing.T) {
	r := newRig(t, withUpper)
	at, _ := r.place()
	most := 128<<10 - len(`{"kind":"work","addr":"","request":""}`)
	for n, fits := range map[int]bool{most: true, most + 1: false} {
		conn, _, err := r.passer.Work(t.Context(), at, strings.Repeat("x", n))
		if (err == nil) != fits {
			t.Errorf("%d octets: %v", n, err)
		}
		if err == nil {
			must(t, conn.Close(0))
		}
	}
}

func TestAProcessThatIsNotTrustedGetsNoWork(t *testing.T) {
	r := newRig(t, withUpper)
	r.taker.Trust(nil)
	at, _ := r.place()
	conn, s, err := r.passer.Work(t.Context(), at, "yes")
	if err == nil {
		_, err = s.Read(make([]byte, 1))
		_ = conn.Close(0)
	}
	if err == nil || errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if _, err := r.passer.Hold(t.Context(), at); err == nil {
		t.Fatal("held")
	}
}

func TestAConnectionIsHeldUntilOneSideEndsIt(t *testing.T) {
	for _, name := range []string{"this one", "the other"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			at, end := r.place()
			held, err := r.passer.Hold(t.Context(), at)
			must(t, err)
			if held.Err() != nil {
				t.Fatal("ended at once")
			}
			if name == "this one" {
				end()
			} else {
				must(t, r.taker.Close())
			}
			select {
			case <-held.Done():
			case <-time.After(patience):
				t.Fatal("still held")
			}
		})
	}
}

func TestAProcessThatIsAboutToEndIsKnown(t *testing.T) {
	r := newRig(t)
	departing := r.taker.Departing(r.passer.Own.Certificate[0])
	if departing.Err() != nil {
		t.Fatal("it is not about to end")
	}
	must(t, r.passer.Leave(t.Context()))
	select {
	case <-departing.Done():
	case <-time.After(patience):
		t.Fatal("not known")
	}
}
