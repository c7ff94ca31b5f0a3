package rpc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/profiletest"
	"github.com/slimwire/swp/profiles/rpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newProfile(t testing.TB, opts rpc.Options) *profiles.Profile {
	t.Helper()
	p, err := rpc.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func req(id, method, params string) []byte {
	m := rpc.Req{RPCID: []byte(id), Method: []byte(method), Params: []byte(params)}
	return m.Append(nil)
}

func keyed(id, method, key string) []byte {
	m := rpc.Req{RPCID: []byte(id), Method: []byte(method), IdempotencyKey: []byte(key)}
	return m.Append(nil)
}

func cancel(id string) []byte {
	m := rpc.Cancel{RPCID: []byte(id), Reason: []byte("enough")}
	return m.Append(nil)
}

// spell writes answers as short words: "resp id result", "err id code
// retryable", "item id seq octets".
func spell(t testing.TB, answers []e1.Envelope) []string {
	t.Helper()
	var words []string
	for _, env := range answers {
		var line []string
		switch env.MsgType {
		case rpc.TypeResp:
			var m rpc.Resp
			if err := m.Decode(env.Payload); err != nil {
				t.Fatal(err)
			}
			line = []string{"resp", string(m.RPCID), string(m.Result)}
		case rpc.TypeErr:
			var m rpc.Err
			if err := m.Decode(env.Payload); err != nil {
				t.Fatal(err)
			}
			line = []string{"err", string(m.RPCID), string(m.ErrorCode)}
			if m.Retryable {
				line = append(line, "retryable")
			}
		case rpc.TypeStreamItem:
			var m rpc.StreamItem
			if err := m.Decode(env.Payload); err != nil {
				t.Fatal(err)
			}
			line = []string{"item", string(m.RPCID), string(rune('0' + m.SeqNo)), string(m.Item)}
		}
		words = append(words, strings.Join(line, " "))
	}
	return words
}

func wantAnswers(t testing.TB, x *profiletest.Exchange, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, spell(t, x.Wait().Answers())); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	if err := x.Err(); err != nil {
		t.Errorf("refused: %v", err)
	}
}

// wantRefusal wants a message refused, and returns the RPC_ERR for it, if there
// is one.
func wantRefusal(t testing.TB, p *profiles.Profile, x *profiletest.Exchange, code profiles.Code) (words string) {
	t.Helper()
	if got := x.Wait().Answers(); len(got) != 0 {
		t.Errorf("answers %v, want a refusal", spell(t, got))
	}
	fault := x.Err()
	if fault == nil || fault.Code != code {
		t.Fatalf("error %v, want %v", fault, code)
	}
	if env, ok := p.Refusal(x.Request(), fault); ok {
		words = spell(t, []e1.Envelope{env})[0]
	}
	return words
}

