package daemon

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/profiles/state"
)

// flood is how many items a source sends: more than any queue on the way has places for.
const flood = 3000

// some is how many durable items a source sends.
const some = flood / 2

// floodLine is the n-th message of a flood.
const floodLine = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"flood","progress":%d}}`

// saidLine is one that belongs to no call. All of them have more than the 16 MiB that are queued for a
// session.
var saidLine = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","logger":"` + strings.Repeat("x", 6000) + `","data":%d}}`

// floodAnswer answers a message to an MCP server of one era. write gets the messages in order.
func floodAnswer(m *mcpmap.Message, modern bool, write func(line string)) {
	result := func(of string) { write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID(), of)) }
	switch {
	case m.Is(mcpmap.MethodDiscover) && modern:
		result(`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"flood","version":"1"}}`)
	case m.Is(mcpmap.MethodInitialize) && !modern:
		result(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"flood","version":"1"}}`)
	case m.Is("tools/list"):
		result(`{"tools":[{"name":"flood","inputSchema":{"type":"object"}}]}`)
	case string(m.Tool()) == "flood":
		for i := range flood {
			write(fmt.Sprintf(floodLine, i))
		}
		result(`{"content":[]}`)
	case m.Kind() == mcpmap.Request:
		write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found"}}`, m.ID()))
	}
}

// floodMain is such a server on standard input and output. After the notification "flood" it says as
// many messages that belong to no call.
func floodMain(modern bool) int {
	in, out := bufio.NewScanner(os.Stdin), bufio.NewWriter(os.Stdout)
	for in.Scan() {
		var m mcpmap.Message
		if m.Scan(in.Bytes()) != nil {
			continue
		}
		if m.Is("flood") {
			for i := range flood {
				_, _ = fmt.Fprintf(out, saidLine+"\n", i)
			}
		}
		floodAnswer(&m, modern, func(line string) { _, _ = out.WriteString(line + "\n") })
		_ = out.Flush()
	}
	return 0
}

// floodServer is such a server at a URL.
func floodServer(t *testing.T, modern bool) string {
	t.Helper()
	var mu sync.Mutex
	asked := make(map[string]chan struct{}) // sessions, closed by the notification "flood"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		events := func() func(string) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			return func(line string) { _, _ = fmt.Fprintf(w, "data: %s\n\n", line) }
		}
		mu.Lock()
		flooded := asked[r.Header.Get("Mcp-Session-Id")]
		mu.Unlock()
		body, _ := io.ReadAll(r.Body)
		var m mcpmap.Message
		switch {
		case r.Method == http.MethodGet && flooded != nil:
			write := events()
			select {
			case <-flooded:
			case <-r.Context().Done():
				return
			}
			for i := range flood {
				write(fmt.Sprintf(saidLine, i))
			}
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		case r.Method != http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case m.Scan(body) != nil || m.Kind() != mcpmap.Request:
			if m.Is("flood") {
				close(flooded)
			}
			w.WriteHeader(http.StatusAccepted)
		case string(m.Tool()) == "flood":
			floodAnswer(&m, modern, events())
		default:
			w.Header().Set("Content-Type", "application/json")
			if m.Is(mcpmap.MethodInitialize) {
				mu.Lock()
				id := fmt.Sprint("s", len(asked))
				asked[id] = make(chan struct{})
				mu.Unlock()
				w.Header().Set("Mcp-Session-Id", id)
			}
			floodAnswer(&m, modern, func(line string) { _, _ = io.WriteString(w, line) })
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// floodYAML configures every source of a flood that is not a client.
func floodYAML(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-ndjson")
		for i := range flood {
			_, _ = fmt.Fprintf(w, "{\"item\":%d}\n", i)
		}
		_, _ = io.WriteString(w, "{\"result\":0}\n")
	}))
	t.Cleanup(far.Close)
	yaml := "mcp:\n  servers:\n"
	for _, modern := range []bool{false, true} {
		yaml += fmt.Sprintf("    stdio-%s: {command: %q, env: {%s: flood-%[1]s}}\n", eraOf(modern), self, childEnv)
		yaml += fmt.Sprintf("    url-%s: {url: %q}\n", eraOf(modern), floodServer(t, modern))
	}
	return yaml + fmt.Sprintf("rpc: {backends: {far: {url: '%s', methods: [flood]}}}\n", far.URL)
}

