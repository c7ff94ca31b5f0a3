package sdlagent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"time"

	"github.com/slimwire/swp/internal/backoff"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	carriage "github.com/slimwire/swp/profiles/sdl"
	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/serve"
)

// TaskKind is the kind of A2A-SDL tasks. Workers for them register under it.
const TaskKind = "sdl/task.v1"

// taskRetention is how long an unfinished task is remembered.
const taskRetention = 8 * 24 * time.Hour

// work is the stored form of an accepted task.
type work struct {
	Identity string          `json:"identity"`        // identity of the sender
	Agent    string          `json:"agent"`           // agent_id of the sender
	CBOR     bool            `json:"cbor"`            // the request was CBOR
	Signed   bool            `json:"signed"`          // the request was signed
	Sealed   bool            `json:"sealed,omitzero"` // the request was encrypted
	Request  json.RawMessage `json:"request"`         // from, to and trace of the request
	Goal     string          `json:"goal"`
	Input    json.RawMessage `json:"input"`
	Deadline time.Time       `json:"deadline,omitzero"` // of constraints.time_budget_s

	Trace profiles.Trace  `json:"trace,omitzero"`
	Hints []profiles.Hint `json:"hints,omitempty"`
	Chain []byte          `json:"chain,omitempty"` // chain_id
}

// context returns ctx with what travels with the task.
func (w *work) context(ctx context.Context) context.Context {
	ctx = profiles.WithHints(profiles.WithTrace(ctx, w.Trace), w.Hints)
	if len(w.Chain) > 0 {
		ctx = profiles.WithChain(ctx, w.Chain)
	}
	return ctx
}

