package crash

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/obs"
	"github.com/slimwire/swp/profiles/rpc"
)

const (
	// method is served by a back end of the test. It may not run twice.
	method = "crash.once"

	// toolServer is an MCP server whose tool is toolName.
	toolServer = "crashtools"
	toolName   = "run"

	// agent carries out tasks of a kind, and says so by so many Events.
	agent = "crash"
	kind  = "crash.work"
	steps = 10
)

// call calls a method, each call under a key of its own and repeated until it has an outcome.
func (w *worker) call(ctx context.Context) {
	l := w.line(w.dial())
	defer l.close()
	for _, e := range w.past.owed(aCall) {
		w.callOnce(ctx, l, e.ID)
	}
	for n := 0; ctx.Err() == nil; n++ {
		w.callOnce(ctx, l, fmt.Sprintf("%s.call-%d", w.Name, n))
		w.rest(ctx)
	}
}

// callOnce calls until there is an outcome, and writes it down.
func (w *worker) callOnce(ctx context.Context, l *line, key string) {
	w.j.begin(entry{What: didBegin, Kind: aCall, ID: key})
	l.do(ctx, func(ctx context.Context, c *client.Client) error {
		if err := c.SetTrace(ctx, trace(aCall, key), obs.IDs{}); err != nil {
			return err
		}
		result, err := rpc.Invocation{Method: w.of(method), Params: []byte(key), IdempotencyKey: key}.Call(ctx, c.Session)
		e := entry{What: didEnd, Kind: aCall, ID: key, Text: endOK, Payload: digest(result)}
		if failed := (*rpc.Error)(nil); errors.As(err, &failed) && !failed.Retryable {
			e.Text, e.Payload = failed.Code+": "+failed.Message, ""
		} else if err != nil {
			return err
		}
		w.j.begin(e)
		return nil
	})
}

// traceOf is the id of the trace of a task or a call, by which its records are found, and
// trace the trace.
func traceOf(kind, id string) string {
	sum := sha256.Sum256([]byte(kind + " " + id))
	return hex.EncodeToString(sum[:16])
}

func trace(kind, id string) profiles.Trace {
	return profiles.Trace{Parent: "00-" + traceOf(kind, id) + "-0000000000000001-00"}
}

// resultOf is what the method and the tool answer when they have run for the first time.
func resultOf(id string, run int) string { return fmt.Sprintf("%s ran %d", id, run) }

// callTool calls a tool. A call is never repeated.
func (w *worker) callTool(ctx context.Context) {
	l, n := w.line(w.near), 0
	defer l.close()
	l.do(ctx, func(ctx context.Context, c *client.Client) error {
		m, err := c.OpenMCP(ctx, w.behind(toolServer))
		if err != nil {
			return err
		}
		for ; ; n++ {
			id := fmt.Sprintf("%s.tool-%d", w.Name, n)
			if err := c.SetTrace(ctx, trace(aToolCall, id), obs.IDs{}); err != nil {
				return err
			}
			w.j.begin(entry{What: didBegin, Kind: aToolCall, ID: id})
			result, err := m.Call(ctx, "tools/call", map[string]any{"name": toolName, "arguments": map[string]string{"id": id}}, nil)
			said := (*client.MCPError)(nil)
			switch {
			case err == nil:
				w.j.begin(entry{What: didEnd, Kind: aToolCall, ID: id, Text: endOK, Payload: digest(result)})
			case errors.As(err, &said):
				w.j.begin(entry{What: didEnd, Kind: aToolCall, ID: id, Text: said.Message + " " + string(said.Data)})
			default:
				n++
				return err
			}
			w.rest(ctx)
		}
	})
}

// toolResult is what the tool answers.
func toolResult(id string) string {
	return fmt.Sprintf(`{"content":[{"type":"text","text":%q}],"resultType":"complete"}`, resultOf(id, 1))
}

// task sends one task after the other and follows each to its Result, first those that a
// process before has sent.
func (w *worker) task(ctx context.Context) {
	l := w.line(w.near)
	defer l.close()
	for _, e := range w.past.owed(aTask) {
		if id, err := hex.DecodeString(e.Text); err == nil {
			w.followTask(ctx, l, e.ID, id, w.past.last(aTask, e.ID), true)
		}
	}
	for n := 0; ctx.Err() == nil; n++ {
		input, id := fmt.Sprintf("%s.task-%d", w.Name, n), profiles.NewMsgID()
		w.j.begin(entry{What: didBegin, Kind: aTask, ID: input, Text: hex.EncodeToString(id)})
		w.followTask(ctx, l, input, id, 0, false)
		w.rest(ctx)
	}
}

// followTask sends a task, perhaps again, and follows it to its Result, over as many
// connections as it takes.
func (w *worker) followTask(ctx context.Context, l *line, input string, id []byte, last uint64, again bool) {
	t := &a2a.Task{ID: id, Kind: kind, Input: []byte(input)}
	o := a2a.SendOptions{Agent: w.behind(agent)}
	if w.aims() { // the agent is left to the partner
		t.Kind, o.Agent = w.behind(kind), ""
	}
	l.do(ctx, func(ctx context.Context, c *client.Client) error {
		if err := c.SetTrace(ctx, trace(aTask, input), obs.IDs{}); err != nil {
			return err
		}
		o.Resume, o.After = again, last
		d, err := c.A2A().Send(ctx, c.Session, t, o)
		if err != nil {
			return err
		}
		defer d.Close()
		again = true
		for {
			e, err := d.Recv(ctx)
			if errors.Is(err, io.EOF) {
				w.ended(input, d.Result())
				return nil
			}
			if err != nil {
				return err
			}
			w.j.begin(entry{What: didReach, Kind: aTask, ID: input, Seq: e.Seq, Since: int64(e.FirstHeld), Text: string(e.Payload)})
			last = e.Seq
		}
	})
}

func (w *worker) ended(input string, r *a2a.Result) {
	e := entry{What: didEnd, Kind: aTask, ID: input, Text: endOK, Seq: r.Last, Payload: digest(r.Output)}
	if !r.OK {
		e.Text, e.Payload = "failed: "+r.Reason, ""
	}
	w.j.begin(e)
}