func eraOf(modern bool) string {
	if modern {
		return "modern"
	}
	return "legacy"
}

// way is how a receiver reaches the sources of b.
type way struct {
	name  string
	b, at *organisation    // at: the endpoint of the receiver, b or one whose partner b is
	s     *session         // with at; without a use over HTTP
	on    profiles.Session // s, or toward b
	to    string           // before the names of b: "" or "b/"
}

// id is the name of the way as one of an object.
func (w *way) id() string { return strings.NewReplacer(" ", "-", ",", "").Replace(w.name) }

// tally is what became of a flood.
type tally struct {
	sent, received int
	lost           int   // as counters say
	told           error // what the receiver was told of the loss
	disorder       bool
	pause          time.Duration // after the first item, 50 ms if not set
}

// losses is what is counted, once it is all that was not received, or after a while.
func (y *tally) losses(counted func() int) {
	for began := time.Now(); ; <-time.After(10 * time.Millisecond) {
		y.lost = counted()
		if y.received+y.lost >= y.sent || time.Since(began) > drain {
			return
		}
	}
}

// large is the pause for 18 MiB.
const large = 200 * time.Millisecond

// takes notes the next item of a flood, slowly at first, so that what is behind it piles up. Nothing
// depends on the pauses.
func (y *tally) takes(n int) {
	switch {
	case y.received == 0:
		time.Sleep(cmp.Or(y.pause, 50*time.Millisecond))
	case y.received%100 == 0:
		time.Sleep(time.Millisecond)
	}
	y.disorder = y.disorder || n != y.received
	y.received++
}

// numberIn is the number of an item, behind a text.
func numberIn(octets []byte, before string) int {
	_, rest, _ := bytes.Cut(octets, []byte(before))
	n, err := strconv.Atoi(strings.TrimRight(string(rest), "}"))
	if err != nil {
		return -1
	}
	return n
}

func floodRequest(modern bool) string {
	version := ""
	if modern {
		version = `"io.modelcontextprotocol/protocolVersion":"2026-07-28",`
	}
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"flood","arguments":{},"_meta":{` + version + `"progressToken":"flood"}}}`
}

const floodInitialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

// mcpLosses returns what the endpoints of a way count of MCP from now on.
func (w *way) mcpLosses(server string) func() int {
	before := w.mcpCounts(server)
	return func() int { return w.mcpCounts(server) - before }
}

func (w *way) mcpCounts(server string) int {
	n := int(w.s.mapping.Stats().Dropped)
	for _, series := range []string{fmt.Sprintf("swpd_mcp_dropped_total{server=%q}", server), "swpd_mcp_undelivered_total", "swpd_http_mcp_dropped_total"} {
		for _, o := range slices.Compact([]*organisation{w.b, w.at}) {
			if v, err := strconv.Atoi(o.metric(series)); err == nil {
				n += v
			}
		}
	}
	return n
}

// mcpCall counts the notifications of a call.
func mcpCall(server string, modern bool) func(*testing.T, *way) tally {
	return func(t *testing.T, w *way) (y tally) {
		y.sent = flood
		counted := w.mcpLosses(server)
		call := mcpmap.Call{Target: w.to + server, Octets: []byte(floodRequest(modern))}
		if !modern {
			result, err := w.s.ask(t, mcpmap.Call{Target: w.to + server, Octets: []byte(floodInitialize)})
			if err != nil {
				t.Fatal(err)
			}
			call.Session = result.Session
		}
		call.Events.Notification = func(octets []byte) {
			if bytes.Contains(octets, []byte("notifications/progress")) {
				y.takes(numberIn(octets, `"progress":`))
			}
		}
		result, err := w.s.ask(t, call)
		if err == nil && !bytes.Contains(result.Octets, []byte(`"content":[]`)) {
			err = errors.New(string(result.Octets))
		}
		y.told = err
		y.losses(counted)
		return y
	}
}

// mcpSaid counts the messages of a legacy session that belong to no call.
func mcpSaid(server string) func(*testing.T, *way) tally {
	return func(t *testing.T, w *way) (y tally) {
		y.sent, y.pause = flood, large
		counted := w.mcpLosses(server)
		last := make(chan struct{})
		result, err := w.s.ask(t, mcpmap.Call{Target: w.to + server, Octets: []byte(floodInitialize), Events: mcpmap.Events{Notification: func(octets []byte) {
			n := numberIn(octets, `"data":`)
			if y.takes(n); n == flood-1 {
				close(last)
			}
		}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","method":"flood"}`} {
			if err := w.s.mapping.Client(w.s.Session).Notify(t.Context(), w.to+server, result.Session, []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case <-last:
		case <-time.After(patience):
			t.Fatalf("the last message did not come; %d are counted as lost", counted())
		}
		y.losses(counted)
		return y
	}
}