// keyOf returns the task_id of a request, in hexadecimal: a repeated request is the same
// task.
func keyOf(identity string, r *serve.Request) string {
	h := sha256.New()
	for _, part := range []string{identity, r.Agent(), r.Envelope.ID} {
		_, _ = fmt.Fprintf(h, "%d:%s", len(part), part) // never fails
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// deadlineOf returns the end of the time budget of a task that is accepted now. A budget of 0
// sets none.
func deadlineOf(payload canonical.Value, now time.Time) time.Time {
	budget, _ := payload.Get("constraints").Get("time_budget_s").Float64()
	if budget <= 0 {
		return time.Time{}
	}
	return now.Add(time.Duration(min(budget, taskRetention.Seconds()) * float64(time.Second)))
}

// errStopped refuses a task that a hint forbids.
func errStopped(v *profiles.Violation) error {
	return &sdl.Error{Code: sdl.SecurityUnsupported, Reason: v.Text(), Details: canonical.Object(
		canonical.Member{Name: "reason", Value: canonical.String(v.Refusal().Detail)},
		canonical.Member{Name: "text", Value: canonical.String(v.Text())},
	)}
}

var (
	errOtherTask = sdl.Refuse(sdl.BadRequest, "the id was used for another task")
	errTasks     = &sdl.Error{
		Code: sdl.BadRequest, Retryable: true, Reason: "too many tasks are not over",
		Details: canonical.Object(canonical.Member{Name: "reason", Value: canonical.String(carriage.ReasonConcurrency)}),
	}
)

// Accept implements serve.Tasks. When it returns nil, the task is stored and survives a
// restart.
func (a *Agent) Accept(ctx context.Context, r *serve.Request) error {
	act := a.links.Task(TaskKind)
	if v := stopped(ctx, &act); v != nil {
		return errStopped(v)
	}
	goal, _ := r.Payload.Get("goal").Text()
	m := messageOf(ctx)
	w := &work{
		Identity: r.Caller.Identity, Agent: r.Agent(), CBOR: m.form == sdl.CBOR, Signed: r.Envelope.Sec.Signed(), Sealed: r.Envelope.Sec.Encrypted(), Goal: goal,
		Deadline: deadlineOf(r.Payload, time.Now()),
		Request: canonical.Object(
			canonical.Member{Name: "from", Value: r.Envelope.Value.Get("from")},
			canonical.Member{Name: "to", Value: r.Envelope.Value.Get("to")},
			canonical.Member{Name: "trace", Value: r.Envelope.Value.Get("trace")},
		).AppendJSON(nil),
		Input: r.Payload.AppendJSON(nil),
		Trace: profiles.TraceOf(ctx), Hints: profiles.HintsOf(ctx, TaskKind),
	}
	if d := profiles.DelegationOf(ctx); d != nil {
		w.Chain = []byte(d.ChainID)
	}
	key := keyOf(w.Identity, r)
	value, err := json.Marshal(w)
	if err != nil {
		return fmt.Errorf("sdlagent: %w", err)
	}
	from, known, err := a.enter(key, m.origin)
	if err != nil {
		return err
	}
	carriage.Rest(ctx)
	p := put(ctx, a.opts.Records, spaceTasks, key, 0, w.Identity, value, time.Now().Add(taskRetention))
	err = p.Err
	switch {
	case err == nil && !p.Wrote && !w.repeats(p.Current):
		err = errOtherTask
	case err == nil && known:
		a.moved(from, m.session)
	case err == nil:
		if a.spawn(func() { a.follow(key, w, from) }) {
			return nil
		}
		err = errClosed // the task is stored, and continues after a restart
	}
	if !known {
		a.leave(key)
	}
	return err
}

// repeats reports whether a stored task is the same one. It may have come at another time,
// under another trace context, other hints or another chain, which have no effect the second
// time.
func (w *work) repeats(stored []byte) bool {
	var first work
	if json.Unmarshal(stored, &first) != nil {
		return false
	}
	first.Trace, first.Hints, first.Chain, first.Deadline = w.Trace, w.Hints, w.Chain, w.Deadline
	return reflect.DeepEqual(&first, w)
}

// origin is where the request for a task came from.
type origin struct {
	session profiles.Session // the last on which it came; nil after a restart. Guarded by mu of the agent

	// answered is closed once the answer to the first request is on its way. Nil after a
	// restart.
	answered <-chan struct{}
}

// enter registers a task, and reports whether it is in progress already.
func (a *Agent) enter(key string, m origin) (from *origin, known bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if from, known = a.tasks[key]; known {
		return from, true, nil
	}
	if len(a.tasks) >= a.most {
		return nil, false, errTasks
	}
	a.tasks[key] = &m
	return &m, false, nil
}

// moved records that the request for a task has come again on another session.
func (a *Agent) moved(from *origin, session profiles.Session) {
	a.mu.Lock()
	defer a.mu.Unlock()
	from.session = session
}

// asker returns the session of the request for a task, if it is open.
func (a *Agent) asker(from *origin) (profiles.Session, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return from.session, from.session != nil && from.session.Context().Err() == nil
}

func (a *Agent) leave(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.tasks, key)
}

// recallTasks continues accepted tasks that are unfinished.
func (a *Agent) recallTasks(ctx context.Context) error {
	if a.opts.Inside.Connect == nil {
		return nil
	}
	var fault error
	err := a.opts.Records.Scan(ctx, spaceTasks, "", "", func(key string, _ uint64, value []byte) bool {
		w := new(work)
		if err := json.Unmarshal(value, w); err != nil {
			fault = fmt.Errorf("sdlagent: stored task: %w", err)
			return false
		}
		from := new(origin)
		a.mu.Lock()
		a.tasks[key] = from // even above the limit, because the task was accepted
		a.mu.Unlock()
		return a.spawn(func() { a.follow(key, w, from) })
	})
	return errors.Join(err, fault)
}

// pauses are the delays between retries.
var pauses = backoff.Exponential{First: time.Second, Longest: 30 * time.Second}

// follow runs a task to its end and reports its states.
func (a *Agent) follow(key string, w *work, from *origin) {
	defer a.leave(key)
	s := &states{agent: a, work: w, key: key, from: from}
	var result *a2a.Result
	for n := 0; ; n++ {
		var err error
		if result, err = a.carry(key, w, s); result != nil || a.ctx.Err() != nil {
			break
		}
		a.opts.Report(fmt.Errorf("sdlagent: task %s of %q: %w", key, w.Identity, err))
		if backoff.Wait(a.ctx, pauses.After(n)) != nil {
			break
		}
	}
	if result == nil {
		return // the task continues after a restart
	}
	s.end(result)
	if a.ctx.Err() == nil {
		a.opts.Records.Delete(spaceTasks, key, 0, func(_ bool, err error) {
			if err != nil {
				a.opts.Report(fmt.Errorf("sdlagent: task %s of %q: %w", key, w.Identity, err))
			}
		})
	}
}

// carry sends the task to this endpoint under the identity of its sender, and waits for its
// end.
func (a *Agent) carry(key string, w *work, s *states) (*a2a.Result, error) {
	id, err := hex.DecodeString(key)
	if err != nil {
		return nil, err
	}
	link, release, err := a.links.use(w.Identity)
	if err != nil {
		return nil, err
	}
	defer release()
	// Sending it as a repetition makes the endpoint repeat the events so far.
	d, err := a.links.A2A.Send(w.context(a.ctx), link.session, &a2a.Task{ID: id, Kind: TaskKind, Input: w.Input, Deadline: w.Deadline}, a2a.SendOptions{Resume: true})
	if err != nil {
		return nil, err
	}
	defer d.Close()
	for {
		switch _, err := d.Recv(a.ctx); {
		case errors.Is(err, io.EOF):
			return d.Result(), nil
		case err != nil:
			return nil, err
		}
		s.working()
	}
}
