package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// house is an endpoint with one MCP server, which can be away and begin anew.
type house struct {
	t    *testing.T
	mux  bool // connections are as those of QUIC
	idle time.Duration

	mu    sync.Mutex
	set   *all.Set
	ep    *endpoint.Endpoint // nil while it is away
	dials []time.Time
}

// begin starts the endpoint, anew if it was there before.
func (h *house) begin(server mcpmap.Server) {
	h.t.Helper()
	h.end()
	table, err := mcpmap.NewTable(map[string]mcpmap.Server{"server": server}, "server")
	if err != nil {
		h.t.Fatal(err)
	}
	set, err := all.New(all.Options{TellBounds: h.idle > 0, MCP: mcpmap.Options{Backend: table}})
	if err != nil {
		h.t.Fatal(err)
	}
	ep, err := endpoint.New(endpoint.Options{Registry: set.Registry, Bounds: endpoint.Bounds{Idle: h.idle}})
	if err != nil {
		h.t.Fatal(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.set, h.ep = set, ep
}

func (h *house) end() {
	h.mu.Lock()
	set, ep := h.set, h.ep
	h.set, h.ep = nil, nil
	h.mu.Unlock()
	if ep != nil {
		_ = ep.Close()
		set.Close()
	}
}

// drain starts the shutdown of the endpoint, which another one may replace. It returns its end.
func (h *house) drain() (end func()) {
	h.mu.Lock()
	set, ep := h.set, h.ep
	h.set, h.ep = nil, nil
	h.mu.Unlock()
	go func() { _ = ep.Shutdown(context.Background()) }()
	return func() {
		_ = ep.Close()
		set.Close()
	}
}

func (h *house) dial(context.Context) (*Client, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dials = append(h.dials, time.Now())
	if h.ep == nil {
		return nil, net.ErrClosed
	}
	here, there := transport.NewPipe(transport.PipeOptions{Multiplexed: h.mux, A: "spiffe://test/client"})
	h.ep.Attach(there)
	return Attach(here, Options{})
}

func (h *house) dialled() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.dials)
}

// inHouses runs a test in virtual time over both kinds of pipes.
func inHouses(t *testing.T, idle time.Duration, run func(t *testing.T, h *house)) {
	for name, mux := range map[string]bool{"pipe": false, "mux": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &house{t: t, mux: mux, idle: idle}
				defer h.end()
				run(t, h)
			})
		})
	}
}

// echoing is a server that answers everything.
func echoing() *scripted {
	return &scripted{do: func(_ mcpmap.Counterpart, x *mcpmap.Exchange) {
		x.Finish([]byte(answer(string(x.Message.ID()))))
	}}
}

