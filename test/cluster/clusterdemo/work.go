//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/internal/backoff"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/store/sqlstore"
	"github.com/slimwire/swp/test/cluster"
)

const (
	pace     = 20 * time.Millisecond // between two pieces of work of one client
	patience = time.Minute           // without an acknowledgement
	silence  = 5 * time.Second       // of a peer, after which a client connects again
	window   = 64                    // acknowledged and not yet arrived, after which a client waits
)

// sender makes work of one kind until its context ends, and finishes what it has begun as long as life
// lasts. It connects again after each loss, as swp-client does.
type sender func(ctx, life context.Context, k *cluster.Kind)

// receiver receives work until its context ends. It calls attached when the endpoint sends it work, perhaps
// several times.
type receiver func(ctx context.Context, k *cluster.Kind, attached func())

// rest pauses, until the receiver is not far behind.
func rest(ctx context.Context, k *cluster.Kind) {
	for ctx.Err() == nil {
		_ = backoff.Wait(ctx, pace)
		if k.Ahead() < window {
			return
		}
	}
}

// number reads the number of a piece of work, which begins its payload.
func number(k *cluster.Kind, payload []byte) {
	first, _, _ := strings.Cut(string(payload), " ")
	n, err := strconv.ParseUint(first, 10, 64)
	if err != nil {
		k.Fault(fmt.Errorf("no number arrived: %.40q", payload))
		return
	}
	k.Arrived(n)
}

// ended notes an error of a client that was to run until the end of ctx.
func ended(ctx context.Context, k *cluster.Kind, err error) {
	if ctx.Err() == nil {
		k.Fault(fmt.Errorf("a client has ended: %w", err))
	}
}

const eventType = "demo.count"

// publish publishes one event after the other, each again until it is confirmed.
func publish(dial client.Dialer) sender {
	return func(ctx, life context.Context, k *cluster.Kind) {
		kept := client.Keep(client.KeepOptions{Dial: dial, Timeout: silence, Patience: patience})
		defer kept.Close()
		defer kept.Watch()()
		n := uint64(0) // sent and not confirmed
		for life.Err() == nil {
			err := publishOver(ctx, life, kept, k, &n)
			if err == nil {
				return
			}
			if refused, ok := errors.AsType[*profiles.PeerError](err); ok && !refused.Retryable() {
				k.Fault(err)
			}
			k.Lost(err, 0)
			_ = backoff.Wait(life, pace)
		}
	}
}

// publishOver publishes over one connection.
func publishOver(ctx, life context.Context, kept *client.Kept, k *cluster.Kind, n *uint64) error {
	c, err := kept.Get(life)
	if err != nil {
		return err
	}
	p, err := c.Publisher(life)
	if err != nil {
		return err
	}
	defer p.Close()
	for {
		if *n == 0 {
			if ctx.Err() != nil {
				return nil
			}
			*n = k.Next()
		}
		id := fmt.Append(nil, *n)
		event := &events.Record{EventID: id, EventType: []byte(eventType), Severity: []byte("info"), Timestamp: *n, MsgID: id, Body: id}
		if err := p.Publish(life, event); err != nil {
			return err
		}
		if err := confirm(life, p); err != nil {
			return err
		}
		k.Acked(*n)
		*n = 0
		rest(ctx, k)
	}
}

func confirm(ctx context.Context, p *events.Publisher) error {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	return p.Sync(ctx)
}

// subscribe is a durable subscriber of the events.
func subscribe(dial client.Dialer) receiver {
	return func(ctx context.Context, k *cluster.Kind, attached func()) {
		from := uint64(0)
		ended(ctx, k, client.FollowEvents(ctx, dial, client.EventsOptions{
			SubscribeOptions: events.SubscribeOptions{Name: "subscriber", After: &from, Filter: "type:" + eventType},
			Silence:          silence, Lost: k.Lost,
			Deliver: func(d events.Delivery) error {
				attached()
				for i := range d.Events {
					number(k, d.Events[i].Body)
				}
				return nil
			},
			Gap: func(after, start uint64) {
				k.Fault(fmt.Errorf("events between %d and %d are no longer stored", after, start))
			},
		}))
	}
}

const taskKind = "count"

// send sends one task after the other and follows each to its Result.
func send(dial client.Dialer) sender {
	return func(ctx, life context.Context, k *cluster.Kind) {
		for ctx.Err() == nil {
			n := k.Next()
			result, err := client.Follow(life, dial, client.FollowOptions{
				Task: &a2a.Task{ID: profiles.NewMsgID(), Kind: taskKind, Input: fmt.Append(nil, n)}, Resume: true, Patience: patience,
				Event: func(*a2a.Event) error { return nil }, Lost: k.Lost,
			})
			switch {
			case err != nil:
				k.Fault(fmt.Errorf("task %d: %w", n, err))
			case !result.OK:
				k.Fault(fmt.Errorf("task %d has failed: %s", n, result.Reason))
			default:
				k.Acked(n)
			}
			rest(ctx, k)
		}
	}
}

