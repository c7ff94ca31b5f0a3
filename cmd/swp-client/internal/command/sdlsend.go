package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/profiles/all"
	carriage "github.com/slimwire/swp/profiles/sdl"
	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/serve"
)

// sdlSend are the flags of send beside those that secure an envelope.
type sdlSend struct {
	*sealing
	from, to, ct, tool string
	envelope, follow   bool
	negotiate          bool
	trusting           *trusting
	ways               *sdlWays
	patience           time.Duration
}

func newSDLSend(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "send ADDR[/PARTNER]|URL PAYLOAD|@FILE|-",
		Short: "Send a request and print the payload of the answer",
		Long: `Make an envelope for a payload, secure it as the flags require, send it, and print the
payload of the answer, or with --json its whole envelope. An invalid envelope is not
sent. The answer must be valid, from the agent that was asked, about this request (its
trace.parent_span_id), and with --trust signed with one of those keys.

With --tool the payload has the arguments of a tool; with --envelope it is a whole
envelope, which may be sealed. With --follow the states of a task are printed as they
arrive, each once, until the last one; with --trust only those that one of the keys has
signed. After a lost connection the request is sent again with the same id, which makes it
the same task, and the relay is read, topic sdl/AGENT, if a rule allows it. An envelope
with a nonce cannot be sent again: then its states come from the relay only.

An endpoint that has a key of this agent encrypts the answer to an encrypted request and
the states of its task; --keys opens them. With sdl.mode enc+sig an endpoint without such a
key refuses the request.

With --negotiate a request whose content type the receiver does not serve (UNSUPPORTED_CT) is
sent again, once: its payload in the highest lower version of the type that the receiver serves,
or else a negotiation.v1 about it. A request that is signed or encrypted is never sent so,
because the refusal could come from anybody.

With ADDR/PARTNER the envelope goes to that partner of the endpoint, octet for octet.

` + sdlWaysHelp + `
With --follow http:// is a WebSocket, because a POST brings no states. There stored events of other
tasks of the agent are taken, too, and not printed.

Exit status: 1 if the answer is an error, or a tool or a task has failed.`,
		Example: `  swp-client sdl send swp+tls://127.0.0.1:7777 '{"path":"/srv/a.txt"}' --tool files/read --from did:key:caller --to did:web:example.org
  swp-client sdl send swp+tls://127.0.0.1:7777 @task.json --ct task.v1 --from did:key:caller --to did:web:example.org --follow \
    --sign caller/sign.key --encrypt @server/box.pub --trust @server/sign.pub --keys caller/keys.json
  swp-client sdl send swp+tls://127.0.0.1:7777/acme '{}' --tool sys.ping --from did:key:caller --to did:web:acme.example
  swp-client sdl send http://127.0.0.1:8080 '{}' --tool sys.ping --from did:key:caller --to did:web:example.org
  swp-client sdl send wss://example.org @task.json --ct task.v1 --from did:key:caller --to did:web:example.org --follow --token @token.txt
  swp-client sdl send unix:/run/swpd/sdl.sock '{}' --tool sys.ping --from did:key:caller --to did:web:example.org
  swp-client sdl seal @request.json --sign caller/sign.key | swp-client sdl send swp+quic://127.0.0.1:7777 - --envelope`,
	}
	s := &sdlSend{sealing: addSealing(cmd)}
	p := cmd.Flags()
	p.StringVar(&s.from, "from", "", "`agent_id` of the sender")
	p.StringVar(&s.to, "to", "", "`agent_id` of the receiver")
	p.StringVar(&s.ct, "ct", "", "`content type` of the payload, such as task.v1")
	p.StringVar(&s.tool, "tool", "", "`name` of a tool that is called with the payload as arguments")
	p.BoolVar(&s.envelope, "envelope", false, "the payload is a whole envelope")
	p.BoolVar(&s.follow, "follow", false, "wait for the states of a task")
	p.BoolVar(&s.negotiate, "negotiate", false, "if the content type is not served, send its highest lower version, or ask what is served")
	p.DurationVar(&s.patience, "patience", 0, "with --follow: how long the endpoint may be unreachable; 0 = no limit")
	s.trusting, s.ways = addTrusting(cmd, "answer"), addSDLWays(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case s.patience < 0:
			return &usageError{"--patience is at least 0"}
		case s.patience > 0 && !s.follow:
			return &usageError{"--patience is for --follow, which is missing"}
		case s.negotiate && s.follow:
			return &usageError{"--negotiate does not go with --follow: what is sent instead may be no task"}
		}
		v, err := s.request(f, args[1])
		if err != nil {
			return err
		}
		how, err := s.read(f)
		if err != nil {
			return err
		}
		trust, err := s.trusting.read(f)
		if err != nil {
			return err
		}
		if s.follow {
			return s.follows(cmd.Context(), f, args[0], v, how, trust)
		}
		if v, err = how.Seal(v); err != nil {
			return err
		}
		return s.send(cmd.Context(), f, args[0], v, trust)
	}
	return cmd
}

