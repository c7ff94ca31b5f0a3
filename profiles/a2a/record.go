package a2a

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// The records of a task, in the order in which they are written:
//
//	request    the request of the initiator. Created once, by the first Task of
//	           its task_id. That of a denied Task has a digest and no input (denied.go)
//	standing   the progress. Created or changed before the task starts, removed
//	           after its end: a restart reads these records
//	events     the Events, as the payloads that are sent, each followed by the data that it keeps
//	ending     the end of the task. Created once, so that there is one Result
//
// All of them expire at the same moment, Retention after the latest possible end. A crash
// between two steps leaves a task that is unknown, not started, started or ended.
//
// The encoding is that of protobuf messages without a schema; field numbers are never reused.
const (
	spaceRequest  = "a2a.request"
	spaceStanding = "a2a.standing"
	spaceEvents   = "a2a.events"
	spaceEnding   = "a2a.ending"
)

// keyOf is the key of a request: a fixed-length hash of its owner, then the task_id.
func keyOf(owner string, id []byte) string {
	sum := sha256.Sum256([]byte(owner))
	return string(sum[:]) + string(id)
}

// nonceSize is the length of the nonce that distinguishes two lives of a task_id. Key and
// nonce together identify all records except the request, so a task_id that is used again
// after it was forgotten finds no records of its former life.
const nonceSize = 8

func newNonce() string {
	b := make([]byte, nonceSize)
	_, _ = rand.Read(b) // never fails
	return string(b)
}

// splitRun returns the key of the request of a run.
func splitRun(run string) (key string, ok bool) {
	n := len(run) - nonceSize
	if n < 0 {
		return "", false
	}
	return run[:n], true
}

// spec is the request of an initiator, without the input.
type spec struct {
	Owner    string // identity of the initiator
	ID       []byte
	Kind     string
	Params   []string
	Agent    string // the requested agent_id, or empty
	Hops     uint64
	Nonce    string
	Created  time.Time // in milliseconds, as all times here
	Deadline time.Time
	Expires  time.Time
	Trace    profiles.Trace
	Hints    []profiles.Hint
	Chain    string // of credentials, or empty
	Keeps    profiles.EndToEnd
	Given    bool // the owner was a partner, or a caller of one
}

// key returns the key of the request in the store.
func (p *spec) key() string { return keyOf(p.Owner, p.ID) }

// run returns the key of all other records of the task.
func (p *spec) run() string { return p.key() + p.Nonce }

// job returns the task for a Worker.
func (p *spec) job(input []byte) *Task {
	return &Task{ID: p.ID, Kind: p.Kind, Input: input, Peer: p.Owner, Params: p.Params, Deadline: p.Deadline, Hops: p.Hops}
}

// remaining returns the time to the deadline. A wall clock that was set back does not
// extend it beyond the requested time.
func (p *spec) remaining(now time.Time) time.Duration {
	return min(max(0, p.Deadline.Sub(now)), p.Deadline.Sub(p.Created))
}

// event returns the payload of an Event of this task.
func (p *spec) event(message string, payload []byte) []byte {
	m := EventBody{TaskID: p.ID, Message: []byte(message), Payload: payload}
	return m.Append(make([]byte, 0, m.Size()))
}

// appendKeeps appends what an Event keeps to its payload, as fields that no payload has.
func appendKeeps(payload []byte, keeps profiles.EndToEnd) []byte {
	payload = p1.AppendUint(payload, 5, keeps.Flags)
	return p1.AppendBytes(payload, 6, keeps.Extensions)
}

// cutKeeps returns the payload of a stored Event, and the data that the Event keeps.
func cutKeeps(stored []byte) (payload []byte, keeps profiles.EndToEnd, err error) {
	var event, none []byte
	if err := p1.Scan(stored, &none, &none, &event, &none, &keeps.Flags, &keeps.Extensions); err != nil {
		return nil, keeps, damaged("event", err)
	}
	n := p1.SizeHeader(TypeEvent, len(event))
	return stored[:n:n], keeps, nil
}

// request is the stored request of an initiator.
type request struct {
	spec
	Input  []byte
	Denied []byte // digest of a denied Task, in place of its input; nil otherwise
}

// sum returns the digest of the Task.
func (r *request) sum() digest {
	if r.Denied != nil {
		return digest(r.Denied)
	}
	return sumTask(r.Kind, r.Input)
}

func (r *request) encode() []byte {
	dst := make([]byte, 0, len(r.Input)+512)
	dst = p1.AppendBytes(dst, 1, r.Owner)
	dst = p1.AppendBytes(dst, 2, r.ID)
	dst = p1.AppendBytes(dst, 3, r.Kind)
	dst = p1.AppendBytes(dst, 4, r.Input)
	for _, param := range r.Params {
		dst = p1.AppendBytes(dst, 5, param)
	}
	dst = p1.AppendBytes(dst, 6, r.Agent)
	dst = p1.AppendUint(dst, 7, r.Hops)
	dst = p1.AppendBytes(dst, 8, r.Nonce)
	dst = p1.AppendUint(dst, 9, uint64(r.Created.UnixMilli()))
	dst = p1.AppendUint(dst, 10, uint64(r.Deadline.UnixMilli()))
	dst = p1.AppendUint(dst, 11, uint64(r.Expires.UnixMilli()))
	dst = p1.AppendBytes(dst, 12, r.Trace.Parent)
	dst = p1.AppendBytes(dst, 13, r.Trace.State)
	for i := range r.Hints {
		dst = appendHint(dst, 14, &r.Hints[i])
	}
	dst = p1.AppendBytes(dst, 15, r.Chain)
	dst = p1.AppendUint(dst, 16, r.Keeps.Flags)
	dst = p1.AppendBytes(dst, 17, r.Keeps.Extensions)
	dst = p1.AppendBytes(dst, 18, r.Denied)
	return p1.AppendBool(dst, 19, r.Given)
}