// requests are of both eras; %d is the id.
var requests = map[string]string{
	"legacy": `{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`,
	"modern": `{"jsonrpc":"2.0","id":%d,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
}

func TestStdioIsThereAfterFourHours(t *testing.T) {
	for era, request := range requests {
		t.Run(era, func(t *testing.T) {
			inHouses(t, 10*time.Minute, func(t *testing.T, h *house) {
				s := echoing()
				h.begin(s)
				peer := Keep(KeepOptions{Dial: h.dial})
				defer peer.Close()
				k := openOn(t, peer, 24*time.Hour, func(text string) { t.Error(text) })
				if era == "legacy" {
					k.write(initialize)
					k.read()
				}
				// A request at the very moment of the idle timeout, without keep-alive, may be lost.
				for i, pause := range []time.Duration{1, 9, 11, 29, 60, 130} {
					time.Sleep(pause * time.Minute)
					k.write(fmt.Sprintf(request, i))
					if got, want := k.read(), answer(fmt.Sprint(i)); got != want {
						t.Fatalf("after %v: %s, want %s", pause*time.Minute, got, want)
					}
				}
				if n := h.dialled(); (era == "legacy") != (n == 1) {
					t.Errorf("%d connections", n)
				}
				if n := s.opened(); era == "legacy" && n != 1 {
					t.Errorf("%d sessions", n)
				}
				_ = k.in.Close()
				if err := <-k.done; err != nil {
					t.Errorf("Stdio: %v", err)
				}
			})
		})
	}
}

// offering is a server that answers initialize with a result, and all else.
func offering(result string) *scripted {
	return &scripted{do: func(_ mcpmap.Counterpart, x *mcpmap.Exchange) {
		if x.Initialize() {
			x.Finish([]byte(`{"jsonrpc":"2.0","id":"init","result":` + result + `}`))
			return
		}
		x.Finish([]byte(answer(string(x.Message.ID()))))
	}}
}

func TestSessionIsOpenedAnewWhereTheEndpointBeganAnew(t *testing.T) {
	const (
		initialized = `{"jsonrpc":"2.0" ,"method":"notifications/initialized"}`
		level       = `{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"info"}}`
		quieter     = `{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"error"}}`
		subscribe   = `{"jsonrpc":"2.0","id":3,"method":"resources/subscribe","params":{"uri":"file:///a"}}`
		forgotten   = `{"jsonrpc":"2.0","id":4,"method":"resources/subscribe","params":{"uri":"file:///b"}}`
		forget      = `{"jsonrpc":"2.0","id":5,"method":"resources/unsubscribe","params":{"uri":"file:///b"}}`
		call        = `{"jsonrpc":"2.0","id":6,"method":"tools/call"}`
		offer       = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"prompts":{}}}`
		more        = `{"capabilities":{"prompts":{"listChanged":true},"tools":{"listChanged":true},"x":1},"protocolVersion":"2025-11-25"}`
	)
	inHouses(t, 0, func(t *testing.T, h *house) {
		h.begin(offering(offer))
		peer := Keep(KeepOptions{Dial: h.dial})
		defer peer.Close()
		k := openOn(t, peer, 24*time.Hour, func(text string) { t.Error(text) })
		k.write(initialize)
		k.read()
		k.write(initialized)
		for _, request := range []string{level, quieter, subscribe, forgotten, forget} {
			k.write(request)
			k.read()
		}
		h.end()
		time.Sleep(time.Hour)
		next := offering(more)
		h.begin(next)
		time.Sleep(time.Minute) // the session follows without a word of the client
		if got, want := k.read(), `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`; got != want {
			t.Errorf("the client was told %s, want %s", got, want)
		}
		k.write(call)
		if got, want := k.read(), answer("6"); got != want {
			t.Errorf("answer %s, want %s", got, want)
		}
		if diff := cmp.Diff([]string{initialize, initialized, quieter, subscribe, call}, next.came()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestSessionEndsWhereTheServerIsAnotherOne(t *testing.T) {
	for name, result := range map[string]string{
		"version":  `{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}}}`,
		"less":     `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}`,
		"nothing":  `{"protocolVersion":"2025-11-25"}`,
		"an array": `{"protocolVersion":"2025-11-25","capabilities":{"tools":[]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			inHouses(t, 0, func(t *testing.T, h *house) {
				h.begin(offering(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}}}`))
				peer := Keep(KeepOptions{Dial: h.dial})
				defer peer.Close()
				k := openOn(t, peer, 24*time.Hour, nil)
				k.write(initialize)
				k.read()
				next := offering(result)
				h.begin(next)
				synctest.Wait()
				for _, id := range []string{"1", "2"} {
					k.write(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call"}`)
					if got := k.read(); !strings.Contains(got, `"id":`+id) || !strings.Contains(got, "initialize again") {
						t.Errorf("answer %s", got)
					}
				}
				if diff := cmp.Diff([]string{initialize}, next.came()); diff != "" {
					t.Error(diff)
				}
				k.write(initialize)
				k.read()
				k.write(`{"jsonrpc":"2.0","id":3,"method":"tools/call"}`)
				if got, want := k.read(), answer("3"); got != want {
					t.Errorf("answer %s, want %s", got, want)
				}
			})
		})
	}
}

func TestWhatIsUnderWayIsNotRepeated(t *testing.T) {
	for era, request := range requests {
		t.Run(era, func(t *testing.T) {
			inHouses(t, 0, func(t *testing.T, h *house) {
				s := &scripted{do: func(_ mcpmap.Counterpart, x *mcpmap.Exchange) {
					if x.Initialize() {
						x.Finish([]byte(answer(`"init"`)))
					}
				}}
				h.begin(s)
				peer := Keep(KeepOptions{Dial: h.dial})
				defer peer.Close()
				k := openOn(t, peer, 24*time.Hour, nil)
				k.write(initialize)
				k.read()
				k.write(fmt.Sprintf(request, 1))
				synctest.Wait()
				next := echoing()
				h.begin(next)
				if got := k.read(); !strings.Contains(got, `"id":1,"error"`) || !strings.Contains(got, "connection lost") {
					t.Errorf("answer %s", got)
				}
				k.write(fmt.Sprintf(request, 2))
				if got, want := k.read(), answer("2"); got != want {
					t.Errorf("answer %s, want %s", got, want)
				}
				for _, octets := range next.came() {
					if octets == fmt.Sprintf(request, 1) {
						t.Error("the request was sent again")
					}
				}
			})
		})
	}
}

