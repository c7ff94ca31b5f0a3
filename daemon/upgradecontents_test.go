package daemon

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/slimwire/swp/internal/agents/team"
	"github.com/slimwire/swp/internal/audit"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
	stateprofile "github.com/slimwire/swp/profiles/state"
	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
)

// content is something that is kept. write makes it, and read wants it from a daemon that was started
// again. A later release may add a content; that it is missing in the data of an earlier one is for
// its read to know.
type content struct {
	name   string
	spaces []string // of the database
	write  func(*testing.T, *upgraded)
	read   func(*testing.T, *upgraded)
}

var contents = []content{
	{"version and keys", []string{"data", "relay.keys", "artifact.keys", "callers", "vouchers"}, func(*testing.T, *upgraded) {}, func(*testing.T, *upgraded) {}},
	{"deliveries", []string{"relay"}, writeDeliveries, readDeliveries},
	{"events", []string{"events", "events.names"}, writeEvents, readEvents},
	{"tasks", []string{"a2a.request", "a2a.standing", "a2a.events", "a2a.ending", "a2a.agents", "a2a.denied"}, writeTasks, readTasks},
	{"tasks of agents and teams", []string{"a2a.owners", "team.tasks"}, writeOwners, readOwners},
	{"states", []string{"state", "state.first", "state.deltas"}, writeStates, readStates},
	{"artifacts", nil, writeArtifacts, readArtifacts},
	{"outcomes of calls", []string{"rpc"}, writeOutcomes, readOutcomes},
	{"chains", []string{"cred", "cred.octets"}, writeChains, func(*testing.T, *upgraded) {}},                   // their tokens have expired
	{"A2A-SDL", []string{"sdl.nonces", "sdl.sessions", "sdl.tasks"}, writeSDL, func(*testing.T, *upgraded) {}}, // the same
	{"audit trail", nil, func(*testing.T, *upgraded) {}, readTrail},
}

func payloadOf(name string) []byte { return bytes.Repeat([]byte(name+" "), 50) }

