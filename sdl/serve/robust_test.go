package serve_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/serve"
	"github.com/slimwire/swp/sdl/trust"
)

// bodies are messages of every content type that is answered, plain and secured.
func bodies(t testing.TB) [][]byte {
	t.Helper()
	task := request(t, sdl.CTTask, taskPayload)
	list := [][]byte{
		sign(t, task, "n1").AppendJSON(nil),
		sign(t, encrypt(t, task), "n2").AppendJSON(nil),
		sign(t, encrypt(t, task), "n3").AppendCBOR(nil),
	}
	for _, m := range [][2]string{
		{sdl.CTTask, taskPayload},
		{sdl.CTToolCall, `{"tool":"math.add","call_id":"c","args":{"values":[1,2.5]},"expect":{}}`},
		{sdl.CTNegotiation, `{"need":{},"have":{},"ask":[],"supported_ct":[]}`},
		{sdl.CTTrustSync, `{"op":"propose","registry":{"revoked_kids":["a"]},"signature":"x","approvals":[]}`},
		{sdl.CTSession, `{"op":"open","profile":{},"nonce":"nonce-01","expires":"2026-05-04T04:00:00Z"}`},
		{sdl.CTArtifact, `{"items":[],"refs":[]}`},
	} {
		v := request(t, m[0], m[1])
		list = append(list, v.AppendJSON(nil), v.AppendCBOR(nil), sign(t, v, "n-"+m[0]).AppendJSON(nil))
	}
	return list
}

// servers are one that is open and one that trusts the planner.
func servers(t testing.TB) []*serve.Server {
	t.Helper()
	o := guarded(t)
	o.Tools, o.Compat = bothTools, serve.Reference()
	o.Proposals = &trust.SingleKey{Key: publicKey("approver")}
	o.Sessions = trust.NewSessions(trust.SessionOptions{})
	o.NewID = func() string { return "id" } // the same path for the same body
	return []*serve.Server{newServer(t, o), newServer(t, serve.Options{Tools: bothTools, Compat: serve.Reference(), NewID: o.NewID})}
}

// answered delivers a body, whatever it is: there is a valid answer, and no handler
// panics.
func answered(t testing.TB, s *serve.Server, body []byte) {
	t.Helper()
	form, err := sdl.FormOf(body)
	if err != nil {
		form = sdl.JSON
	}
	out := s.Handle(t.Context(), body, form, serve.Caller{})
	valid(t, out.Answer, form)
	if out.Err != nil && out.Err.Code == sdl.Internal {
		t.Errorf("%q: %v", body, out.Err)
	}
}

func TestMutatedMessagesAreAnswered(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	list := bodies(t)
	for _, s := range servers(t) {
		for range 400 {
			body := []byte(string(list[random.IntN(len(list))]))
			for range 1 + random.IntN(4) {
				switch at := random.IntN(len(body)); random.IntN(4) {
				case 0:
					body[at] = byte(random.Uint32())
				case 1:
					body = append(body[:at], body[at+1:]...)
				case 2:
					body = append(body[:at], append([]byte{byte(random.Uint32())}, body[at:]...)...)
				case 3:
					body = body[:at+1]
				}
				if len(body) == 0 {
					break
				}
			}
			if len(body) > 0 {
				answered(t, s, body)
			}
		}
	}
}

func TestEveryPrefixOfAMessageIsAnswered(t *testing.T) {
	s, list := servers(t)[0], bodies(t)
	for _, body := range [][]byte{list[0], list[2]} { // JSON and CBOR
		for n := range body {
			answered(t, s, body[:n])
		}
	}
}

func TestManyAtOnceAreAllAnswered(t *testing.T) {
	s := newServer(t, guarded(t))
	var done sync.WaitGroup
	for i := range 120 {
		body := sign(t, request(t, sdl.CTTask, taskPayload), fmt.Sprint("n", i)).AppendJSON(nil)
		done.Go(func() {
			out := s.Handle(context.Background(), body, sdl.JSON, serve.Caller{})
			if ct := text(out.Response.Get("ct")); ct != sdl.CTState {
				t.Errorf("answer %d is of ct %q: %v", i, ct, out.Err)
			}
		})
	}
	done.Wait()
}

func TestAnswerNeverExceedsTheLimits(t *testing.T) {
	// A name that is echoed, and a handler that has more to say than fits.
	v := request(t, sdl.CTTask, taskPayload)
	v = v.With("from", v.Get("from").With("name", canonical.String(strings.Repeat("x", 3000))))
	size := v.JSONSize()
	s := newServer(t, serve.Options{Limits: sdl.Limits{MaxBytes: size}, Handlers: map[string]serve.Handler{
		sdl.CTTask: serve.Handler(func(context.Context, *serve.Request) (serve.Result, error) {
			return serve.Result{CT: sdl.CTArtifact, Payload: parse(t, `{"items":[],"refs":[{"x":"`+strings.Repeat("y", size)+`"}]}`)}, nil
		}),
	}})
	out := ask(t, s, v)
	refused(t, out, sdl.Internal, false)
	if len(out.Answer) > size {
		t.Errorf("answer of %d octets, limit %d", len(out.Answer), size)
	}
}

func TestMoreToolsThanAnAnswerAdvertises(t *testing.T) {
	tools := serve.ToolSet{}
	for i := range 20_000 {
		tools[fmt.Sprintf("server/tool-%05d", i)] = serve.Ping
	}
	s := newServer(t, open(tools))
	out := ask(t, s, request(t, sdl.CTToolCall, `{"tool":"server/tool-19999","call_id":"c","args":{},"expect":{}}`))
	equal(t, "ok", payload(t, out, sdl.CTToolResult).Get("ok"), `true`)
	if n := out.Response.Get("cap").Get("tools").Len(); n != 1000 {
		t.Errorf("%d tools are advertised, want 1000", n)
	}
}

func FuzzHandle(f *testing.F) {
	for _, body := range bodies(f) {
		f.Add(body)
	}
	f.Add([]byte(`{"trace":{"root_id":1,"span_id":"","hops":-1},"from":{},"to":[]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, s := range servers(t) {
			answered(t, s, body)
		}
	})
}
