package a2a

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// Profile returns the profile for the registry of the endpoint.
func (s *Service) Profile() *profiles.Profile {
	return &profiles.Profile{
		ID:   ProfileID,
		Name: "a2a", Review: s.review, Reviews: true,
		Types: []profiles.Type{
			{ID: TypeHandshake, Name: "HANDSHAKE", Role: profiles.Initiating},
			{ID: TypeTask, Name: "TASK", Role: profiles.Initiating},
			{ID: TypeEvent, Name: "EVENT", Role: profiles.Initiating | profiles.Within},
			{ID: TypeResult, Name: "RESULT", Role: profiles.Initiating | profiles.Answer | profiles.Lone | profiles.Within},
		},
		Operations: []profiles.Operation{
			{Name: "handshake", On: "agent_id"},
			{Name: "task", On: "kind; for an agent here agent/kind, of a partner partner/agent/kind or partner/kind"},
			{Name: "extended_card", On: "agent whose card is fetched with credentials that are kept here"},
			{Name: "event", Free: true},
			{Name: "result", Free: true},
		},
		Extensions: []uint64{
			ExtAgent, ExtParam, ExtSequence, ExtResume, ExtFirstHeld,
			profiles.ExtHops, profiles.ExtDeadline, profiles.ExtChain,
		},
		Behind:    profiles.PassedOn,
		Show:      p1.Show(Messages),
		Handler:   s,
		Check:     check,
		Lifecycle: lifecycle,
		Scope:     profiles.ScopeTask,
		Act:       s.act,
		Refusal:   refusal,
	}
}

// check refuses an answer that is not well formed.
func check(env *e1.Envelope) error { return new(ResultBody).Decode(env.Payload) }

// lifecycle returns the task_id of a message.
func lifecycle(env *e1.Envelope) []byte {
	switch env.MsgType {
	case TypeTask:
		var m TaskBody
		_ = m.Decode(env.Payload) // a malformed payload is refused later
		return m.TaskID
	case TypeEvent:
		var m EventBody
		_ = m.Decode(env.Payload)
		return m.TaskID
	case TypeResult:
		var m ResultBody
		_ = m.Decode(env.Payload)
		return m.TaskID
	}
	return nil
}

// instanceParam is the prefix of the service parameter of a Handshake that identifies the
// process of the agent.
const instanceParam = "instance="

// hintsParam is the prefix of the service parameter of a Handshake in which an agent
// declares itself for the hints of others, see policyhint.ParseDeclaration.
const hintsParam = "hints="

// handshake returns the message of a Handshake.
func (s *Service) handshake(m *HandshakeBody) e1.Envelope {
	ext := e1.AppendExtension(nil, ExtParam, []byte(instanceParam+s.instance))
	if s.opts.Declares != "" {
		ext = e1.AppendExtension(ext, ExtParam, []byte(hintsParam+s.opts.Declares))
	}
	return e1.Envelope{ProfileID: ProfileID, MsgType: TypeHandshake, Extensions: ext, Payload: m.Append(make([]byte, 0, m.Size()))}
}

// resultOf returns the message of a Result.
func resultOf(m *ResultBody) e1.Envelope {
	return e1.Envelope{ProfileID: ProfileID, MsgType: TypeResult, Payload: m.Append(make([]byte, 0, m.Size()))}
}

// maxParams bounds the service parameters of a Task.
const maxParams = 256

// taskOptions are the extensions of a Task that this profile reads.
type taskOptions struct {
	agent    string
	params   []string
	hops     uint64
	resume   bool   // extension 20 is there
	after    uint64 // its value
	deadline uint64 // in milliseconds; 0 is none
}

func readTaskOptions(ext e1.Extensions) (o taskOptions, err error) {
	if agent, ok := ext.Lookup(ExtAgent); ok {
		if p1.Blank(agent) || len(agent) > MaxText || !utf8.Valid(agent) {
			return o, profiles.InvalidExtension(ExtAgent, "%d octets are no agent_id", len(agent))
		}
		o.agent = string(agent)
	}
	for typ, value := range ext.All() {
		if typ != ExtParam {
			continue
		}
		if bytes.IndexByte(value, '=') < 1 || !utf8.Valid(value) {
			return o, profiles.InvalidExtension(ExtParam, "%q, want name=value", value)
		}
		if len(o.params) == maxParams {
			return o, profiles.InvalidExtension(ExtParam, "more than %d parameters", maxParams)
		}
		o.params = append(o.params, string(value))
	}
	if o.hops, _, err = profiles.Uvarint(ext, profiles.ExtHops); err != nil {
		return o, err
	}
	if o.after, o.resume, err = profiles.Uvarint(ext, ExtResume); err != nil {
		return o, err
	}
	o.deadline, _, err = profiles.Uvarint(ext, profiles.ExtDeadline)
	return o, err
}

// taskExtensions returns the extensions of a Task that this endpoint sends.
func taskExtensions(agent string, params []string, hops uint64) e1.Extensions {
	var ext e1.Extensions
	if agent != "" {
		ext = e1.AppendExtension(ext, ExtAgent, []byte(agent))
	}
	for _, param := range params {
		ext = e1.AppendExtension(ext, ExtParam, []byte(param))
	}
	if hops > 0 {
		ext = e1.AppendExtensionUvarint(ext, profiles.ExtHops, hops)
	}
	return ext
}

// appendDeadline appends the time that is left, at least 1 ms, because 0 means no deadline.
func appendDeadline(ext e1.Extensions, left time.Duration) e1.Extensions {
	return e1.AppendExtensionUvarint(ext, profiles.ExtDeadline, uint64(max(1, left.Milliseconds())))
}

// position has the extensions of an Event or a Result.
type position struct {
	number    uint64 // of the Event; on a Result, of the last Event
	numbered  bool
	firstHeld uint64 // the first Event that the executor still has; 0 if not given
	endpoint  []byte // extension 53: the endpoint that wrote the Result; nil if there is none
	keeps     profiles.EndToEnd
}

func readPosition(env *e1.Envelope) (p position, err error) {
	ext := env.Extensions
	p.keeps = profiles.EndToEndOf(env)
	if p.number, p.numbered, err = profiles.Uvarint(ext, ExtSequence); err != nil {
		return p, err
	}
	p.endpoint, _ = ext.Lookup(profiles.ExtEndpoint)
	p.firstHeld, _, err = profiles.Uvarint(ext, ExtFirstHeld)
	return p, err
}

// digest is equal for equal messages.
type digest = [sha256.Size]byte

// sumTask returns the digest by which two Tasks of one task_id are compared.
func sumTask(kind string, input []byte) digest {
	h := sha256.New()
	fmt.Fprintf(h, "%d %s", len(kind), kind)
	h.Write(input)
	return digest(h.Sum(nil))
}

// sumResult returns the digest by which two Results of one task_id are compared.
func sumResult(m *ResultBody) digest {
	same := ResultBody{OK: m.OK, Output: m.Output, ErrorMessage: m.ErrorMessage}
	return sha256.Sum256(same.Append(make([]byte, 0, same.Size())))
}