func writeDeliveries(t *testing.T, u *upgraded) {
	by, s := relayPeer(t, u.running, u.addrs[0])
	for _, name := range []string{"leased", "dead", "acked", "queued 1", "queued 2", "b/onward"} {
		topic := strings.Fields(name)[0]
		if _, err := relay.Send(t.Context(), s, &relay.Publication{ID: []byte(name), Topic: topic, Payload: payloadOf(name)}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	c := consumes(t, u.organisation, s, by, "acked", 1)
	if err := next(t, c).Ack(); err != nil {
		t.Fatal(err)
	}
	becomes(t, s, "acked", relay.Acked)
	rejects(t, u.organisation, "dead")
	becomes(t, s, "dead", relay.DeadState)
	next(t, consumes(t, u.organisation, s, by, "leased", 1))
}

func readDeliveries(t *testing.T, u *upgraded) {
	by, s := relayPeer(t, u.running, u.addrs[0])
	for name, want := range map[string]relay.State{
		"queued 1": relay.Queued, "queued 2": relay.Queued, "acked": relay.Acked, "dead": relay.DeadState, "b/onward": relay.Queued,
	} {
		if state, _, err := relay.Ask(t.Context(), s, []byte(name)); err != nil || state != want {
			t.Errorf("%s is %q, %v; want %q", name, state, err, want)
		}
		r, err := relay.Send(t.Context(), s, &relay.Publication{ID: []byte(name), Topic: strings.Fields(name)[0], Payload: payloadOf(name)})
		if err != nil || !r.Duplicate {
			t.Errorf("%s again: %+v, %v", name, r, err)
		}
	}
	want := []string{string(payloadOf("queued 1")), string(payloadOf("queued 2"))}
	if got := delivered(t, consumes(t, u.organisation, s, by, "queued", 2), 2); !slices.Equal(got, want) {
		t.Errorf("delivered %.20q, want %.20q", got, want)
	}
}

func writeEvents(t *testing.T, u *upgraded) {
	s := u.mustDial(u.addrs[0])
	sub := subscribed(t, s.Session, events.SubscribeOptions{Filter: "type:k", Name: "mine"})
	if err := publishes(t, s.Session, record("1", "k", "one"), record("2", "k", "two")); err != nil {
		t.Fatal(err)
	}
	bodies(t, sub, 2)
	sub.Close()
	// The cursor is stored when the end of the subscription is.
	if _, err := rpc.Call(t.Context(), s.Session, rpc.MethodSync, nil); err != nil {
		t.Fatal(err)
	}
	if err := publishes(t, s.Session, record("3", "k", "three"), record("4", "other", "four")); err != nil {
		t.Fatal(err)
	}
}

func readEvents(t *testing.T, u *upgraded) {
	s := u.mustDial(u.addrs[0])
	all := subscribed(t, s.Session, events.SubscribeOptions{Filter: "type:*", After: new(uint64)})
	if got, _ := bodies(t, all, 4); !slices.Equal(got, []string{"k=one", "k=two", "k=three", "other=four"}) {
		t.Errorf("all events: %q", got)
	}
	mine := subscribed(t, s.Session, events.SubscribeOptions{Filter: "type:k", Name: "mine"})
	got, _ := bodies(t, mine, 1)
	if got[len(got)-1] != "k=three" {
		t.Errorf("after the stored cursor: %q", got)
	}
}

// taskOfUpgrade is a task by the name that says what becomes of it.
func taskOfUpgrade(name string) *a2a.Task {
	return &a2a.Task{ID: []byte("task " + name), Kind: name, Input: payloadOf(name)}
}

func writeTasks(t *testing.T, u *upgraded) {
	u.organisation.agent("worker", func(ctx context.Context, task *a2a.Task, event func(string, []byte) error) ([]byte, error) {
		if err := event("one", payloadOf("event")); err != nil || task.Kind == "ended" {
			return payloadOf("output"), err
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}, "ended", "begun", "sdl/task.v1")
	s := u.mustDial(u.addrs[0])
	if said, result := s.hand(t, taskOfUpgrade("ended"), a2a.SendOptions{Agent: "worker"}); !result.OK || len(said) != 1 {
		t.Fatalf("%q, %+v", said, result)
	}
	if _, result := s.hand(t, taskOfUpgrade("denied"), a2a.SendOptions{Agent: "nobody"}); result.Reason != a2a.ReasonDenied {
		t.Fatalf("%+v", result)
	}
	d, err := s.tasks.Send(t.Context(), s.Session, taskOfUpgrade("begun"), a2a.SendOptions{Agent: "worker"})
	if err != nil {
		t.Fatal(err)
	}
	follow(t, d, "one")
	u.begun = append(u.begun, d.Close)
}

func readTasks(t *testing.T, u *upgraded) {
	s := u.mustDial(u.addrs[0])
	said, result := s.hand(t, taskOfUpgrade("ended"), a2a.SendOptions{Agent: "worker", Resume: true})
	if !slices.Equal(said, []string{"one" + string(payloadOf("event"))}) || !result.OK || !bytes.Equal(result.Output, payloadOf("output")) {
		t.Errorf("a task that has ended: %q, %+v", said, result)
	}
	if _, result := s.hand(t, taskOfUpgrade("denied"), a2a.SendOptions{Agent: "nobody"}); result.Reason != a2a.ReasonDenied {
		t.Errorf("a task that was denied: %+v", result)
	}
	d, err := s.tasks.Send(t.Context(), s.Session, taskOfUpgrade("begun"), a2a.SendOptions{Agent: "worker", Resume: true})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	follow(t, d, "one")
}

func writeOwners(t *testing.T, u *upgraded) {
	s := u.mustDial(u.addrs[0])
	task := &a2a.Task{Kind: "a2a/1.0/SendMessage", Input: []byte(`{"message":{"role":"ROLE_USER","parts":[{"text":"hi"}],"messageId":"1"}}`)}
	if _, result := s.hand(t, task, a2a.SendOptions{Agent: "billing"}); !result.OK {
		t.Fatalf("%+v", result)
	}
	join(u.running, "triage", func(x *a2asrv.ExecutorContext, yield func(sdk.Event, error) bool) {
		if yield(sdk.NewSubmittedTask(x, x.Message), nil) {
			yield(sdk.NewStatusUpdateEvent(x, sdk.TaskStateInputRequired, sdk.NewMessage(sdk.MessageRoleAgent, sdk.NewTextPart("which?"))), nil)
		}
	}, team.URI)
	for _, err := range deskClient(t, s).SendStreamingMessage(t.Context(), user("book")) {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func readOwners(t *testing.T, u *upgraded) {
	s := u.mustDial(u.addrs[0])
	get := &a2a.Task{Kind: "a2a/1.0/GetTask", Input: []byte(`{"id":"of-billing"}`)}
	if _, result := s.hand(t, get, a2a.SendOptions{Agent: "billing"}); !result.OK {
		t.Errorf("the task of an agent: %+v", result)
	}
	get.Input = []byte(`{"id":"of-nobody"}`)
	if _, result := s.hand(t, get, a2a.SendOptions{Agent: "billing"}); result.OK {
		t.Errorf("a task of nobody: %+v", result)
	}
}

var (
	baseState  = stateprofile.State{Blob: payloadOf("base"), Metadata: []byte("of the base")}
	childState = stateprofile.State{Blob: payloadOf("child"), Parents: []stateprofile.ID{stateprofile.IDOf(baseState.Blob)}}
)

func writeStates(t *testing.T, u *upgraded) {
	s := u.mustDial(u.addrs[0])
	lane := opened(t, s.Session)
	if _, err := stateprofile.PutAll(t.Context(), lane, syncPlain, baseState, childState); err != nil {
		t.Fatal(err)
	}
	if err := stateprofile.AddDelta(t.Context(), lane, syncPlain, stateprofile.IDOf(baseState.Blob), []byte("delta")); err != nil {
		t.Fatal(err)
	}
}

func readStates(t *testing.T, u *upgraded) {
	s := u.mustDial(u.addrs[0])
	for _, want := range []stateprofile.State{baseState, childState} {
		got, err := stateprofile.Fetch(t.Context(), s.Session, stateprofile.IDOf(want.Blob))
		if err != nil || !bytes.Equal(got.Blob, want.Blob) || !slices.Equal(got.Parents, want.Parents) || !bytes.Equal(got.Metadata, want.Metadata) {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
	}
}

// upgradeUpload is the upload of an artifact by its name.
func upgradeUpload(name string, size int) (artifact.Upload, []byte) {
	octets := bytes.Repeat([]byte(name+"\n"), size/(len(name)+1))
	return artifact.Upload{
		ArtifactID: name, Size: uint64(len(octets)), Hash: sha256.Sum256(octets), Metadata: []byte("of " + name), Octets: bytes.NewReader(octets), Sync: rpc.Sync,
		Chunk: 64 << 10, Window: 1,
	}, octets
}

const partSize = 1 << 20

func writeArtifacts(t *testing.T, u *upgraded) {
	s := u.mustDial(u.addrs[0])
	whole, _ := upgradeUpload("whole", 100_000)
	if err := whole.Send(t.Context(), s.Session); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	part, _ := upgradeUpload("in progress", partSize)
	part.Progress = func(durable uint64) {
		if durable >= partSize/4 {
			cancel()
		}
	}
	if err := part.Send(ctx, s.Session); !errors.Is(err, context.Canceled) {
		t.Fatalf("an upload that stops: %v", err)
	}
}

func readArtifacts(t *testing.T, u *upgraded) {
	s := u.mustDial(u.addrs[0])
	_, octets := upgradeUpload("whole", 100_000)
	if back, err := got(t, s.Session, artifact.Download{ArtifactID: "whole"}); err != nil || !bytes.Equal(back, octets) {
		t.Errorf("%d octets, %v", len(back), err)
	}
	part, octets := upgradeUpload("in progress", partSize)
	from := uint64(0)
	part.Progress = func(durable uint64) {
		if from == 0 {
			from = durable
		}
	}
	if err := part.Send(t.Context(), s.Session); err != nil || from < partSize/4 {
		t.Errorf("an upload went on at %d, %v", from, err)
	}
	if back, err := got(t, s.Session, artifact.Download{ArtifactID: "in progress"}); err != nil || !bytes.Equal(back, octets) {
		t.Errorf("%d octets, %v", len(back), err)
	}
}

var keyedCall = rpc.Invocation{Method: "echo", Params: []byte(`{"n":1.0}`), IdempotencyKey: "key"}

func writeOutcomes(t *testing.T, u *upgraded) {
	if _, err := keyedCall.Call(t.Context(), u.mustDial(u.addrs[0]).Session); err != nil {
		t.Fatal(err)
	}
}

func readOutcomes(t *testing.T, u *upgraded) {
	got, err := keyedCall.Call(t.Context(), u.mustDial(u.addrs[0]).Session)
	if err != nil || string(got) != string(keyedCall.Params) || len(u.far.asked) > 0 {
		t.Errorf("%s, %v, after %d calls of the method", got, err, len(u.far.asked))
	}
}

func writeChains(t *testing.T, u *upgraded) { u.mustDial(u.addrs[0]).present(t, "chain") }

func writeSDL(t *testing.T, u *upgraded) {
	s := u.speak(t)
	ask := func(v canonical.Value, nonce string) canonical.Value {
		return u.keys.opened(t, s.ask(t, sdl.JSON, u.keys.secure(t, v, nonce)).Value)
	}
	id := text(ask(sdlRequest(sdl.CTSession, `{"op":"open","profile":{},"nonce":"12345678"}`), "1"), "binding_id")
	for i, v := range []canonical.Value{sdlToolCall("sys.ping"), sdlRequest(sdl.CTTask, sdlTask)} {
		ask(v.With("sec", canonical.Object(canonical.Member{Name: "mode", Value: canonical.String(sdl.ModeNone)}, canonical.Member{
			Name: "session", Value: canonical.Object(canonical.Member{Name: "binding_id", Value: canonical.String(id)}),
		})), fmt.Sprint(i+2))
	}
}

// readTrail wants one chain of the records of the writing daemon and of this one. Whether the
// certificates of a release are trusted is not the question.
func readTrail(t *testing.T, u *upgraded) {
	if u.restored {
		return // a backup has no trail
	}
	result, err := audit.Verify(t.Context(), audit.Verification{
		Dir: filepath.Join(u.dir, upgradeData, "audit"), Found: func(f audit.Finding) { t.Errorf("%+v", f) },
		Trust: func(string, []*x509.Certificate, time.Time) error { return nil },
	})
	if err != nil || result.Faults > 0 {
		t.Errorf("%+v, %v", result, err)
	}
	if !slices.ContainsFunc(u.trail(), func(r recorded) bool { return r.Profile == "state" && r.Operation == "put" }) {
		t.Error("the trail does not have the state that was put before")
	}
}