// request returns the envelope, not secured yet.
func (s *sdlSend) request(f *flags, arg string) (canonical.Value, error) {
	if s.envelope {
		if s.from != "" || s.to != "" || s.ct != "" || s.tool != "" {
			return canonical.Value{}, &usageError{"--from, --to, --ct and --tool make an envelope; with --envelope there is one already"}
		}
		return f.readEnvelope(arg)
	}
	if s.from == "" || s.to == "" {
		return canonical.Value{}, &usageError{"--from and --to are missing: name the agents, or send a whole envelope with --envelope"}
	}
	octets, err := f.readInput(arg)
	if err != nil {
		return canonical.Value{}, err
	}
	payload, err := canonical.ParseJSON(octets)
	if err != nil {
		return payload, &usageError{err.Error()}
	}
	member := func(name string, v canonical.Value) canonical.Member { return canonical.Member{Name: name, Value: v} }
	switch {
	case s.tool != "" && s.ct != "":
		return payload, &usageError{"--tool is a content type of its own; remove --ct"}
	case s.tool != "":
		s.ct = sdl.CTToolCall
		payload = canonical.Object(
			member("tool", canonical.String(s.tool)), member("call_id", canonical.String(sdl.NewID())),
			member("args", payload), member("expect", canonical.Object()),
		)
	case !sdl.IsContentType(s.ct):
		return payload, &usageError{fmt.Sprintf("--ct %.40q: want one of %s", s.ct, strings.Join(sdl.ContentTypes(), ", "))}
	}
	who := func(agentID string) sdl.Identity {
		return sdl.Identity{AgentID: agentID, Name: agentID, Instance: "swp-client", Role: "agent"}
	}
	trace := canonical.Object(
		member("root_id", canonical.String(sdl.NewID())), member("span_id", canonical.String(sdl.NewID())), member("hops", canonical.Int(0)),
	)
	return sdl.New(sdl.TypeReq, s.ct, who(s.from), who(s.to), payload, sdl.Writing{}).With("trace", trace), nil
}

func (s *sdlSend) send(ctx context.Context, f *flags, address string, v canonical.Value, trust client.SDLTrust) error {
	return s.sendOnce(ctx, f, address, v, trust, func(*sdl.Envelope) {})
}

// sendOnce sends a request and prints its answer. answered is called with each answer that is no
// error.
func (s *sdlSend) sendOnce(ctx context.Context, f *flags, address string, v canonical.Value, trust client.SDLTrust, answered func(*sdl.Envelope)) error {
	set, err := client.NewSDL(client.SDLOptions{Stopped: f.stopped})
	if err != nil {
		return err
	}
	defer set.Close()
	c, err := s.ways.dial(ctx, f, address, set, false)
	if err != nil {
		return err
	}
	defer c.Close()
	asking, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	answer, err := c.AskSDL(asking, s.encoding(), v, trust)
	if s.negotiate && err != nil && answer != nil {
		if again, down := serve.Downgrade(v, answer.Value, sdl.Writing{}); down == nil {
			ct, _ := again.Get("ct").Text()
			f.warnf("%v; sent as %s", err, ct)
			answer, err = c.AskSDL(asking, s.encoding(), again, trust)
		} else if errors.Is(down, serve.ErrSecured) || errors.Is(down, serve.ErrNoDowngrade) {
			err = errors.Join(err, down)
		}
	}
	if err == nil {
		answered(answer)
	}
	if answer != nil {
		if shown := f.printAnswer(answer); shown != nil {
			return shown
		}
	}
	return sdlAdvice(err)
}

// follows sends a request and prints what becomes of its task.
func (s *sdlSend) follows(ctx context.Context, f *flags, address string, v canonical.Value, how client.Sealing, trust client.SDLTrust) error {
	o := client.SDLFollower{
		Connect: func(ctx context.Context, set *all.Set) (*client.Client, error) {
			return s.ways.dial(ctx, f, address, set, true)
		},
		Profile: client.SDLOptions{Stopped: f.stopped},
		Request: v, Form: s.encoding(), Trust: trust, Silence: f.timeout, Patience: s.patience,
		Answered: f.printAnswer,
		State:    f.printEnvelope,
		Ignored:  func(err error) { f.warnf("a state of the task is not believed: %v", err) },
		Lost: func(err error, pause time.Duration) {
			f.warnf("%s; again in %v", lost(err), pause.Round(time.Millisecond))
		},
	}
	if s.nonce == "" && v.Get("sec").Get("replay").IsNull() {
		o.Seal = func(v canonical.Value) (canonical.Value, error) {
			how := s.anew(how)
			return how.Seal(v)
		}
	} else {
		var err error
		if o.Request, err = how.Seal(v); err != nil {
			return err
		}
	}
	return sdlAdvice(o.Follow(ctx))
}

// printAnswer prints an answer, and returns whether a tool has failed. Of errors it prints
// the envelope only.
func (f *flags) printAnswer(answer *sdl.Envelope) error {
	if f.asJSON {
		if err := f.writeEnvelope(sdl.JSON, answer.Value); err != nil {
			return err
		}
	}
	if answer.CT == sdl.CTError {
		return nil
	}
	if !f.asJSON {
		f.printf("%s\n", answer.Payload.AppendJSON(nil))
	}
	if ok, said := answer.Payload.Get("ok").Bool(); answer.CT == sdl.CTToolResult && said && !ok {
		return errors.New("the tool has failed")
	}
	return nil
}

// sdlAdvice says more about what endpoints refuse.
func sdlAdvice(err error) error {
	refused := (*client.SDLError)(nil)
	if !errors.As(err, &refused) || refused.Code != string(sdl.SecurityUnsupported) {
		return err
	}
	switch reason, _ := refused.Details.Get("reason").Text(); reason {
	case "":
		return advise(err, "The agent_id has to be one that this identity may use, the key one that the receiver trusts, and --to the agent of that endpoint.")
	case carriage.DetailNotServed:
		return advise(err, "Its operator has to set sdl.agent_id, sdl.keys and, for tools, sdl.tools.allow in the configuration of swpd. An endpoint that only\npasses envelopes on needs none of these: give the address of the partner (ADDR/PARTNER), or have sdl.routes name it.")
	case sdl.ReasonNoAnswerKey:
		return advise(err, "Its operator has to add the public key of this agent (box.pub of sdl keygen) to encrypt_public_keys in the file of sdl.keys:\nswp-client sdl keygen --recipient @box.pub makes such a file.")
	}
	return err // the reason says it
}
