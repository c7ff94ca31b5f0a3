package daemon

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// noted is a part that writes down what it is asked.
type noted struct {
	name     string
	to       *[]string
	openErr  error
	closeErr error
	far      *endpoint.Endpoint
	way      *door
	hung     chan struct{} // drain waits for it
}

func (n *noted) note(what string) { *n.to = append(*n.to, n.name+" "+what) }

func (n *noted) collectors() []prometheus.Collector { return nil }
func (n *noted) open() error                        { n.note("open"); return n.openErr }
func (n *noted) endpoints() []*endpoint.Endpoint {
	if n.far == nil {
		return nil
	}
	return []*endpoint.Endpoint{n.far}
}
func (n *noted) door() *door                 { return n.way }
func (n *noted) serve(context.Context)       {}
func (n *noted) begin()                      {}
func (n *noted) recheck() (kept, closed int) { return 2, 1 }
func (n *noted) look(h *Health)              { h.Warnings = append(h.Warnings, n.name) }
func (n *noted) retire()                     { n.note("retire") }
func (n *noted) drain(ctx context.Context) error {
	if n.hung == nil {
		return nil
	}
	select {
	case <-n.hung:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
func (n *noted) close() error { n.note("close"); return n.closeErr }

func TestPartsOpenInOrderAndCloseInTheOther(t *testing.T) {
	var said []string
	failed := errors.New("failed")
	p := parts{&noted{name: "a", to: &said}, &noted{name: "b", to: &said, closeErr: failed}, &noted{name: "c", to: &said}}
	if err := p.open(); err != nil {
		t.Fatal(err)
	}
	if kept, closed := p.recheck(); kept != 6 || closed != 3 {
		t.Errorf("%d stay and %d were closed, want 6 and 3", kept, closed)
	}
	if err := p.drain(t.Context()); err != nil {
		t.Errorf("drain: %v", err)
	}
	if err := p.close(); !errors.Is(err, failed) {
		t.Errorf("close: %v, want what one of them says", err)
	}
	want := []string{"a open", "b open", "c open", "a retire", "b retire", "c retire", "c close", "b close", "a close"}
	if !slices.Equal(said, want) {
		t.Errorf("%q, want %q", said, want)
	}
	if v := (&health{parts: p}).look(); !slices.Equal(v.Warnings, []string{"a", "b", "c"}) {
		t.Errorf("warnings %q", v.Warnings)
	}
}

func TestPartThatCannotBeOpenedEndsTheStart(t *testing.T) {
	var said []string
	failed := errors.New("failed")
	p := parts{&noted{name: "a", to: &said}, &noted{name: "b", to: &said, openErr: failed}, &noted{name: "c", to: &said}}
	if err := p.open(); !errors.Is(err, failed) {
		t.Errorf("open: %v", err)
	}
	if want := []string{"a open", "b open"}; !slices.Equal(said, want) {
		t.Errorf("%q, want %q", said, want)
	}
}

// A part that has metrics registers them: forgotten, they would be missing without a word.
func TestPartsRegisterTheMetricsTheyHave(t *testing.T) {
	collector, n := reflect.TypeFor[prometheus.Collector](), 0
	for _, field := range reflect.VisibleFields(reflect.TypeFor[daemon]()) {
		if !field.Type.Implements(reflect.TypeFor[part]()) || !field.Type.Implements(collector) {
			continue
		}
		n++
		one := reflect.New(field.Type.Elem()).Interface()
		if !slices.Contains(one.(part).collectors(), one.(prometheus.Collector)) {
			t.Errorf("%s does not register itself", field.Name)
		}
	}
	if n < 5 {
		t.Errorf("only %d parts with metrics were found", n)
	}
}

// What is under way may need the doors: they are open until it has ended.
func TestDoorsAreDrainedLast(t *testing.T) {
	set, err := all.New(all.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Close)
	end := func() *endpoint.Endpoint {
		ep, err := endpoint.New(endpoint.Options{Registry: set.Registry, Observer: endpoint.Discard})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ep.Close() })
		return ep
	}
	var said []string
	behind, near := end(), end()
	waits := &noted{name: "waits", to: &said, hung: make(chan struct{})}
	p := parts{waits, &noted{name: "inside", to: &said, way: &door{passage: &passage{far: behind}}}}
	a, b := transport.NewPipe(transport.PipeOptions{A: "a", B: "b"})
	behind.Attach(b)
	s := &session{near.Attach(a), set.MCP, set.A2A}

	drained := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() { drained <- p.drain(ctx) }()
	for range 3 {
		if err := echo(t, s); err != nil {
			t.Errorf("while something is under way: %v", err)
		}
	}
	close(waits.hung)
	if err := <-drained; err != nil {
		t.Errorf("drain: %v", err)
	}
	select {
	case <-s.Context().Done():
	case <-ctx.Done():
		t.Error("the door is still open")
	}
}
