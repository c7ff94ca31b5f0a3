package daemon

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/cred"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
	carriage "github.com/slimwire/swp/profiles/sdl"
	"github.com/slimwire/swp/profiles/slip"
	stateprofile "github.com/slimwire/swp/profiles/state"
	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
)

// deed is something that a profile does for a peer.
type deed struct {
	name string

	// do asks for it, under a name. It returns what was answered, and the error if that says
	// no.
	do func(ctx context.Context, s *session, name string) (string, error)

	// done returns the names under which it was done. Nil: the answer shows it.
	done func() string
}

// refusedIn returns an error if an answer says that a hint or a chain forbids something.
func refusedIn(answer string) error {
	if strings.Contains(answer, "policy hint") || strings.Contains(answer, "chain of credentials") {
		return errors.New(answer)
	}
	return nil
}

// conditioned is a daemon in the region eu, and what it can be asked for.
func conditioned(t *testing.T) (*running, []deed) {
	var mu sync.Mutex
	var called strings.Builder
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(&called, string(body))
		_, _ = w.Write(body)
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "tasks")
	const here = "hints: {region: eu-west-1}"
	r := start(t, sdlAccess+"endpoint: {"+here+"}\nlimits: {error_budget: 1000}\n"+
		"slip: {relay: [sleeper]}\nsdl: {agent_id: "+sdlServer+", tools: {allow: [sys.ping, child/note]}}\n"+
		strings.Replace(childYAML(t, ", NOTES: '"+file+"'"), "      command:", "      "+here+"\n      command:", 1)+
		fmt.Sprintf("a2a: {workers: {one: {kinds: [k, sdl/task.v1], command: sh, args: [-c, 'cat >>%s; echo >>%[1]s'], %s}}}\n", file, here)+
		fmt.Sprintf("rpc: {backends: {demo: {url: '%s', methods: demo.echo, %s}}}\n", server.URL, here))
	plain := r.mustDial(r.addrs[0])
	kept := stateprofile.State{Blob: []byte("kept")}
	if err := put(t.Context(), plain.Session, kept); err != nil {
		t.Fatal(err)
	}
	if err := upload(t.Context(), plain.Session, "kept"); err != nil {
		t.Fatal(err)
	}
	log, err := events.Open(t.Context(), plain.Session, events.SubscribeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(log.Close)
	asked := func(ct, payload string) func(context.Context, *session, string) (string, error) {
		return func(ctx context.Context, on *session, name string) (string, error) {
			octets, err := carriage.Call(ctx, on, sdl.JSON.Append(nil, sdlRequest(ct, strings.ReplaceAll(payload, "NAME", name))))
			if err != nil {
				return "", err
			}
			v, err := canonical.ParseJSON(octets)
			if err != nil {
				return "", err
			}
			answer := string(v.Get("payload").AppendJSON(nil))
			return answer, refusedIn(answer)
		}
	}
	inFile := func() string {
		octets, _ := os.ReadFile(file)
		return string(octets)
	}
	consumed := func(topic string) func() string {
		var got strings.Builder
		return func() string {
			set, s := relayPeer(t, r, r.addrs[0])
			c, err := set.Consume(t.Context(), s, topic, 64)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := relay.Send(t.Context(), s, &relay.Publication{ID: profiles.NewMsgID(), Topic: topic, Payload: []byte("the last one")}); err != nil {
				t.Fatal(err)
			}
			for {
				d, err := c.Recv(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintln(&got, string(d.Payload))
				if err := d.Ack(); err != nil {
					t.Fatal(err)
				}
				if string(d.Payload) == "the last one" {
					return got.String()
				}
			}
		}
	}
	return r, []deed{
		{"mcp request", func(ctx context.Context, s *session, name string) (string, error) {
			result, err := s.mapping.Client(s.Session).Do(ctx, &mcpmap.Call{
				Octets: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"note","arguments":{"text":%q}}}`, name),
			})
			if err != nil {
				return "", err
			}
			return string(result.Octets), refusedIn(string(result.Octets))
		}, inFile},
		{"rpc call", func(ctx context.Context, s *session, name string) (string, error) {
			result, err := rpc.Call(ctx, s.Session, "demo.echo", []byte(name))
			return string(result), err
		}, func() string {
			mu.Lock()
			defer mu.Unlock()
			return called.String()
		}},
		{"method of the store", func(ctx context.Context, s *session, name string) (string, error) {
			result, err := rpc.Call(ctx, s.Session, artifact.MethodList, []byte(`{}`))
			return string(result), err
		}, nil},
		{"a2a task", func(ctx context.Context, s *session, name string) (string, error) {
			d, err := s.tasks.Send(ctx, s.Session, &a2a.Task{Kind: "k", Input: []byte(name)}, a2a.SendOptions{})
			if err != nil {
				return "", err
			}
			defer d.Close()
			_, result := follow(t, d, "")
			return result.Reason, refusedIn(result.Reason)
		}, inFile},
		{"events publish", func(ctx context.Context, on *session, name string) (string, error) {
			lane, err := on.Open(ctx)
			if err != nil {
				return "", err
			}
			p := events.NewPublisher(lane, rpc.Sync)
			defer p.Close()
			err = p.Publish(ctx, &events.Record{EventID: []byte(name), EventType: []byte("t"), Severity: []byte("info"), Timestamp: 1, TaskID: []byte("t")})
			if err == nil {
				err = p.Sync(ctx)
			}
			return "", err
		}, func() string {
			lane, err := plain.Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			p := events.NewPublisher(lane, rpc.Sync)
			defer p.Close()
			last := events.Record{EventID: []byte("last"), EventType: []byte("last"), Severity: []byte("info"), Timestamp: 1, TaskID: []byte("t")}
			if err := errors.Join(p.Publish(t.Context(), &last), p.Sync(t.Context())); err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for {
				d, err := log.Recv(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range d.Events {
					if string(e.EventType) == "last" {
						return got.String()
					}
					fmt.Fprintln(&got, string(e.EventID))
				}
			}
		}},
		{"events subscribe", func(ctx context.Context, on *session, _ string) (string, error) {
			sub, err := events.Open(ctx, on, events.SubscribeOptions{})
			if err == nil {
				sub.Close()
			}
			return "", err
		}, nil},
		{"artifact put", func(ctx context.Context, on *session, name string) (string, error) {
			return "", upload(ctx, on.Session, name)
		}, func() string {
			octets, err := rpc.Call(t.Context(), plain.Session, artifact.MethodList, []byte(`{}`))
			if err != nil {
				t.Fatal(err)
			}
			return strings.NewReplacer(`"`, "\n").Replace(string(octets))
		}},
		{"artifact get", func(ctx context.Context, on *session, _ string) (string, error) {
			var got bytes.Buffer
			_, err := artifact.Download{ArtifactID: "kept", Sink: func(c *artifact.Chunk) error {
				_, _ = got.Write(c.Data)
				return nil
			}}.Receive(ctx, on)
			return got.String(), err
		}, nil},
		{"state put", func(ctx context.Context, on *session, name string) (string, error) {
			return "", put(ctx, on.Session, stateprofile.State{Blob: []byte(name)})
		}, func() string {
			var got strings.Builder
			for _, c := range conditions {
				name := "state put " + c.name
				if _, err := stateprofile.Fetch(t.Context(), plain.Session, stateprofile.IDOf([]byte(name))); err == nil {
					fmt.Fprintln(&got, name)
				}
			}
			return got.String()
		}},
		{"state get", func(ctx context.Context, on *session, _ string) (string, error) {
			got, err := stateprofile.Fetch(ctx, on, stateprofile.IDOf(kept.Blob))
			if err != nil {
				return "", err
			}
			return string(got.Blob), nil
		}, nil},
		{"state delta", func(ctx context.Context, on *session, name string) (string, error) {
			lane, err := on.Open(ctx)
			if err != nil {
				return "", err
			}
			defer func() { _ = lane.Close() }()
			return "", stateprofile.AddDelta(ctx, lane, rpc.Sync, stateprofile.IDOf(kept.Blob), []byte(name))
		}, func() string {
			var got strings.Builder
			base := stateprofile.IDOf(kept.Blob)
			stream, err := rpc.Open(t.Context(), plain.Session, stateprofile.MethodDeltas, base[:])
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Close()
			for {
				item, err := stream.Recv(t.Context())
				if errors.Is(err, io.EOF) {
					return got.String()
				}
				var c *stateprofile.Change
				if err == nil {
					c, err = stateprofile.ReadChange(item, base)
				}
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintln(&got, string(c.Delta))
			}
		}},
		{"relay publish", func(ctx context.Context, on *session, name string) (string, error) {
			_, err := relay.Send(ctx, on, &relay.Publication{ID: []byte(name), Topic: "t", Payload: []byte(name)})
			return "", err
		}, consumed("t")},
		{"slip send", func(ctx context.Context, on *session, name string) (string, error) {
			lane, err := on.Open(ctx)
			if err != nil {
				return "", err
			}
			defer func() { _ = lane.Close() }()
			call, err := lane.Call(ctx, e1.Envelope{
				ProfileID: slip.ProfileID, MsgType: slip.TypeSLIP, Payload: []byte("SLIP v1 planner sleeper RequestReview \"" + name + "\""),
			})
			if err != nil {
				return "", err
			}
			defer call.Close()
			if err := rpc.Sync(ctx, lane); err != nil {
				return "", err
			}
			polled, cancel := context.WithCancel(ctx)
			cancel()
			if env, err := call.Recv(polled); err == nil {
				return string(env.Payload), errors.New(string(env.Payload))
			}
			return "", nil
		}, consumed("slip/sleeper")},
		{"sdl tool", asked(sdl.CTToolCall, `{"tool":"child/note","call_id":"c1","args":{"text":"NAME"},"expect":{}}`), inFile},
		{"sdl function", asked(sdl.CTToolCall, `{"tool":"sys.ping","call_id":"c1","args":{},"expect":{}}`), nil},
		{"sdl task", asked(sdl.CTTask, strings.Replace(sdlTask, `"goal":"dig"`, `"goal":"NAME"`, 1)), inFile},
	}
}

func put(ctx context.Context, on profiles.Session, s stateprofile.State) error {
	lane, err := on.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = lane.Close() }()
	_, err = stateprofile.PutAll(ctx, lane, rpc.Sync, s)
	return err
}

