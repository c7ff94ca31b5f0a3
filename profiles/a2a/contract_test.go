package a2a_test

import (
	"context"
	"testing"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/profiletest"
)

// served is a profile where the peer of package profiletest has a task that is
// running and one that is over.
func served(t testing.TB) *profiles.Profile {
	w := a2a.WorkerFunc(func(ctx context.Context, task *a2a.Task, _ func(string, []byte) error) ([]byte, error) {
		if string(task.ID) != "over" {
			<-ctx.Done()
		}
		return task.Input, nil
	})
	s := service(t, a2a.Options{Workers: kinds(w, "work")})
	p := s.Profile()
	h := profiletest.New(t, p)
	h.Serve(a2a.TypeTask, task("running", "work", "").Append(nil))
	h.Serve(a2a.TypeTask, task("over", "work", "output").Append(nil)).Wait()
	return p
}

func TestContract(t *testing.T) {
	profiletest.Run(t, served, contract...)
}

var contract = []profiletest.Case{
	{Name: "handshake", Type: a2a.TypeHandshake, Payload: (&a2a.HandshakeBody{AgentID: []byte("agent"), Capabilities: [][]byte{[]byte("kind")}}).Append(nil)},
	{Name: "task", Type: a2a.TypeTask, Payload: task("new", "work", "input").Append(nil), Open: true},
	{Name: "unsupported task", Type: a2a.TypeTask, Payload: task("no", "unsupported", "input").Append(nil), Answers: []uint64{a2a.TypeResult}},
	{Name: "task that is over", Type: a2a.TypeTask, Payload: task("over", "work", "output").Append(nil), Answers: []uint64{a2a.TypeResult}},
	{Name: "event", Type: a2a.TypeEvent, Payload: event("running", "e").Append(nil)},
	{Name: "result", Type: a2a.TypeResult, Payload: good("running", "").Append(nil)},
}

func FuzzServe(f *testing.F) { profiletest.Fuzz(f, served, contract...) }
