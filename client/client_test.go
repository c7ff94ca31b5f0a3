package client

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait in these tests.
const patience = 5 * time.Minute

// connected returns a client of an endpoint that has one MCP server.
func connected(t *testing.T, server mcpmap.Server) *Client {
	t.Helper()
	table, err := mcpmap.NewTable(map[string]mcpmap.Server{"server": server}, "")
	if err != nil {
		t.Fatal(err)
	}
	set, err := all.New(all.Options{MCP: mcpmap.Options{Backend: table}})
	if err != nil {
		t.Fatal(err)
	}
	return attached(t, set)
}

// attached returns a client of an endpoint with these profiles.
func attached(t *testing.T, set *all.Set) *Client {
	t.Helper()
	t.Cleanup(set.Close)
	return attachedTo(t, set.Registry)
}

// attachedTo returns a client of an endpoint with these profiles, which end by
// themselves.
func attachedTo(t *testing.T, registry *profiles.Registry) *Client {
	t.Helper()
	ep, err := endpoint.New(endpoint.Options{Registry: registry})
	if err != nil {
		t.Fatal(err)
	}
	here, there := transport.Pipe()
	ep.Attach(there)
	c := &Client{address: "pipe"}
	if err := c.attach(here); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		_ = ep.Close()
	})
	return c
}

// scripted is an MCP server that does what a function says, in either era.
type scripted struct {
	mu   sync.Mutex
	seen []string // octets of what came, in order
	open int      // legacy sessions that began
	do   func(client mcpmap.Counterpart, x *mcpmap.Exchange)
}

func (s *scripted) note(octets []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, string(octets))
}

func (s *scripted) came() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

func (s *scripted) opened() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

func (s *scripted) Do(x *mcpmap.Exchange) {
	s.note(x.Message.Octets())
	s.do(nil, x)
}

func (s *scripted) Connect(client mcpmap.Counterpart) (mcpmap.Conversation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open++
	return &talk{s, client}, nil
}

type talk struct {
	s      *scripted
	client mcpmap.Counterpart
}

func (c *talk) Do(x *mcpmap.Exchange) {
	c.s.note(x.Message.Octets())
	c.s.do(c.client, x)
}
func (c *talk) Notify(m *mcpmap.Message) { c.s.note(m.Octets()) }
func (c *talk) Close()                   {}

func TestPingMeasuresARoundTrip(t *testing.T) {
	c := connected(t, &scripted{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if d, err := c.Ping(ctx); err != nil || d <= 0 {
		t.Errorf("Ping: %v, %v", d, err)
	}
}

func TestSummarize(t *testing.T) {
	all := make([]time.Duration, 100)
	for i := range all {
		all[i] = time.Duration(100 - i)
	}
	if got, want := Summarize(all), (Times{Min: 1, Mean: 50, P50: 51, P99: 100, Max: 100}); got != want {
		t.Errorf("Summarize = %+v, want %+v", got, want)
	}
	if got := Summarize(nil); got != (Times{}) {
		t.Errorf("Summarize(nil) = %+v", got)
	}
	if got, want := Summarize([]time.Duration{7}), (Times{7, 7, 7, 7, 7}); got != want {
		t.Errorf("Summarize = %+v, want %+v", got, want)
	}
}

func TestTargetThatThePeerCannotTellApartIsRefused(t *testing.T) {
	// An endpoint that serves nothing but swp.info says so of extension 16; one
	// without swp.info does not.
	set, err := profiles.NewRegistry(mcpmap.New(mcpmap.Options{}).Profile())
	if err != nil {
		t.Fatal(err)
	}
	c := attachedTo(t, set)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := c.CheckTarget(ctx, "files"); err == nil {
		t.Error("a peer that does not know targets was sent one")
	}
	if err := connected(t, &scripted{}).CheckTarget(ctx, "files"); err != nil {
		t.Errorf("a peer that knows targets: %v", err)
	}
}

// A peer that would ignore the name of a partner in the address is not asked at all.
func TestPartnersThatThePeerWouldIgnoreAreRefused(t *testing.T) {
	s := newStage(t, "tls")
	_, address := s.serve(endpoint.Options{})
	s.opts.Partner = true
	if _, err := Dial(t.Context(), address+"/beta", s.opts); err == nil || !strings.Contains(err.Error(), "does not announce that it forwards messages to partners") {
		t.Errorf("a partner behind a peer without partners: %v", err)
	}
}
