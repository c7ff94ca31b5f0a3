package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/profiles/mcpmap"
)

// corpus is what a relay that decodes would change. Each is one line.
var corpus = []string{
	`{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/list","params":{}}`,
	`{"jsonrpc":"2.0","id":12345678901234567890123,"method":"m"}`,
	`{"jsonrpc":"2.0","id":1.0,"method":"m"}`,
	`{"jsonrpc":"2.0","id":1e2,"method":"m"}`,
	`{"jsonrpc":"2.0","id":-0,"method":"m"}`,
	`{"jsonrpc":"2.0","id":"","method":"m"}`,
	`{"jsonrpc":"2.0","id":"\u0041\/é","method":"m"}`,
	`{ "jsonrpc" :	"2.0" , "id":7 ,"method":"m","params":{"a":1,"a":2,"b":{"c":[ ],"c":null}} }  `,
	`{"params":{"x":1.50,"y":1E400},"unknown":[1,{"id":2}],"method":"m","id":8,"jsonrpc":"2.0"}`,
	`{"jsonrpc":"2.0","id":9,"method":"m","params":{"s":"\ud800 \u0000 <&> ` + "\u2028" + `"}}`,
	`{"jsonrpc":"2.0","id":10,"method":"m","params":{"s":"` + strings.Repeat("x", 1<<20) + `"}}`,
	"{\"jsonrpc\":\"2.0\",\"id\":11,\"method\":\"m\"}\r",
}

// idOf returns the raw id of a request of the corpus.
func idOf(t *testing.T, octets string) string {
	t.Helper()
	var m mcpmap.Message
	if err := m.Scan([]byte(octets)); err != nil {
		t.Fatalf("%.80q: %v", octets, err)
	}
	return string(m.ID())
}

const initialize = `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25"}}`

// answer is the odd form in which the scripted server answers a request.
func answer(id string) string {
	return `{"result" : {"n":1.0,"n":12345678901234567890,"e":"\u00e9"},  "id":` + id + ` ,"jsonrpc":"2.0", "more":[ ]}`
}

// console is the MCP client's side of Stdio.
type console struct {
	t    *testing.T
	in   *io.PipeWriter
	out  *bufio.Reader
	done chan error
}

func open(t *testing.T, c *Client) *console {
	t.Helper()
	peer := Keep(KeepOptions{Dial: func(context.Context) (*Client, error) { return c, nil }})
	t.Cleanup(peer.Close)
	return openOn(t, peer, patience, nil)
}

func openOn(t *testing.T, peer *Kept, limit time.Duration, complain func(string)) *console {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	k := &console{t: t, in: inW, out: bufio.NewReader(outR), done: make(chan error, 1)}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	go func() {
		err := Stdio(ctx, StdioOptions{Peer: peer, In: inR, Out: outW, Drain: time.Minute, Complain: complain})
		_ = inR.Close()
		_ = outW.Close()
		k.done <- err
	}()
	t.Cleanup(func() {
		cancel()
		_ = inW.Close()
		_ = outR.Close()
	})
	return k
}

func (k *console) write(lines ...string) {
	k.t.Helper()
	for _, line := range lines {
		if _, err := io.WriteString(k.in, line+"\n"); err != nil {
			k.t.Fatal(err)
		}
	}
}

func (k *console) read() string {
	k.t.Helper()
	line, err := k.out.ReadString('\n')
	if err != nil {
		k.t.Fatalf("read %q: %v", line, err)
	}
	return strings.TrimSuffix(line, "\n")
}

func TestGW07OctetsPassUnchangedInBothDirections(t *testing.T) {
	s := &scripted{}
	s.do = func(_ mcpmap.Counterpart, x *mcpmap.Exchange) { x.Finish([]byte(answer(string(x.Message.ID())))) }
	k := open(t, connected(t, s))
	k.write(initialize)
	if got, want := k.read(), answer(`"init"`); got != want {
		t.Errorf("answer %s, want %s", got, want)
	}
	for _, octets := range corpus {
		k.write(octets)
		if got, want := k.read(), answer(idOf(t, octets)); got != want {
			t.Errorf("%.80q: answer %.200s, want %.200s", octets, got, want)
		}
	}
	_ = k.in.Close()
	if err := <-k.done; err != nil {
		t.Errorf("Stdio: %v", err)
	}
	if diff := cmp.Diff(slices.Concat([]string{initialize}, corpus), s.came()); diff != "" {
		t.Error(diff)
	}
}

