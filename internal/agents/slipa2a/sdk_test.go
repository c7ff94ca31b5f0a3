package slipa2a_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/slimwire/swp/internal/agents/slipa2a"
	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/sdk/a2atransport"
	"github.com/slimwire/swp/slip/ucr"
	"github.com/slimwire/swp/store/sqlstore"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/transporttest"
)

// reviewer is an agent of the SDK that repeats the text, and says whether the message
// was marked.
type reviewer struct{}

func (reviewer) Execute(_ context.Context, x *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		answer := sdk.NewMessage(sdk.MessageRoleAgent, sdk.NewTextPart(x.Message.Parts[0].Text()))
		if len(x.Message.Extensions) > 0 {
			answer.Extensions, answer.Metadata = x.Message.Extensions, x.Message.Metadata
		}
		yield(answer, nil)
	}
}

func (reviewer) Cancel(context.Context, *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	return func(func(sdk.Event, error) bool) {}
}

// dialled returns a client of the SDK for an agent of the SDK behind the extension.
func dialled(t *testing.T, o slipa2a.Options) *a2aclient.Client {
	t.Helper()
	x, err := slipa2a.New(o)
	if err != nil {
		t.Fatal(err)
	}
	handler := a2asrv.NewHandler(reviewer{}, a2asrv.WithExtendedAgentCard(&sdk.AgentCard{Name: "reviewer"}))
	serve := func(o all.Options) (*all.Set, *endpoint.Endpoint) {
		set, err := all.New(o)
		if err != nil {
			t.Fatal(err)
		}
		ep, err := endpoint.New(endpoint.Options{Registry: set.Registry})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = ep.Close()
			set.Close()
		})
		return set, ep
	}
	db, err := sqlstore.Open(t.Context(), sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	_, far := serve(all.Options{A2A: a2a.Options{
		Store:   db,
		Workers: []a2a.Registration{{Kinds: a2abinding.Kinds(), Worker: x.Wrap(a2atransport.NewWorker(handler))}},
	}})
	near, ep := serve(all.Options{})
	accepted, opened := transporttest.Pair(t, "pipe")
	far.Attach(accepted)
	session := ep.Attach(opened)
	client, err := a2aclient.NewFromCard(t.Context(), &sdk.AgentCard{
		Name: "reviewer", Capabilities: sdk.AgentCapabilities{ExtendedAgentCard: true},
		SupportedInterfaces: []*sdk.AgentInterface{{URL: "swp+tls://127.0.0.1:7777/reviewer", ProtocolBinding: a2atransport.Protocol, ProtocolVersion: sdk.Version}},
	}, a2aclient.WithTransport(a2atransport.Protocol, a2atransport.Factory(func(context.Context, *sdk.AgentInterface) (*a2atransport.Client, error) {
		return &a2atransport.Client{Peer: a2atransport.PeerFunc(func(context.Context, string) (profiles.Session, *a2a.Service, error) {
			return session, near.A2A, nil
		})}, nil
	})))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// marked is a message of the SDK in SLIP.
func marked(line, hash string) *sdk.SendMessageRequest {
	m := sdk.NewMessage(sdk.MessageRoleUser, sdk.NewTextPart(line), sdk.NewDataPart(map[string]any{"n": 1}))
	m.Extensions = []string{slipa2a.URI}
	m.Metadata = map[string]any{slipa2a.URI: map[string]any{"slipVersion": "v1", "encoding": "mnemonic", "ucrVersion": "1.0.0", "ucrHash": hash}}
	return &sdk.SendMessageRequest{Message: m}
}

func TestProgramsOfTheSDKSpeakSLIP(t *testing.T) {
	const line = "SLIP v1 planner reviewer RequestReview auth_module"
	ctx := a2aclient.AttachServiceParams(t.Context(), a2aclient.ServiceParams{"A2A-Extensions": {slipa2a.URI}})
	for _, test := range []struct {
		name     string
		opts     slipa2a.Options
		ctx      context.Context
		line     string
		hash     string
		fails    error
		unmarked bool
	}{
		{name: "good", ctx: ctx, line: line, hash: ucr.CoreHash},
		{name: "other anchors", ctx: ctx, line: line, hash: "sha256:00", fails: sdk.ErrInvalidParams},
		{name: "other anchors, with fallback", opts: slipa2a.Options{Mismatch: slipa2a.Fallback}, ctx: ctx, line: line, hash: "sha256:00", unmarked: true},
		{name: "an index", ctx: ctx, line: "SLIP v1 planner reviewer 0x0032", hash: ucr.CoreHash, fails: sdk.ErrInvalidParams},
		{name: "required", opts: slipa2a.Options{Required: true}, ctx: ctx, line: line, hash: ucr.CoreHash},
		{name: "required, not opted in", opts: slipa2a.Options{Required: true}, ctx: t.Context(), line: line, hash: ucr.CoreHash, fails: sdk.ErrExtensionSupportRequired},
	} {
		t.Run(test.name, func(t *testing.T) {
			result, err := dialled(t, test.opts).SendMessage(test.ctx, marked(test.line, test.hash))
			if !errors.Is(err, test.fails) {
				t.Fatalf("%+v, %v, want %v", result, err, test.fails)
			}
			if err != nil {
				return
			}
			answer, ok := result.(*sdk.Message)
			if !ok || answer.Parts[0].Text() != test.line || (len(answer.Extensions) == 0) != test.unmarked {
				t.Errorf("%+v", result)
			}
		})
	}
}

func TestExtendedCardOfTheSDKDeclares(t *testing.T) {
	card, err := dialled(t, slipa2a.Options{}).GetExtendedAgentCard(t.Context(), &sdk.GetExtendedAgentCardRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if e := card.Capabilities.Extensions; len(e) != 1 || e[0].URI != slipa2a.URI || e[0].Params["ucrHash"] != ucr.CoreHash {
		t.Errorf("%+v", e)
	}
}
