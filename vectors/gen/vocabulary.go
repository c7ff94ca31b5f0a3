package main

import (
	"strings"

	"github.com/slimwire/swp/vectors"
)

// vector is one entry of the catalogue: one requirement, one fault.
type vector struct {
	id         string
	about      string // the requirement in a sentence
	expect     verdict
	assertions vectors.Assertions

	bin        []byte // the octets whose verdict is the vector's
	transcript []step // around bin, which one step marks as main; nil: bin alone
	siblings   []sibling

	evidence bool // a process vector: evidence instead of octets
}

// verdict is the official part of an expectation.
type verdict struct {
	outcome, code, reason string
}

var accept = verdict{outcome: "accept", code: "OK"}

func reject(code, reason string) verdict {
	return verdict{outcome: "reject", code: code, reason: reason}
}

// step is one step of a transcript.
type step struct {
	vectors.Step
	octets []byte
	main   bool
}

// mainStep is the step that the vector is about. Its outcome is the vector's;
// expect holds what else is asked of it.
func mainStep(why string, expect ...vectors.Expect) step {
	return step{Step: vectors.Step{Why: why, Dir: vectors.In, Expect: only(expect)}, main: true}
}

// in is a step in which the peer sends octets.
func in(why string, octets []byte, v verdict, more ...vectors.Expect) step {
	return step{Step: vectors.Step{Why: why, Dir: vectors.In, Expect: v.with(more)}, octets: octets}
}

// out is a step in which the endpoint must send the frame in octets, or, where
// octets is nil, one that expect describes.
func out(why string, octets []byte, expect vectors.Expect) step {
	return step{Step: vectors.Step{Why: why, Dir: vectors.Out, Expect: &expect}, octets: octets}
}

// app is a step in which what runs behind the endpoint sends octets.
func app(why string, octets []byte) step {
	return step{Step: vectors.Step{Why: why, Dir: vectors.App}, octets: octets}
}

// learns is a step in which what runs behind the endpoint must have been told
// what the frame in octets says.
func learns(why string, octets []byte) step {
	return step{Step: vectors.Step{Why: why, Dir: vectors.Told}, octets: octets}
}

func (s step) at(ms int) step { s.AtMs = ms; return s }
func (s step) end() step      { s.End = true; return s }
func (s step) flip() step     { s.Flip = true; return s }
func (s step) answers() step  { s.Answers = true; return s }
func (s step) relates() step  { s.Relates = true; return s }

func (s step) continues() step { s.Continues = true; return s }

func (s step) gathers(n int) step { s.Gathers = n; return s }

func (s step) on(conn string) step { s.Conn = conn; return s }

// sibling is a related case that is played on a new endpoint.
type sibling struct {
	vectors.Sibling
	octets     []byte // nil: octets of the vector
	transcript []step
}

// like is a sibling that differs in its octets.
func like(why string, octets []byte, v verdict, more ...vectors.Expect) sibling {
	return sibling{Sibling: vectors.Sibling{Why: why, Expect: v.with(more)}, octets: octets}
}

// scene is a sibling with a transcript. It has no main step.
func scene(why string, steps ...step) sibling {
	return sibling{Sibling: vectors.Sibling{Why: why}, transcript: steps}
}

func (s sibling) clock(ms int64) sibling            { s.Clock = &vectors.Clock{NowUnixMs: ms}; return s }
func (s sibling) policy(p vectors.Policy) sibling   { s.Policy = &p; return s }
func (s sibling) channel(c vectors.Channel) sibling { s.Channel = &c; return s }
func (s sibling) setup(name string) sibling         { s.Setup = name; return s }

func (v verdict) with(more []vectors.Expect) *vectors.Expect {
	var e vectors.Expect
	if x := only(more); x != nil {
		e = *x
	}
	e.Outcome = v.outcome
	if v.outcome == "reject" {
		e.Code, e.ErrorCode = v.code, "ERR_"+v.code
	}
	return &e
}

func only(list []vectors.Expect) *vectors.Expect {
	if len(list) == 0 {
		return nil
	}
	return &list[0]
}

// namespace is what the id begins with.
func (v *vector) namespace() string {
	ns, _, _ := strings.Cut(v.id, "_")
	return ns
}

var groups = map[string]string{ //nolint:gosec // names of groups
	"core": "Core vectors",
	"e1":   "Encoding binding E1 vectors",
	"s1":   "Security binding S1 vectors",
	"mcp":  "MCP mapping vectors",

	"a2a":      "SWP-A2A vectors",
	"agdisc":   "SWP-AGDISC vectors",
	"tooldisc": "SWP-TOOLDISC vectors",
	"rpc":      "SWP-RPC vectors",
	"events":   "SWP-EVENTS vectors",
	"artifact": "SWP-ARTIFACT vectors",
	"cred":     "SWP-CRED vectors",
	"state":    "SWP-STATE vectors",

	"policyhint": "SWP-POLICYHINT vectors",
	"obs":        "SWP-OBS vectors",
	"relay":      "SWP-RELAY vectors",

	"sdl":  "A2A-SDL vectors, provisional",
	"slip": "SLIP vectors, provisional",
}

// profileIDs are the profiles whose vectors carry the labels of the kit for
// payloads of encoding P1.
var profileIDs = map[string]uint64{"a2a": a2a, "agdisc": agdisc, "tooldisc": tooldisc, "rpc": rpc, "events": events, "artifact": artifact, "cred": cred, "policyhint": policyhint, "state": state, "obs": obs, "relay": relay}