// decodeRequest reads a request from value, which it aliases.
func decodeRequest(value []byte) (*request, error) {
	r := new(request)
	var created, deadline, expires int64
	if err := p1.Scan(value, &r.Owner, &r.ID, &r.Kind, &r.Input, &r.Params, &r.Agent, &r.Hops, &r.Nonce,
		&created, &deadline, &expires, &r.Trace.Parent, &r.Trace.State, r.addHint, &r.Chain, &r.Keeps.Flags, &r.Keeps.Extensions, &r.Denied, &r.Given); err != nil {
		return nil, damaged("request", err)
	}
	r.Created, r.Deadline, r.Expires = time.UnixMilli(created), time.UnixMilli(deadline), time.UnixMilli(expires)
	if len(r.ID) == 0 || len(r.Nonce) != nonceSize {
		return nil, fmt.Errorf("a2a: stored request: task_id of %d octets, nonce of %d", len(r.ID), len(r.Nonce))
	}
	if r.Denied != nil && len(r.Denied) != len(digest{}) {
		return nil, fmt.Errorf("a2a: stored request: digest of %d octets", len(r.Denied))
	}
	return r, nil
}

// appendHint appends a hint as a message.
func appendHint(dst []byte, field uint64, h *profiles.Hint) []byte {
	n := p1.SizeBytes(1, h.Key) + p1.SizeBytes(2, h.Value) + p1.SizeUint(3, uint64(h.Mode)) + p1.SizeBytes(4, h.Scope)
	dst = p1.AppendHeader(dst, field, n)
	dst = p1.AppendBytes(dst, 1, h.Key)
	dst = p1.AppendBytes(dst, 2, h.Value)
	dst = p1.AppendUint(dst, 3, uint64(h.Mode))
	return p1.AppendBytes(dst, 4, h.Scope)
}

// addHint reads a stored hint.
func (p *spec) addHint(message []byte) error {
	var h profiles.Hint
	var mode uint64
	err := p1.Scan(message, &h.Key, &h.Value, &mode, &h.Scope)
	h.Mode = profiles.Mode(min(mode, uint64(profiles.Must)))
	p.Hints = append(p.Hints, h)
	return err
}

// damaged is the error for a stored value that cannot be read. It does not wrap the error
// of p1, which blames the peer.
func damaged(what string, err error) error {
	return errors.New("a2a: stored " + what + ": " + err.Error())
}

// phase is the progress of a task.
type phase uint64

const (
	phaseWaiting phase = iota // nothing has been done
	phaseLocal                // a Worker of this process may have begun
	phaseAgent                // the Task may have been sent to a session
)

// standing is the progress of an unfinished task.
type standing struct {
	Phase    phase
	Identity string // of its agent
	AgentID  string
	Instance string // the agent's process, as its Handshake named it
	Remote   []byte // task_id for the agent
}

func (st *standing) encode() []byte {
	dst := p1.AppendUint(nil, 1, uint64(st.Phase))
	dst = p1.AppendBytes(dst, 2, st.Identity)
	dst = p1.AppendBytes(dst, 3, st.AgentID)
	dst = p1.AppendBytes(dst, 4, st.Instance)
	return p1.AppendBytes(dst, 5, st.Remote)
}

func (st *standing) decode(value []byte) error {
	*st = standing{}
	if err := p1.Scan(value, (*uint64)(&st.Phase), &st.Identity, &st.AgentID, &st.Instance, &st.Remote); err != nil {
		return damaged("standing", err)
	}
	if st.Phase > phaseAgent {
		return fmt.Errorf("a2a: stored standing: phase %d", st.Phase)
	}
	return nil
}

// author says which party ended a task.
type author uint64

const (
	byUs        author = iota // a deadline, a refusal, a stop
	byExecutor                // a Worker or an agent
	byInitiator               // its own Result
)

// ending is the end of a task.
type ending struct {
	By        author
	Result    []byte            // the payload that is sent
	Initiator []byte            // digest of the initiator's Result, or empty
	Endpoint  []byte            // the endpoint that wrote the Result in place of the executor, if given
	Keeps     profiles.EndToEnd // of the Result of the executor

	uncharged bool // it does not count against the quota of its owner; this field is not stored
}

func (e *ending) encode() []byte {
	dst := make([]byte, 0, len(e.Result)+64)
	dst = p1.AppendUint(dst, 1, uint64(e.By))
	dst = p1.AppendBytes(dst, 2, e.Result)
	dst = p1.AppendBytes(dst, 3, e.Initiator)
	dst = p1.AppendBytes(dst, 4, e.Endpoint)
	dst = p1.AppendUint(dst, 5, e.Keeps.Flags)
	return p1.AppendBytes(dst, 6, e.Keeps.Extensions)
}

// decode reads e from value, which it aliases.
func (e *ending) decode(value []byte) error {
	*e = ending{}
	if err := p1.Scan(value, (*uint64)(&e.By), &e.Result, &e.Initiator, &e.Endpoint, &e.Keeps.Flags, &e.Keeps.Extensions); err != nil {
		return damaged("ending", err)
	}
	return nil
}
