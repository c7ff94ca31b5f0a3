package sdlagent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/slimwire/swp/internal/backoff"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	carriage "github.com/slimwire/swp/profiles/sdl"
	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/serve"
)

// TaskKind is the kind under which those who carry out tasks of A2A-SDL declare
// themselves.
const TaskKind = "sdl/task.v1"

// taskRetention is how long a task that nobody ends is remembered.
const taskRetention = 8 * 24 * time.Hour

// work is the stored form of an accepted task.
type work struct {
	Identity string          `json:"identity"` // of the sender
	Agent    string          `json:"agent"`    // the agent_id that it acts as
	CBOR     bool            `json:"cbor"`     // the request was
	Signed   bool            `json:"signed"`   // the request was
	Request  json.RawMessage `json:"request"`  // its from, to and trace
	Goal     string          `json:"goal"`
	Input    json.RawMessage `json:"input"`
}

// keyOf returns the task_id of a request, in hexadecimal: the same request sent again
// is the same task.
func keyOf(identity string, r *serve.Request) string {
	h := sha256.New()
	for _, part := range []string{identity, r.Agent(), r.Envelope.ID} {
		_, _ = fmt.Fprintf(h, "%d:%s", len(part), part) // never fails
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

var (
	errOtherTask = sdl.Refuse(sdl.BadRequest, "the id was used for another task")
	errTasks     = &sdl.Error{
		Code: sdl.BadRequest, Retryable: true, Reason: "too many tasks are not over",
		Details: canonical.Object(canonical.Member{Name: "reason", Value: canonical.String(carriage.ReasonConcurrency)}),
	}
)

// Accept implements serve.Tasks: once it returns nil the task is stored, and
// survives restarts.
func (a *Agent) Accept(ctx context.Context, r *serve.Request) error {
	goal, _ := r.Payload.Get("goal").Text()
	form, _ := ctx.Value(formKey{}).(sdl.Form)
	w := &work{
		Identity: r.Caller.Identity, Agent: r.Agent(), CBOR: form == sdl.CBOR, Signed: r.Envelope.Sec.Signed(), Goal: goal,
		Request: canonical.Object(
			canonical.Member{Name: "from", Value: r.Envelope.Value.Get("from")},
			canonical.Member{Name: "to", Value: r.Envelope.Value.Get("to")},
			canonical.Member{Name: "trace", Value: r.Envelope.Value.Get("trace")},
		).AppendJSON(nil),
		Input: r.Payload.AppendJSON(nil),
	}
	key := keyOf(w.Identity, r)
	value, err := json.Marshal(w)
	if err != nil {
		return fmt.Errorf("sdlagent: %w", err)
	}
	known, err := a.enter(key)
	if err != nil {
		return err
	}
	carriage.Rest(ctx)
	p := put(ctx, a.opts.Records, spaceTasks, key, 0, w.Identity, value, time.Now().Add(taskRetention))
	err = p.Err
	switch {
	case err == nil && !p.Wrote && string(p.Current) != string(value):
		err = errOtherTask
	case err == nil && !known:
		session, _ := ctx.Value(sessionKey{}).(profiles.Session)
		if a.spawn(func() { a.follow(key, w, session) }) {
			return nil
		}
		err = errClosed // it is kept, and goes on with the next process
	}
	if !known {
		a.leave(key)
	}
	return err
}

// enter makes room for a task, and reports whether it is under way already.
func (a *Agent) enter(key string) (known bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, known = a.tasks[key]; known {
		return true, nil
	}
	if len(a.tasks) >= a.opts.Tasks {
		return false, errTasks
	}
	a.tasks[key] = struct{}{}
	return false, nil
}

func (a *Agent) leave(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.tasks, key)
}

// recallTasks goes on with tasks that were accepted and are not over.
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
		a.mu.Lock()
		a.tasks[key] = struct{}{} // also above the bound: it was accepted
		a.mu.Unlock()
		return a.spawn(func() { a.follow(key, w, nil) })
	})
	return errors.Join(err, fault)
}

// pauses are those before something is tried again.
var pauses = backoff.Exponential{First: time.Second, Longest: 30 * time.Second}

// follow carries a task to its end, and tells of it. session is where it came from, nil
// if that was before a restart.
func (a *Agent) follow(key string, w *work, session profiles.Session) {
	defer a.leave(key)
	s := &states{agent: a, work: w, key: key, session: session}
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
		return // the next process goes on
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

// carry sends the task to this endpoint, as the identity that asked for it, and waits
// for its end.
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
	// As if it had been sent before: then what has happened already is told again.
	d, err := a.links.A2A.Send(a.ctx, link.session, &a2a.Task{ID: id, Kind: TaskKind, Input: w.Input}, a2a.SendOptions{Resume: true})
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