func upload(ctx context.Context, on profiles.Session, id string) error {
	octets := []byte(id)
	sum := sha256.Sum256(octets)
	return artifact.Upload{ArtifactID: id, Size: uint64(len(octets)), Hash: sum, Octets: bytes.NewReader(octets), Sync: rpc.Sync}.Send(ctx, on)
}

// condition is under what something is asked for.
type condition struct {
	name  string
	hint  string // set on the connection
	chain string // that is named
	met   bool
	says  string // what a refusal says
}

var conditions = []condition{
	{"nothing", "", "", true, ""},
	{"kept", "MUST region=eu", "", true, ""},
	{"wished", "SHOULD region=mars", "", true, ""},
	{"broken", "MUST region=mars", "", false, "MUST region for connection: UNSATISFIED"},
	{"undeclared", "MUST no_pii=true", "", false, "MUST no_pii for connection: UNDECLARED"},
	{"known chain", "", "known", true, ""},
	{"unknown chain", "", "unknown", false, "chain of credentials"},
	{"revoked chain", "", "revoked", false, "chain of credentials"},
}

// Every profile, every transport: what is asked for under conditions is done if they are
// met, and only then, and the peer is told which one is not.
func TestPR13ConditionsHoldInEveryProfile(t *testing.T) {
	r, deeds := conditioned(t)
	certificate, err := os.ReadFile(filepath.Join(r.dir, "pki", "client.crt"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(certificate)
	leaf := sha256.Sum256(block.Bytes)
	for i, c := range conditions {
		s, told := r.hintedSession(r.addrs[i%2])
		ctx := t.Context()
		if c.hint != "" {
			s.put(t, s.Session, c.hint)
		}
		if c.chain != "" {
			lane, err := s.Open(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if c.chain != "unknown" {
				err = cred.Show(ctx, lane, rpc.Sync, cred.MTLS, leaf[:], []byte(c.chain))
			}
			if c.chain == "revoked" {
				err = errors.Join(err, cred.End(ctx, lane, rpc.Sync, []byte(c.chain), ""))
			}
			if err = errors.Join(err, lane.Close()); err != nil {
				t.Fatal(err)
			}
			ctx = profiles.WithChain(ctx, []byte(c.chain))
		}
		for _, d := range deeds {
			within, cancel := context.WithTimeout(ctx, patience)
			answer, err := d.do(within, s, d.name+" "+c.name)
			cancel()
			switch {
			case c.met && err != nil:
				t.Errorf("%s under %s: %v", d.name, c.name, err)
			case !c.met && err == nil:
				t.Errorf("%s under %s is answered with %q", d.name, c.name, answer)
			case !c.met && !strings.Contains(err.Error(), c.says):
				t.Errorf("%s under %s is refused with %q, want %q in it", d.name, c.name, err, c.says)
			}
			notice := heard(t, s, told)
			if want := !c.met && c.hint != ""; (notice != "") != want || strings.Contains(notice, ",") {
				t.Errorf("%s under %s: the notices are %q", d.name, c.name, notice)
			}
		}
	}
	for _, d := range deeds {
		if d.done == nil {
			continue
		}
		done := d.done()
		for _, c := range conditions {
			name := d.name + " " + c.name
			if got := slices.Contains(strings.FieldsFunc(done, func(r rune) bool { return r == '\n' || r == '"' }), name); got != c.met {
				t.Errorf("%s under %s: done: %v, want %v", d.name, c.name, got, c.met)
			}
		}
	}
}