// methods of each kind. gate holds the detached ones up.
func methods(gate chan struct{}) map[string]rpc.Method {
	return map[string]rpc.Method{
		"test.count": {Detached: func(_ context.Context, _ *profiles.Request, params []byte, send func([]byte) error) ([]byte, error) {
			for i := range params {
				if err := send(params[i : i+1]); err != nil {
					return nil, err
				}
			}
			return []byte("done"), nil
		}},
		"test.wait": {Detached: func(ctx context.Context, _ *profiles.Request, params []byte, _ func([]byte) error) ([]byte, error) {
			select {
			case <-gate:
				return params, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}},
		"test.deaf": {Detached: func(_ context.Context, _ *profiles.Request, params []byte, _ func([]byte) error) ([]byte, error) {
			<-gate
			return params, nil
		}},
		"test.held": {Held: func(p *rpc.Pending, params []byte) error {
			kept := bytes.Clone(params)
			go func() {
				_ = p.Item(kept)
				_ = p.Return(kept)
			}()
			return nil
		}},
		"test.open":   {Long: true, Held: func(p *rpc.Pending, _ []byte) error { return p.Item([]byte("open")) }},
		"test.broken": {Inline: func(*profiles.Request, []byte) ([]byte, error) { return nil, errors.New("secret") }},
		"test.busy": {Detached: func(context.Context, *profiles.Request, []byte, func([]byte) error) ([]byte, error) {
			return nil, &rpc.Error{Code: rpc.CodeUnavailable, Message: "later", Retryable: true}
		}},
		"test.refused": {Held: func(*rpc.Pending, []byte) error {
			return &profiles.Error{Code: profiles.NotFound, Text: "no such thing", Domain: true}
		}},
		"test.pathological": {Inline: func(*profiles.Request, []byte) ([]byte, error) { return nil, &rpc.Error{} }},
	}
}

func served(t testing.TB) *profiles.Profile {
	return newProfile(t, rpc.Options{Methods: methods(nil), Info: info})
}

func info(s profiles.Session) rpc.Info {
	return rpc.Info{
		Version:    "1.2.3",
		Profiles:   []rpc.ProfileInfo{{ID: 12, Types: []uint64{1, 2}}},
		Extensions: map[uint64][]uint64{1: {16, 17, 18}},
		Targets:    []string{s.Peer().Identity},
	}
}

var contract = []profiletest.Case{
	{Name: "ping", Type: rpc.TypeReq, Payload: req("id", "swp.ping", ""), Answers: []uint64{rpc.TypeResp}},
	{Name: "echo", Type: rpc.TypeReq, Payload: req("id", "swp.echo", "params"), Answers: []uint64{rpc.TypeResp}},
	{Name: "unknown method", Type: rpc.TypeReq, Payload: req("id", "nobody.knows", ""), Answers: []uint64{rpc.TypeErr}},
	{Name: "detached with items", Type: rpc.TypeReq, Payload: req("id", "test.count", "ab"), Answers: []uint64{rpc.TypeStreamItem, rpc.TypeStreamItem, rpc.TypeResp}},
	{Name: "held", Type: rpc.TypeReq, Payload: req("id", "test.held", "kept"), Answers: []uint64{rpc.TypeStreamItem, rpc.TypeResp}},
	{Name: "held open", Type: rpc.TypeReq, Payload: req("id", "test.open", ""), Open: true},
	{Name: "cancel of nothing", Type: rpc.TypeCancel, Payload: cancel("id")},
	{Name: "unsolicited answer", Type: rpc.TypeResp, Payload: (&rpc.Resp{RPCID: []byte("id")}).Append(nil), Code: profiles.InvalidProfilePayload},
	{Name: "unsolicited error", Type: rpc.TypeErr, Payload: (&rpc.Err{RPCID: []byte("id"), ErrorCode: []byte("internal"), ErrorMessage: []byte("text")}).Append(nil), Code: profiles.InvalidProfilePayload},
	{Name: "unsolicited item", Type: rpc.TypeStreamItem, Payload: (&rpc.StreamItem{RPCID: []byte("id"), SeqNo: 1}).Append(nil), Code: profiles.InvalidProfilePayload},
}

func TestContract(t *testing.T) { profiletest.Run(t, served, contract...) }

func FuzzServe(f *testing.F) { profiletest.Fuzz(f, served, contract...) }

func TestBuiltinMethods(t *testing.T) {
	h := profiletest.New(t, served(t))
	wantAnswers(t, h.Serve(rpc.TypeReq, req("a", "swp.ping", "")), "resp a ")
	wantAnswers(t, h.Serve(rpc.TypeReq, req("a", "swp.sync", "")), "resp a ")
	wantAnswers(t, h.Serve(rpc.TypeReq, req("a", "swp.echo", "hello")), "resp a hello")
	big := strings.Repeat("x", 1<<20)
	wantAnswers(t, h.Serve(rpc.TypeReq, req("a", "swp.echo", big)), "resp a "+big)
}

func TestInfoSaysWhatIsOffered(t *testing.T) {
	h := profiletest.New(t, served(t))
	x := h.Serve(rpc.TypeReq, req("a", "swp.info", ""))
	var m rpc.Resp
	if err := m.Decode(x.Answers()[0].Payload); err != nil {
		t.Fatal(err)
	}
	const want = `{"version":"1.2.3","profiles":[{"id":12,"types":[1,2]}],"extensions":{"1":[16,17,18]},"targets":["spiffe://profiletest/peer"]}`
	if string(m.Result) != want {
		t.Errorf("info %s, want %s", m.Result, want)
	}
	var back rpc.Info
	if err := json.Unmarshal(m.Result, &back); err != nil || back.Extensions[1][2] != 18 {
		t.Errorf("info %+v read back, error %v", back, err)
	}
	bare := profiletest.New(t, newProfile(t, rpc.Options{}))
	wantAnswers(t, bare.Serve(rpc.TypeReq, req("a", "swp.info", "")), "err a unknown_method")
}

func TestFailuresOfMethods(t *testing.T) {
	p := served(t)
	h := profiletest.New(t, p)
	wantAnswers(t, h.Serve(rpc.TypeReq, req("a", "nobody.knows", "")), "err a unknown_method")
	wantAnswers(t, h.Serve(rpc.TypeReq, req("b", "test.busy", "")), "err b unavailable retryable")
	wantAnswers(t, h.Serve(rpc.TypeReq, req("c", "test.pathological", "")), "err c internal")

	x := h.Serve(rpc.TypeReq, req("d", "test.broken", ""))
	if got := wantRefusal(t, p, x, profiles.Internal); got != "err d internal" {
		t.Errorf("answer %q, want internal", got)
	}
	env, _ := p.Refusal(x.Request(), x.Err())
	if !x.Err().Domain || bytes.Contains(env.Payload, []byte("secret")) {
		t.Errorf("fault %v and answer %q: want no charge to the peer, and the cause kept from it", x.Err(), env.Payload)
	}
	x = h.Serve(rpc.TypeReq, req("e", "test.refused", ""))
	if got := wantRefusal(t, p, x, profiles.NotFound); got != "err e invalid_request" {
		t.Errorf("answer %q, want invalid_request", got)
	}
}

func TestRequiredFields(t *testing.T) {
	p := served(t)
	h := profiletest.New(t, p)
	for _, test := range []struct {
		name    string
		msgType uint64
		payload []byte
		answer  string
	}{
		{"rpc_id of a request", rpc.TypeReq, req("", "swp.ping", ""), ""},
		{"method", rpc.TypeReq, req("a", "", ""), "err a invalid_request"},
		{"method that is not UTF-8", rpc.TypeReq, req("a", "\xff", ""), "err a invalid_request"},
		{"rpc_id of a cancel", rpc.TypeCancel, cancel(""), ""},
		{"another member", rpc.TypeReq, cancel("a"), ""},
		{"nothing", rpc.TypeReq, nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := wantRefusal(t, p, h.Serve(test.msgType, test.payload), profiles.InvalidProfilePayload); got != test.answer {
				t.Errorf("answer %q, want %q", got, test.answer)
			}
		})
	}
}