func TestRawLineBreaksBecomeSpaces(t *testing.T) {
	s := &scripted{}
	s.do = func(_ mcpmap.Counterpart, x *mcpmap.Exchange) {
		x.Finish([]byte("{\n\"jsonrpc\":\r\n\"2.0\",\"id\":1,\"result\":{}\n}"))
	}
	k := open(t, connected(t, s))
	k.write(`{"jsonrpc":"2.0","id":1,"method":"initialize"}`)
	if got, want := k.read(), `{ "jsonrpc":  "2.0","id":1,"result":{} }`; got != want {
		t.Errorf("answer %s, want %s", got, want)
	}
}

func TestServerAsksTheClient(t *testing.T) {
	const question = `{"jsonrpc":"2.0","id":9007199254740993,"method":"roots/list"}`
	const reply = `{"jsonrpc":"2.0", "id":9007199254740993, "result":{"roots":[ ]}}`
	answered := make(chan string, 1)
	s := &scripted{}
	s.do = func(client mcpmap.Counterpart, x *mcpmap.Exchange) {
		if x.Message.Is(mcpmap.MethodInitialize) {
			x.Finish([]byte(answer(`"init"`)))
			return
		}
		var m mcpmap.Message
		if err := m.Scan([]byte(question)); err != nil {
			t.Error(err)
		}
		client.Request(x, &m, func(octets []byte) {
			answered <- string(octets)
			x.Finish([]byte(answer("1")))
		})
	}
	k := open(t, connected(t, s))
	k.write(initialize)
	k.read()
	k.write(`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`)
	if got := k.read(); got != question {
		t.Errorf("question %s, want %s", got, question)
	}
	k.write(reply)
	if got := <-answered; got != reply {
		t.Errorf("reply %s, want %s", got, reply)
	}
	if got := k.read(); got != answer("1") {
		t.Errorf("answer %s", got)
	}
}

func TestCancellationFindsTheRequestBeforeIt(t *testing.T) {
	const cancellation = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId": 5 }}`
	cancelled := make(chan string, 1)
	s := &scripted{}
	s.do = func(_ mcpmap.Counterpart, x *mcpmap.Exchange) {
		if x.Message.Is("tools/call") {
			x.OnCancel(func(octets []byte) { cancelled <- string(octets) })
			return
		}
		x.Finish([]byte(answer(string(x.Message.ID()))))
	}
	k := open(t, connected(t, s))
	k.write(initialize)
	k.read()
	k.write(`{"jsonrpc":"2.0","id":5,"method":"tools/call"}`, cancellation, `{"jsonrpc":"2.0","id":6,"method":"m"}`)
	select {
	case got := <-cancelled:
		if got != cancellation {
			t.Errorf("the server got %s, want %s", got, cancellation)
		}
	case <-time.After(patience):
		t.Fatal("the server was not told")
	}
	if got := k.read(); got != answer("6") { // and none to the cancelled one
		t.Errorf("answer %s", got)
	}
}

func TestLinesThatAreNoMessageAreAnsweredAndLoseNothing(t *testing.T) {
	s := &scripted{}
	s.do = func(_ mcpmap.Counterpart, x *mcpmap.Exchange) { x.Finish([]byte(answer(string(x.Message.ID())))) }
	k := open(t, connected(t, s))
	k.write(initialize)
	k.read()
	for line, code := range map[string]string{"garbage": "-32700", `[{"jsonrpc":"2.0","id":1,"method":"m"}]`: "-32600", `{"jsonrpc":"2.0","id":1`: "-32700", "\xff": "-32700"} {
		k.write("", "  ", line)
		if got := k.read(); !strings.Contains(got, `"id":null,"error":{"code":`+code) || !strings.Contains(got, "ERR_INVALID_MCP_PAYLOAD") {
			t.Errorf("%q: answer %s", line, got)
		}
	}
	k.write(`{"jsonrpc":"1.0","id":77,"method":"m"}`)
	if got := k.read(); !strings.Contains(got, `"id":77,"error":{"code":-32600`) || !strings.Contains(got, "ERR_INVALID_MCP_PAYLOAD") {
		t.Errorf("answer %s", got)
	}
	k.write(strings.Repeat("x", maxLine+1))
	if got := k.read(); !strings.Contains(got, "ERR_INVALID_ENVELOPE") {
		t.Errorf("long line: answer %.200s", got)
	}
	k.write(`{"jsonrpc":"2.0","id":2,"method":"m"}`)
	if got := k.read(); got != answer("2") {
		t.Errorf("answer %s", got)
	}
}