func TestRequestWaitsForAnEndpointThatBeginsAnew(t *testing.T) {
	inHouses(t, 0, func(t *testing.T, h *house) {
		h.begin(echoing())
		peer := Keep(KeepOptions{Dial: h.dial})
		defer peer.Close()
		k := openOn(t, peer, 24*time.Hour, nil)
		k.write(fmt.Sprintf(requests["modern"], 0))
		k.read()
		h.end()
		synctest.Wait()
		k.write(fmt.Sprintf(requests["modern"], 1))
		time.Sleep(3 * time.Second)
		h.begin(echoing())
		if got, want := k.read(), answer("1"); got != want {
			t.Errorf("answer %s, want %s", got, want)
		}
		h.end()
		synctest.Wait()
		began := time.Now()
		k.write(fmt.Sprintf(requests["modern"], 2))
		if got := k.read(); !strings.Contains(got, "cannot be reached now") || !strings.Contains(got, `"retryable":true`) {
			t.Errorf("answer %s", got)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the client was told after %v", took)
		}
	})
}

// The first endpoint shuts down, and waits for a call. A call during that time is for the next endpoint.
func TestACallThatADrainingEndpointRefusesIsMadeElsewhere(t *testing.T) {
	inHouses(t, 0, func(t *testing.T, h *house) {
		goOn := make(chan struct{})
		slow := &scripted{do: func(_ mcpmap.Counterpart, x *mcpmap.Exchange) {
			go func() {
				<-goOn
				x.Finish([]byte(answer(string(x.Message.ID()))))
			}()
		}}
		h.begin(slow)
		peer := Keep(KeepOptions{Dial: h.dial})
		defer peer.Close()
		k := openOn(t, peer, 24*time.Hour, nil)
		k.write(fmt.Sprintf(requests["modern"], 0))
		synctest.Wait()
		defer h.drain()()
		synctest.Wait()
		h.begin(echoing())
		for id := 1; id <= 2; id++ {
			k.write(fmt.Sprintf(requests["modern"], id))
			if got, want := k.read(), answer(fmt.Sprint(id)); got != want {
				t.Errorf("answer %s, want %s", got, want)
			}
		}
		close(goOn)
		if got, want := k.read(), answer("0"); got != want {
			t.Errorf("answer %s, want %s", got, want)
		}
		if n := len(slow.came()); n != 1 || h.dialled() != 2 {
			t.Errorf("%d calls at the first endpoint, %d connections", n, h.dialled())
		}
	})
}