func TestCheckWantsTheRequiredFieldsOfAnswers(t *testing.T) {
	p := served(t)
	id, text := []byte("id"), []byte("text")
	for _, test := range []struct {
		name    string
		msgType uint64
		payload []byte
		ok      bool
	}{
		{"resp", rpc.TypeResp, (&rpc.Resp{RPCID: id}).Append(nil), true},
		{"resp without rpc_id", rpc.TypeResp, (&rpc.Resp{Result: text}).Append(nil), false},
		{"err", rpc.TypeErr, (&rpc.Err{RPCID: id, ErrorCode: text, ErrorMessage: text}).Append(nil), true},
		{"err without rpc_id", rpc.TypeErr, (&rpc.Err{ErrorCode: text, ErrorMessage: text}).Append(nil), false},
		{"err without error_code", rpc.TypeErr, (&rpc.Err{RPCID: id, ErrorMessage: text}).Append(nil), false},
		{"err without error_message", rpc.TypeErr, (&rpc.Err{RPCID: id, ErrorCode: text}).Append(nil), false},
		{"item", rpc.TypeStreamItem, (&rpc.StreamItem{RPCID: id, SeqNo: 1}).Append(nil), true},
		{"item without rpc_id", rpc.TypeStreamItem, (&rpc.StreamItem{SeqNo: 1}).Append(nil), false},
		{"item in the wrapper of a response", rpc.TypeResp, (&rpc.StreamItem{RPCID: id, SeqNo: 1}).Append(nil), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := p.Check(&e1.Envelope{MsgType: test.msgType, Payload: test.payload})
			if (err == nil) != test.ok {
				t.Errorf("error %v, want ok %v", err, test.ok)
			}
		})
	}
}

func TestCancelEndsADetachedCall(t *testing.T) {
	p := newProfile(t, rpc.Options{Methods: methods(nil)})
	h := profiletest.New(t, p)
	x := h.Serve(rpc.TypeReq, req("a", "test.wait", "late"))
	wantAnswers(t, h.Serve(rpc.TypeCancel, cancel("other")))
	wantAnswers(t, h.Serve(rpc.TypeCancel, cancel("a")))
	wantAnswers(t, x, "err a cancelled")
	wantAnswers(t, h.Serve(rpc.TypeCancel, cancel("a"))) // no second terminal
}

func TestCancelSuppressesALateResult(t *testing.T) {
	gate := make(chan struct{})
	h := profiletest.New(t, newProfile(t, rpc.Options{Methods: methods(gate)}))
	x := h.Serve(rpc.TypeReq, req("a", "test.deaf", "late"))
	h.Serve(rpc.TypeCancel, cancel("a"))
	close(gate)
	wantAnswers(t, x, "err a cancelled")
}

