package conformance

import (
	"errors"
	"fmt"
	"runtime/metrics"
	"slices"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/tooldisc"
	"github.com/slimwire/swp/transport/endpoint"
)

// options are the options of the endpoint under test.
func (s *stage) options(list []*profiles.Profile) (endpoint.Options, error) {
	reg, err := profiles.NewRegistry(list...)
	if err != nil {
		return endpoint.Options{}, err
	}
	p := &s.in.Policy
	o := endpoint.Options{
		Registry: reg, Observer: s, Tracer: s.tracer, Now: s.clock.now, ErrorFrames: p.ErrorPath,
		FrameLimit: s.in.Limits.MaxFrameBytes, Envelope: e1.Limits{MaxPayload: s.in.Limits.MaxPayloadBytes},
		Bounds: patientBounds(), ReplayWindow: ms(p.ReplayWindowMs),
		Freshness: endpoint.Freshness{Skew: ms(p.MaxClockSkewMs), Required: p.TimestampRequired},
	}
	if p.Rate != nil {
		o.Window = endpoint.Window{Frames: p.Rate.Frames, Period: ms(p.Rate.WindowMs)}
	}
	switch p.Freshness {
	case "", "off":
	case "core":
		o.Freshness.Owner = endpoint.FreshnessCore
	case "s1":
		o.Freshness.Owner = endpoint.FreshnessS1
	default:
		return o, fmt.Errorf("freshness is owned by %q", p.Freshness)
	}
	return o, nil
}

// never is longer than any play. Vectors do not test timeouts in real time, and a slow
// machine must not trigger them.
const never = 24 * time.Hour

// patientBounds are bounds of an endpoint without limits in real time.
func patientBounds() endpoint.Bounds {
	return endpoint.Bounds{Idle: never, LongIdle: never, Body: never, Write: never, Handler: never}
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// tokens names for each profile the field of the answer that has a continuation token, and
// the field of the request that takes it.
var tokens = map[uint64]struct{ answer, given, request, taken uint64 }{
	tooldisc.ProfileID: {tooldisc.TypeListResp, 2, tooldisc.TypeListReq, 2},
	artifact.ProfileID: {artifact.TypeChunk, 6, artifact.TypeGet, 4},
}

// continuing returns a request with the continuation token of the last answer.
func continuing(octets, page []byte) ([]byte, error) {
	last, err := decode(page)
	if err != nil {
		return nil, fmt.Errorf("there is no page to go on from: %w", err)
	}
	env, err := decode(octets)
	if err != nil {
		return nil, err
	}
	t, ok := tokens[env.ProfileID]
	if !ok {
		return nil, fmt.Errorf("nothing in profile %d goes on from anything", env.ProfileID)
	}
	of, err := fieldsOfBody(last.Payload, t.answer)
	if err != nil {
		return nil, err
	}
	token := slices.IndexFunc(of, func(f bodyField) bool { return f.number == t.given })
	if token < 0 {
		return nil, errors.New("the last answer has no token to go on with")
	}
	fields, err := fieldsOfBody(env.Payload, t.request)
	if err != nil {
		return nil, err
	}
	var body []byte
	for _, f := range fields {
		if f.number == t.taken {
			f.value = of[token].value
		}
		body = f.append(body)
	}
	env.Payload = append(e1.AppendUvarint(e1.AppendUvarint(nil, t.request<<3|2), uint64(len(body))), body...)
	return frame.Append(nil, env.Append(nil)), nil
}

// answering returns a frame with the msg_id of another one, or with an extension that
// refers to it.
func answering(octets, of []byte, relates bool) ([]byte, error) {
	env, err := decode(octets)
	if err != nil {
		return nil, fmt.Errorf("the answer: %w", err)
	}
	asked, err := decode(of)
	if err != nil {
		return nil, fmt.Errorf("there is nothing to answer: %w", err)
	}
	if relates {
		env.Extensions = e1.AppendExtension(env.Extensions, mcpmap.ExtRelated, asked.MsgID)
	} else {
		env.MsgID = asked.MsgID
	}
	return frame.Append(nil, env.Append(nil)), nil
}

// allocated is what the process has allocated since its start, in octets.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