// An error is of an attempt that was made for the call, or while it waited.
func TestAnEndpointThatIsBackIsReachedAtOnce(t *testing.T) {
	inHouses(t, 0, func(t *testing.T, h *house) {
		peer := Keep(KeepOptions{Dial: h.dial})
		defer peer.Close()
		for range 20 { // it is away for long: pauses have grown
			if _, err := peer.Get(t.Context()); !errors.Is(err, net.ErrClosed) {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if n := h.dialled(); n != 20 {
			t.Errorf("dialled %d times for 20 calls", n)
		}
		h.begin(echoing())
		began := time.Now()
		if _, err := peer.Get(t.Context()); err != nil || time.Since(began) > tryAgain {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

func TestCallsThatWaitForAnAttemptShareItsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dialled := 0
		peer := Keep(KeepOptions{Dial: func(context.Context) (*Client, error) {
			dialled++
			time.Sleep(time.Second)
			return nil, net.ErrClosed
		}})
		defer peer.Close()
		var all sync.WaitGroup
		began := time.Now()
		for range 10 {
			all.Go(func() {
				if _, err := peer.Get(t.Context()); !errors.Is(err, net.ErrClosed) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); dialled != 1 || took != time.Second {
			t.Errorf("dialled %d times in %v", dialled, took)
		}
	})
}

func TestAnswerToALostQuestionIsDropped(t *testing.T) {
	const question = `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`
	inHouses(t, 0, func(t *testing.T, h *house) {
		var answers []string
		s := &scripted{}
		s.do = func(client mcpmap.Counterpart, x *mcpmap.Exchange) {
			if x.Initialize() {
				x.Finish([]byte(answer(`"init"`)))
				return
			}
			var m mcpmap.Message
			if err := m.Scan([]byte(question)); err != nil {
				t.Error(err)
			}
			id := string(x.Message.ID())
			client.Request(x, &m, func(octets []byte) {
				answers = append(answers, string(octets))
				if !strings.Contains(string(octets), `"error"`) { // else the client is lost, and a late answer might still reach it
					x.Finish([]byte(answer(id)))
				}
			})
		}
		h.begin(s)
		peer := Keep(KeepOptions{Dial: h.dial})
		defer peer.Close()
		complaints := make(chan string, 1)
		k := openOn(t, peer, 24*time.Hour, func(text string) { complaints <- text })
		k.write(initialize)
		k.read()
		k.write(`{"jsonrpc":"2.0","id":7,"method":"tools/call"}`)
		if got := k.read(); got != question {
			t.Fatalf("question %s", got)
		}
		h.begin(s)
		synctest.Wait()
		answers = nil
		if got := k.read(); !strings.Contains(got, `"id":7,"error"`) {
			t.Errorf("answer %s", got)
		}
		k.write(`{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`)
		if got := <-complaints; !strings.Contains(got, "dropped") {
			t.Errorf("complaint %q", got)
		}
		k.write(`{"jsonrpc":"2.0","id":8,"method":"tools/call"}`)
		if got := k.read(); got != question {
			t.Fatalf("question %s", got)
		}
		k.write(`{"jsonrpc":"2.0","id":1,"result":{"roots":[1]}}`)
		if got, want := k.read(), answer("8"); got != want {
			t.Errorf("answer %s, want %s", got, want)
		}
		synctest.Wait()
		if all := strings.Join(answers, "\n"); !strings.Contains(all, "[1]") || strings.Contains(all, "[]") {
			t.Errorf("the server was answered %q", answers)
		}
	})
}

func TestPeerWithoutProfile12IsAskedNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const idle = 10 * time.Minute
		s := echoing()
		table, err := mcpmap.NewTable(map[string]mcpmap.Server{"server": s}, "server")
		if err != nil {
			t.Fatal(err)
		}
		mapping := mcpmap.New(mcpmap.Options{Backend: table})
		defer mapping.Close()
		registry, err := profiles.NewRegistry(mapping.Profile())
		if err != nil {
			t.Fatal(err)
		}
		ep, err := endpoint.New(endpoint.Options{Registry: registry, Bounds: endpoint.Bounds{Idle: idle}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = ep.Close() }()
		dials := 0
		peer := Keep(KeepOptions{Dial: func(context.Context) (*Client, error) {
			dials++
			here, there := transport.Pipe()
			ep.Attach(there)
			return Attach(here, Options{})
		}})
		defer peer.Close()
		k := openOn(t, peer, 24*time.Hour, nil)
		k.write(initialize)
		k.read()
		if dials != 2 {
			t.Errorf("%d connections, want the one that was asked and another", dials)
		}
		for i := range 3 {
			k.write(fmt.Sprintf(requests["legacy"], i))
			// Its sessions outlive their connections for a minute. That this one is gone
			// only a request shows.
			if got := k.read(); i > 0 && (!strings.Contains(got, "the session had ended") || !strings.Contains(got, `"retryable":true`)) {
				t.Errorf("answer %s", got)
			}
			k.write(fmt.Sprintf(requests["legacy"], i))
			if got := k.read(); got != answer(fmt.Sprint(i)) {
				t.Errorf("answer %s", got)
			}
			time.Sleep(2 * idle)
			if c := peer.current(); c != nil {
				t.Error("the connection did not end")
			}
		}
		_ = k.in.Close()
		if err := <-k.done; err != nil {
			t.Errorf("Stdio: %v", err)
		}
	})
}

func TestAPeerThatIsReplacedDuringTheQuestionIsAskedAgain(t *testing.T) {
	inHouses(t, 0, func(t *testing.T, h *house) {
		h.begin(echoing())
		dials := 0
		peer := Keep(KeepOptions{Dial: func(ctx context.Context) (*Client, error) {
			if dials++; dials > 1 {
				return h.dial(ctx)
			}
			here, there := transport.NewPipe(transport.PipeOptions{Multiplexed: h.mux, A: "spiffe://test/client"})
			go func() { // it ends without an answer
				if s, err := there.Accept(t.Context()); err == nil {
					_, _ = s.Read(make([]byte, 1))
				}
				_ = there.Close(0)
			}()
			return Attach(here, Options{})
		}})
		defer peer.Close()
		k := openOn(t, peer, 24*time.Hour, nil)
		k.write(initialize)
		k.read()
		if peer.knows() != uncertain || dials != 2 {
			t.Errorf("it knows %v after %d connections", peer.knows(), dials)
		}
		defer peer.Watch()()
		time.Sleep(aliveEvery + time.Second)
		if peer.knows() != served || dials != 3 || peer.current().c.info.Load() == nil {
			t.Errorf("later it knows %v after %d connections", peer.knows(), dials)
		}
		_ = k.in.Close()
		if err := <-k.done; err != nil {
			t.Errorf("Stdio: %v", err)
		}
	})
}

func TestSilentPeerIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &house{t: t}
		h.begin(echoing())
		defer h.end()
		var cut transport.Conn
		peer := Keep(KeepOptions{Timeout: 7 * time.Second, Dial: func(context.Context) (*Client, error) {
			here, there := transport.Pipe()
			far, near := transport.Pipe()
			cut = near
			h.ep.Attach(far)
			go relayUntil(there, near)
			return Attach(here, Options{})
		}})
		defer peer.Close()
		defer peer.Watch()()
		c, err := peer.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = cut.Close(0)
		began := time.Now()
		<-c.Context().Done()
		if took := time.Since(began); took > aliveEvery+7*time.Second {
			t.Errorf("after %v", took)
		}
	})
}