// overHTTP counts the events of a stream. opened is called when it has begun.
func (y *tally) overHTTP(t *testing.T, opened func(), req *http.Request, before string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	resp, err := http.DefaultTransport.RoundTrip(req.WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	opened()
	in := bufio.NewReader(resp.Body)
	for y.received < y.sent {
		line, err := in.ReadBytes('\n')
		if err != nil {
			y.told = err
			return
		}
		if line = bytes.TrimSpace(line); bytes.HasPrefix(line, []byte("data: ")) && bytes.Contains(line, []byte(before)) {
			y.takes(numberIn(line, before))
		} else if bytes.Contains(line, []byte(`"error"`)) {
			y.told = errors.New(string(line))
			return
		}
	}
}

// frontCall is mcpCall over the HTTP front.
func frontCall(server string, modern bool) func(*testing.T, *way) tally {
	return func(t *testing.T, w *way) (y tally) {
		y.sent = flood
		counted := w.mcpLosses(server)
		url := w.at.front() + "/mcp/" + w.to + server
		headers := append([]string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: flood"}, jsonHeaders...)
		if !modern {
			_, h, _ := post(t, url, floodInitialize)
			headers = append([]string{"Mcp-Session-Id: " + h.Get("Mcp-Session-Id")}, jsonHeaders...)
		}
		y.overHTTP(t, func() {}, request(t, http.MethodPost, url, floodRequest(modern), headers...), `"progress":`)
		y.losses(counted)
		return y
	}
}

// frontSaid is mcpSaid over the GET stream of the HTTP front.
func frontSaid(server string) func(*testing.T, *way) tally {
	return func(t *testing.T, w *way) (y tally) {
		y.sent, y.pause = flood, large
		counted := w.mcpLosses(server)
		url := w.at.front() + "/mcp/" + w.to + server
		_, h, _ := post(t, url, floodInitialize)
		session := "Mcp-Session-Id: " + h.Get("Mcp-Session-Id")
		post(t, url, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, session)
		opened := func() { post(t, url, `{"jsonrpc":"2.0","method":"flood"}`, session) }
		y.overHTTP(t, opened, request(t, http.MethodGet, url, "", session, "Accept: text/event-stream"), `"data":`)
		y.losses(counted)
		return y
	}
}

// rpcItems counts the items of a call.
func rpcItems(t *testing.T, w *way) (y tally) {
	y.sent = flood
	stream, err := rpc.Open(t.Context(), w.s.Session, w.to+"flood", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	for {
		item, err := stream.Recv(t.Context())
		if err != nil {
			if !errors.Is(err, io.EOF) {
				y.told = err
			}
			return y
		}
		n, _ := strconv.Atoi(string(item))
		y.takes(n)
	}
}

// a2aEvents counts the Events of a task.
func a2aEvents(t *testing.T, w *way) (y tally) {
	y.sent = some
	d, err := w.s.tasks.Send(t.Context(), w.s.Session, &a2a.Task{Kind: "k"}, a2a.SendOptions{Agent: w.to + "flood"})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for {
		event, err := d.Recv(t.Context())
		switch {
		case errors.Is(err, io.EOF):
			return y
		case err != nil:
			y.told = err
			return y
		case event.FirstHeld != 0:
			y.told = fmt.Errorf("the first that is held is %d", event.FirstHeld)
		}
		if n, err := strconv.Atoi(event.Message); err == nil {
			y.takes(n)
		}
	}
}

// frontA2A is a2aEvents over the HTTP front.
func frontA2A(t *testing.T, w *way) (y tally) {
	y.sent = some
	y.overHTTP(t, func() {}, request(t, http.MethodPost, w.at.front()+"/a2a/"+w.to+"flood",
		`{"method":"SendStreamingMessage","params":{},"id":1,"jsonrpc":"2.0"}`, append([]string{version}, jsonHeaders...)...), `"n":`)
	return y
}

// eventsOf counts published events. A subscription that is said to be too slow is taken up behind its cursor.
func eventsOf(t *testing.T, w *way) (y tally) {
	y.sent = flood
	kind := w.id()
	sub := subscribed(t, w.s.Session, events.SubscribeOptions{Filter: "type:" + w.to + kind})
	published := make(chan error, 1)
	go func() {
		p := w.b.mustDial(w.b.addrs[0]).Session
		lane, err := p.Open(t.Context())
		if err != nil {
			published <- err
			return
		}
		pub := events.NewPublisher(lane, rpc.Sync)
		defer pub.Close()
		for i := range flood {
			if err = pub.Publish(t.Context(), record(fmt.Sprint(kind, i), kind, fmt.Sprint(i))); err != nil {
				break
			}
			if i%100 == 99 {
				if err = pub.Sync(t.Context()); err != nil {
					break
				}
			}
		}
		published <- err
	}()
	cursor := sub.Start()
	for y.received < flood {
		d, err := sub.Recv(t.Context())
		if err != nil {
			y.told = err
			sub.Close()
			sub = subscribed(t, w.s.Session, events.SubscribeOptions{Filter: "type:" + w.to + kind, After: &cursor})
			y.lost += int(sub.Start() - cursor)
			continue
		}
		cursor = d.Cursor
		for _, r := range d.Events {
			n, _ := strconv.Atoi(string(r.Body))
			y.takes(n)
		}
	}
	if err := <-published; err != nil {
		t.Error(err)
	}
	return y
}

// deliveriesOf counts deliveries.
func deliveriesOf(t *testing.T, w *way) (y tally) {
	topic := w.id()
	y.sent = some
	c := consumes(t, w.at, w.s.Session, w.s.relays, w.to+topic, 64)
	_, p := relayPeer(t, w.b.running, w.b.addrs[0])
	published := make(chan error, 1)
	go func() {
		for i := 0; i < some; {
			var waits []func(context.Context) (relay.Receipt, error)
			for ; len(waits) < 100; i++ {
				wait, err := relay.Submit(t.Context(), p, &relay.Publication{ID: []byte(fmt.Sprint(topic, i)), Topic: topic, Payload: []byte(fmt.Sprint(i))})
				if err != nil {
					published <- err
					return
				}
				waits = append(waits, wait)
			}
			for _, wait := range waits {
				if _, err := wait(t.Context()); err != nil {
					published <- err
					return
				}
			}
		}
		published <- nil
	}()
	seen := map[string]bool{}
	for len(seen) < some {
		d := next(t, c)
		if !seen[string(d.Payload)] {
			seen[string(d.Payload)] = true
			y.takes(y.received) // the order of deliveries is not promised
		}
		if err := d.Ack(); err != nil {
			t.Error(err)
		}
	}
	if err := <-published; err != nil {
		t.Error(err)
	}
	return y
}

// octetsReceived counts the octets of an artifact, in KiB.
func octetsReceived(t *testing.T, w *way) (y tally) {
	const size = 24 << 20
	y.sent = size >> 10
	octets, sum := octetsOf(size)
	id := w.id()
	u := artifact.Upload{ArtifactID: id, Size: size, Hash: sum, Octets: bytes.NewReader(octets), Sync: rpc.Sync}
	if err := u.Send(t.Context(), w.b.mustDial(w.b.addrs[0]).Session); err != nil {
		t.Fatal(err)
	}
	at := 0
	_, err := (&artifact.Download{ArtifactID: w.to + id, Sink: func(c *artifact.Chunk) error {
		if at == 0 {
			time.Sleep(100 * time.Millisecond)
		}
		y.disorder = y.disorder || !bytes.Equal(c.Data, octets[at:at+len(c.Data)])
		at += len(c.Data)
		return nil
	}}).Receive(t.Context(), w.s.Session)
	y.received, y.told = at>>10, err
	return y
}

// deltasOf counts the deltas of a state.
func deltasOf(t *testing.T, w *way) (y tally) {
	y.sent = some
	stream, err := rpc.Open(t.Context(), w.on, state.MethodDeltas, floodState.ID[:])
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	for {
		_, err := stream.Recv(t.Context())
		if err != nil {
			if !errors.Is(err, io.EOF) {
				y.told = err
			}
			return y
		}
		y.takes(y.received) // their order is that of their digests
	}
}

// floodState has some deltas.
var floodState = func() state.State {
	s := state.State{Blob: []byte("flood")}
	s.ID = state.IDOf(s.Blob)
	return s
}()

func putsDeltas(t *testing.T, s profiles.Session) {
	t.Helper()
	lane := opened(t, s)
	if _, err := state.PutAll(t.Context(), lane, rpc.Sync, floodState); err != nil {
		t.Fatal(err)
	}
	for i := range some {
		sync := rpc.Sync
		if i%100 != 0 && i < some-1 {
			sync = func(context.Context, profiles.Lane) error { return nil }
		}
		if err := state.AddDelta(t.Context(), lane, sync, floodState.ID, fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
}

// Of what a source has sent everything arrives, in order, at a receiver that is slow for a while; or the
// receiver is told, and counters say how much is lost.
func TestWhatIsSentArrivesOrItsLossIsToldAndCounted(t *testing.T) {
	t.Parallel()
	b := open(t, "b", httpYAML+floodYAML(t))
	b.agent("flood", func(_ context.Context, task *a2a.Task, event func(string, []byte) error) ([]byte, error) {
		for i := range some {
			message, payload := fmt.Sprint(i), []byte(nil)
			if task.Kind != "k" {
				message, payload = "", fmt.Appendf(nil, `{"n":%d}`, i)
			}
			if err := event(message, payload); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}, append(a2abinding.Kinds(), "k")...)
	putsDeltas(t, b.mustDial(b.addrs[0]).Session)
	var ways, fronts []*way
	for i, transport := range []string{"TLS", "QUIC"} {
		s := b.mustDial(b.addrs[i])
		ways = append(ways, &way{name: transport, b: b, at: b, s: s, on: s.Session})
	}
	fronts = append(fronts, &way{name: "HTTP", b: b, at: b, s: ways[0].s})
	for i, transport := range []string{"TLS", "QUIC"} {
		name := string(rune('c' + i))
		a := open(t, name, httpYAML)
		b.trusting(name, a)
		a.trusting("b", b, b.addrs[i])
		a.connected("b")
		s := a.mustDial(a.addrs[i])
		ways = append(ways, &way{name: transport + ", partner", b: b, at: a, s: s, on: profiles.Toward(s.Session, "b"), to: "b/"})
		fronts = append(fronts, &way{name: "HTTP, partner " + transport, b: b, at: a, s: s, to: "b/"})
	}
	type row struct {
		profile string
		ways    []*way
		run     func(*testing.T, *way) tally
	}
	var rows []row
	for _, kind := range []string{"stdio", "url"} {
		for _, modern := range []bool{false, true} {
			server, era := kind+"-"+eraOf(modern), map[bool]string{false: "2025-11-25", true: "2026-07-28"}[modern]
			rows = append(rows, row{"MCP, " + kind + ", " + era, ways, mcpCall(server, modern)}, row{"MCP, " + kind + ", " + era, fronts, frontCall(server, modern)})
			if !modern {
				rows = append(rows, row{"MCP, " + kind + ", session", ways, mcpSaid(server)}, row{"MCP, " + kind + ", session", fronts, frontSaid(server)})
			}
		}
	}
	rows = append(rows,
		row{"A2A, events of a task", ways, a2aEvents}, row{"A2A, stream", fronts, frontA2A},
		row{"RPC, items of a call", ways, rpcItems}, row{"EVENTS", ways, eventsOf}, row{"RELAY", ways, deliveriesOf},
		row{"ARTIFACT, KiB", ways, octetsReceived}, row{"STATE, deltas", ways, deltasOf},
	)
	var table strings.Builder
	for _, r := range rows {
		for _, w := range r.ways {
			t.Run(r.profile+"/"+w.name, func(t *testing.T) {
				y := r.run(t, w)
				fmt.Fprintf(&table, "| %s | %s | %d | %d | %d |\n", r.profile, w.name, y.sent, y.received, y.lost)
				switch {
				case y.disorder:
					t.Error("not in order")
				case y.received+y.lost != y.sent:
					t.Errorf("sent %d, received %d, counted %d, told %v", y.sent, y.received, y.lost, y.told)
				case y.lost > 0 && y.told == nil:
					t.Errorf("a loss of %d was not told", y.lost)
				}
			})
		}
	}
	t.Logf("\n| profile | way | sent | received | counted as lost |\n|---|---|---|---|---|\n%s", table.String())
}