func TestCancelEndsAHeldCall(t *testing.T) {
	var p *rpc.Pending
	h := profiletest.New(t, newProfile(t, rpc.Options{Methods: map[string]rpc.Method{
		"test.hold": {Held: func(pending *rpc.Pending, _ []byte) error { p = pending; return nil }},
	}}))
	x := h.Serve(rpc.TypeReq, req("a", "test.hold", ""))
	if err := p.Item([]byte("first")); err != nil {
		t.Fatal(err)
	}
	h.Serve(rpc.TypeCancel, cancel("a"))
	wantAnswers(t, x, "item a 1 first", "err a cancelled")
	<-p.Context().Done()
	if p.Item(nil) != profiles.ErrFinished || p.Return(nil) != profiles.ErrFinished {
		t.Error("a cancelled call took an item or a result")
	}
	p.Fail(errors.New("too late"))
	wantAnswers(t, x, "item a 1 first", "err a cancelled")
}

func TestRPCIDInUseIsRefused(t *testing.T) {
	gate := make(chan struct{})
	p := newProfile(t, rpc.Options{Methods: methods(gate)})
	h, other := profiletest.New(t, p), profiletest.New(t, p)
	first := h.Serve(rpc.TypeReq, req("a", "test.wait", "first"))
	held := h.Serve(rpc.TypeReq, req("b", "test.open", ""))
	for _, method := range []string{"test.wait", "test.open", "swp.ping", "nobody.knows"} {
		for _, id := range []string{"a", "b"} {
			if got := wantRefusal(t, p, h.Serve(rpc.TypeReq, req(id, method, "")), profiles.InvalidProfilePayload); got != "" {
				t.Errorf("%s under %s: answer %q would end the call that has the id", method, id, got)
			}
		}
	}
	// The same id on another connection is another call, and out of reach.
	wantAnswers(t, other.Serve(rpc.TypeReq, req("a", "swp.ping", "")), "resp a ")
	wantAnswers(t, other.Serve(rpc.TypeCancel, cancel("a")))
	close(gate)
	wantAnswers(t, first, "resp a first")
	wantAnswers(t, h.Serve(rpc.TypeReq, req("a", "test.wait", "again")), "resp a again")
	h.Serve(rpc.TypeCancel, cancel("b"))
	wantAnswers(t, held, "item b 1 open", "err b cancelled")
}

func TestWithoutAStoreIdempotencyKeysAreNeverIgnoredSilently(t *testing.T) {
	h := profiletest.New(t, served(t))
	wantAnswers(t, h.Serve(rpc.TypeReq, keyed("a", "swp.ping", "key")), "resp a ")
	wantAnswers(t, h.Serve(rpc.TypeReq, keyed("a", "test.busy", "key")), "err a invalid_request")
}

func TestRefusalIsNoAnswerUnderAnIDInUse(t *testing.T) {
	p := served(t)
	request := &profiles.Request{Envelope: e1.Envelope{ProfileID: rpc.ProfileID, MsgType: rpc.TypeReq, Payload: req("a", "swp.ping", "")}}
	if _, ok := p.Refusal(request, profiles.Errorf(profiles.DuplicateMsgID, "in flight")); ok {
		t.Error("a duplicate got an answer that would end the first")
	}
	for code, want := range map[profiles.Code]string{
		profiles.SecurityPolicy:    "err a unauthorized",
		profiles.RateLimitExceeded: "err a unavailable retryable",
		profiles.Internal:          "err a internal",
		profiles.InvalidEnvelope:   "err a invalid_request",
	} {
		env, ok := p.Refusal(request, profiles.Errorf(code, "text"))
		if !ok || spell(t, []e1.Envelope{env})[0] != want {
			t.Errorf("%v: answer %v, want %q", code, spell(t, []e1.Envelope{env}), want)
		}
	}
	env, ok := p.Refusal(request, &profiles.Error{Code: profiles.Internal, Detail: "deadline"})
	if !ok || spell(t, []e1.Envelope{env})[0] != "err a timeout retryable" {
		t.Errorf("deadline: answer %v", spell(t, []e1.Envelope{env}))
	}
}

func TestNewRefusesBadMethods(t *testing.T) {
	inline := func(*profiles.Request, []byte) ([]byte, error) { return nil, nil }
	held := func(*rpc.Pending, []byte) error { return nil }
	for name, m := range map[string]rpc.Method{
		"swp.echo":  {Inline: inline},
		"test.none": {},
		"test.two":  {Inline: inline, Held: held},
		"test.long": {Inline: inline, Long: true},
	} {
		if _, err := rpc.New(rpc.Options{Methods: map[string]rpc.Method{name: m}}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