func TestEndOfInputDrains(t *testing.T) {
	release := make(chan struct{})
	s := &scripted{}
	s.do = func(_ mcpmap.Counterpart, x *mcpmap.Exchange) {
		if x.Message.Is("slow") {
			id := string(x.Message.ID())
			go func() {
				<-release
				x.Finish([]byte(answer(id)))
			}()
			return
		}
		x.Finish([]byte(answer(string(x.Message.ID()))))
	}
	k := open(t, connected(t, s))
	k.write(initialize)
	k.read()
	k.write(`{"jsonrpc":"2.0","id":1,"method":"slow"}`)
	_ = k.in.Close()
	close(release)
	if got := k.read(); got != answer("1") {
		t.Errorf("answer %s", got)
	}
	if err := <-k.done; err != nil {
		t.Errorf("Stdio: %v", err)
	}
}

func TestEndOfInputGivesUpCallsThatSayNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{}
		s.do = func(_ mcpmap.Counterpart, x *mcpmap.Exchange) {
			if x.Message.Is(mcpmap.MethodInitialize) {
				x.Finish([]byte(answer(`"init"`)))
			}
		}
		k := open(t, connected(t, s))
		k.write(initialize)
		k.read()
		k.write(`{"jsonrpc":"2.0","id":1,"method":"never"}`)
		_ = k.in.Close()
		if got := k.read(); !strings.Contains(got, `"id":1`) || !strings.Contains(got, `"error"`) {
			t.Errorf("answer %s", got)
		}
		if err := <-k.done; err == nil {
			t.Error("Stdio returned no error")
		}
	})
}

func TestLostConnectionFailsWhatIsInFlightAndNothingElse(t *testing.T) {
	reached := make(chan struct{})
	s := &scripted{}
	s.do = func(_ mcpmap.Counterpart, x *mcpmap.Exchange) {
		if x.Message.Is("never") {
			close(reached)
			return
		}
		x.Finish([]byte(answer(string(x.Message.ID()))))
	}
	connect, cut := dialled(t, s)
	peer := Keep(KeepOptions{Dial: connect})
	t.Cleanup(peer.Close)
	k := openOn(t, peer, patience, nil)
	k.write(initialize)
	k.read()
	k.write(`{"jsonrpc":"2.0","id":1,"method":"never"}`)
	<-reached
	cut()
	if got := k.read(); !strings.Contains(got, `"id":1`) || !strings.Contains(got, `"code":-32603`) {
		t.Errorf("answer %s", got)
	}
	k.write(`{"jsonrpc":"2.0","id":2,"method":"m"}`)
	if got := k.read(); got != answer("2") {
		t.Errorf("answer %s", got)
	}
	_ = k.in.Close()
	if err := <-k.done; err != nil {
		t.Errorf("Stdio: %v", err)
	}
	if n := s.opened(); n != 1 {
		t.Errorf("%d sessions at the server, want the one that was taken up", n)
	}
}

func TestReadLineBoundsWhatItKeeps(t *testing.T) {
	long := strings.Repeat("a", maxLine)
	r := bufio.NewReader(strings.NewReader("short\n" + long + "\nnext\n" + long[:maxLine-1] + "\nlast"))
	for i, want := range []struct {
		size int
		err  error
	}{{6, nil}, {0, bufio.ErrTooLong}, {5, nil}, {maxLine, nil}, {4, io.EOF}} {
		line, err := readLine(r)
		if len(line) != want.size || !errors.Is(err, want.err) {
			t.Errorf("line %d: %d octets, %v; want %d, %v", i, len(line), err, want.size, want.err)
		}
	}
}

func TestManyCallsAtOnceGetTheirOwnAnswers(t *testing.T) {
	s := &scripted{}
	s.do = func(_ mcpmap.Counterpart, x *mcpmap.Exchange) { x.Finish([]byte(answer(string(x.Message.ID())))) }
	k := open(t, connected(t, s))
	k.write(initialize)
	k.read()
	const n = 500
	var want []string
	var all bytes.Buffer
	for i := range n {
		fmt.Fprintf(&all, `{"jsonrpc":"2.0","id":%d,"method":"m"}`+"\n", i)
		want = append(want, answer(fmt.Sprint(i)))
	}
	go func() { _, _ = all.WriteTo(k.in) }()
	var got []string
	for range n {
		got = append(got, k.read())
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