// work is the agent that carries out the tasks.
func work(dial func(context.Context, *all.Set) (*client.Client, error)) receiver {
	return func(ctx context.Context, k *cluster.Kind, attached func()) {
		state, err := sqlstore.Open(ctx, sqlstore.Options{})
		if err != nil {
			k.Fault(err)
			return
		}
		defer func() { _ = state.Close() }()
		ended(ctx, k, client.Work(ctx, dial, client.WorkOptions{
			Agent: "counter", Store: state, Lost: k.Lost, Connected: func(*client.Client) { attached() },
			Registration: a2a.Registration{Kinds: []string{taskKind}, Tasks: 16, Worker: a2a.WorkerFunc(
				func(_ context.Context, t *a2a.Task, event func(string, []byte) error) ([]byte, error) {
					number(k, t.Input)
					return t.Input, event("counted", nil)
				})},
			Report: func(err error) { k.Fault(err) },
		}))
	}
}

// deliver publishes one delivery after the other to a topic.
func deliver(dial client.Dialer, topic string) sender {
	return func(ctx, life context.Context, k *cluster.Kind) {
		from := make(chan *relay.Publication)
		go func() {
			defer close(from)
			for ctx.Err() == nil {
				n := k.Next()
				select {
				case from <- &relay.Publication{ID: fmt.Appendf(nil, "%s %d", k.Name, n), Topic: topic, Payload: fmt.Append(nil, n)}:
				case <-life.Done():
				}
				rest(ctx, k)
			}
		}()
		p := client.Publisher{Connect: dial, Patience: patience, Silence: silence, Lost: k.Lost}
		err := p.Publish(life, from, func(p *relay.Publication, _ relay.Receipt) error {
			n, err := strconv.ParseUint(string(p.Payload), 10, 64)
			k.Acked(n)
			return err
		})
		if err != nil {
			k.Fault(err)
		}
	}
}

// consume is a consumer of a topic.
func consume(dial client.Dialer, topic string) receiver {
	return func(ctx context.Context, k *cluster.Kind, attached func()) {
		ended(ctx, k, client.Consumer{
			Connect: dial, Topic: topic, Silence: silence, Lost: k.Lost, Attached: func(*client.Client) { attached() },
			Process: func(_ context.Context, d *relay.Delivery) error {
				number(k, d.Payload)
				return nil
			},
		}.Consume(ctx))
	}
}

const toolName = "count"

// tools is an MCP server over HTTP with one tool, and notes its calls by their kind.
func tools(kinds map[string]*cluster.Kind) http.Handler {
	type arguments struct {
		Kind string `json:"kind" jsonschema:"the kind of work"`
		N    uint64 `json:"n" jsonschema:"its number"`
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "tools", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: toolName, Description: "counts"},
		func(_ context.Context, _ *mcp.CallToolRequest, in arguments) (*mcp.CallToolResult, any, error) {
			k := kinds[in.Kind]
			if k == nil {
				return nil, nil, fmt.Errorf("no kind %q", in.Kind)
			}
			k.Arrived(in.N)
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strconv.FormatUint(in.N, 10)}}}, nil, nil
		})
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true})
}

// call calls the tool, one call after the other, through what swp-client mcp stdio runs. A call that
// ended with its connection is made again.
func call(dial client.Dialer, target string, lossy bool) sender {
	return func(ctx, life context.Context, k *cluster.Kind) {
		kept := client.Keep(client.KeepOptions{
			Dial: dial, Timeout: silence, Patience: patience, Lost: func(err error) { k.Lost(err, 0) },
		})
		defer kept.Close()
		in, requests := io.Pipe()
		answers, out := io.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			err := client.Stdio(life, client.StdioOptions{Peer: kept, Target: target, In: in, Out: out})
			_, _ = in.CloseWithError(err), out.CloseWithError(err)
		}()
		defer func() {
			_ = requests.Close()
			<-done
		}()
		lines := bufio.NewScanner(answers)
		for id := 1; ctx.Err() == nil; {
			n := k.Next()
			for done := false; !done && life.Err() == nil; id++ {
				if _, err := fmt.Fprintf(requests, request, id, toolName, k.Name, n); err != nil {
					k.Fault(err)
					return
				}
				if !lines.Scan() {
					ended(life, k, lines.Err())
					return
				}
				err := answered(lines.Bytes(), n)
				if done = err == nil; done {
					k.Acked(n)
				} else if !lossy {
					k.Fault(err)
				}
				_ = backoff.Wait(ctx, pace)
			}
		}
	}
}

const request = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"kind":%q,"n":%d},` +
	`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"clusterdemo","version":"1"},` +
	`"io.modelcontextprotocol/clientCapabilities":{}}}}` + "\n"

// answered returns an error unless a message is the result of a call.
func answered(message []byte, n uint64) error {
	var answer struct {
		Result struct {
			Content []struct{ Text string }
		}
	}
	if err := json.Unmarshal(message, &answer); err != nil {
		return err
	}
	if c := answer.Result.Content; len(c) != 1 || c[0].Text != strconv.FormatUint(n, 10) {
		return fmt.Errorf("call %d: %.400s", n, message)
	}
	return nil
}
