package part

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/rpc"
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
	way      *Door
	hung     chan struct{} // drain waits for it
}

func (n *noted) note(what string) { *n.to = append(*n.to, n.name+" "+what) }

func (n *noted) Offer(*all.Options) error           { return nil }
func (n *noted) Collectors() []prometheus.Collector { return nil }
func (n *noted) Open() error                        { n.note("open"); return n.openErr }
func (n *noted) Endpoints() []*endpoint.Endpoint {
	if n.far == nil {
		return nil
	}
	return []*endpoint.Endpoint{n.far}
}
func (n *noted) Door() *Door                 { return n.way }
func (n *noted) Serve(context.Context)       {}
func (n *noted) Opened()                     {}
func (n *noted) Recheck() (kept, closed int) { return 2, 1 }
func (n *noted) Look(h *Health)              { h.Warnings = append(h.Warnings, n.name) }
func (n *noted) Retire()                     { n.note("retire") }
func (n *noted) Drain(ctx context.Context) error {
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
func (n *noted) Close() error { n.note("close"); return n.closeErr }

func TestPartsOpenInOrderAndCloseInTheOther(t *testing.T) {
	var said []string
	failed := errors.New("failed")
	p := List{&noted{name: "a", to: &said}, &noted{name: "b", to: &said, closeErr: failed}, &noted{name: "c", to: &said}}
	if err := p.Open(); err != nil {
		t.Fatal(err)
	}
	if kept, closed := p.Recheck(); kept != 6 || closed != 3 {
		t.Errorf("%d stay and %d were closed, want 6 and 3", kept, closed)
	}
	if err := p.Drain(t.Context()); err != nil {
		t.Errorf("drain: %v", err)
	}
	if err := p.Close(); !errors.Is(err, failed) {
		t.Errorf("close: %v, want what one of them says", err)
	}
	want := []string{"a open", "b open", "c open", "a retire", "b retire", "c retire", "c close", "b close", "a close"}
	if !slices.Equal(said, want) {
		t.Errorf("%q, want %q", said, want)
	}
	var v Health
	for _, one := range p {
		one.Look(&v)
	}
	if !slices.Equal(v.Warnings, []string{"a", "b", "c"}) {
		t.Errorf("warnings %q", v.Warnings)
	}
}

func TestPartThatCannotBeOpenedEndsTheStart(t *testing.T) {
	var said []string
	failed := errors.New("failed")
	p := List{&noted{name: "a", to: &said}, &noted{name: "b", to: &said, openErr: failed}, &noted{name: "c", to: &said}}
	if err := p.Open(); !errors.Is(err, failed) {
		t.Errorf("open: %v", err)
	}
	if want := []string{"a open", "b open"}; !slices.Equal(said, want) {
		t.Errorf("%q, want %q", said, want)
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
	p := List{waits, &noted{name: "inside", to: &said, way: &Door{passage: &Passage{far: behind}}}}
	a, b := transport.NewPipe(transport.PipeOptions{A: "a", B: "b"})
	behind.Attach(b)
	s := near.Attach(a)

	drained := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() { drained <- p.Drain(ctx) }()
	for range 3 {
		if _, err := rpc.Call(ctx, s, rpc.MethodEcho, nil); err != nil {
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