// relayUntil passes octets on until b is closed, and is silent from then on.
func relayUntil(a, b transport.Conn) {
	x, _ := a.Open(context.Background())
	y, _ := b.Open(context.Background())
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := x.Read(buf)
			if err != nil {
				return
			}
			_, _ = y.Write(buf[:n]) // or it is silent
		}
	}()
	buf := make([]byte, 4096)
	for {
		n, err := y.Read(buf)
		if err != nil {
			return
		}
		_, _ = x.Write(buf[:n])
	}
}

func TestGetDialsWithPausesAndGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &house{t: t}
		peer := Keep(KeepOptions{Dial: h.dial, Patience: time.Minute})
		if _, err := peer.Get(t.Context()); !errors.Is(err, net.ErrClosed) || h.dialled() != 1 {
			t.Errorf("a peer that never was there: %v after %d attempts", err, h.dialled())
		}
		time.Sleep(time.Second)
		h.begin(echoing())
		defer h.end()
		first, err := peer.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if again, err := peer.Get(t.Context()); err != nil || again != first {
			t.Errorf("another connection, or %v", err)
		}
		time.Sleep(time.Minute)
		h.end()
		synctest.Wait()
		began, before := time.Now(), h.dialled()
		if _, err := peer.Get(t.Context()); !errors.Is(err, net.ErrClosed) {
			t.Errorf("while it is away: %v", err)
		}
		if took := time.Since(began); took < 30*time.Second || took > time.Minute {
			t.Errorf("gave up after %v, want about a minute", took)
		}
		if n := h.dialled() - before; n < 12 || n > 30 {
			t.Errorf("%d attempts in a minute", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := peer.Get(ctx); err == nil {
			t.Error("a connection to nobody")
		}
		peer.Close()
		if _, err := peer.Get(t.Context()); !errors.Is(err, ErrKeptClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

func TestIdleEndIsNotTakenForADenial(t *testing.T) {
	inHouses(t, time.Minute, func(t *testing.T, h *house) {
		h.begin(echoing())
		c, err := h.dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		_, err = c.Ping(t.Context())
		if err == nil || !strings.Contains(err.Error(), "idle") || strings.Contains(err.Error(), "access.deny") {
			t.Errorf("%v", err)
		}
	})
}
