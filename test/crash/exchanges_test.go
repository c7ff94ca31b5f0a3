package crash

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"slices"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/transport/endpoint"
)

// Of a client that notes its exchanges. Text of an answer is its digest, Topic the type of the
// request.
const (
	didOpen   = "open"     // is about to send a request with the digest Payload
	wasClosed = "answered" // a request with the digest Payload
)

// aPart is the Kind of a request that has no record if it succeeds.
const aPart = "part"

// exchangesIn is where the clients of a rig in a directory note their exchanges.
func exchangesIn(rig string) string { return filepath.Join(rig, "exchanges") }

// exchanges notes what a client opens, if it is to have a record at the other end: before the
// request is sent, and before anything follows from the answer. Its digests are those of the
// trail. It is the endpoint.CallRecorder of the client.
type exchanges struct{ j *journal }

// unrecorded are the methods whose calls have no record.
var unrecorded = []string{rpc.MethodPing, rpc.MethodEcho, rpc.MethodSync, rpc.MethodInfo, rpc.MethodReceipt}

// Records implements endpoint.CallRecorder.
func (x *exchanges) Records(_ *endpoint.Session, env *e1.Envelope) bool {
	payload := slices.Concat(env.Payload, env.Tail)
	sum := sha256.Sum256(payload)
	e := entry{What: didOpen, Payload: hex.EncodeToString(sum[:])}
	switch {
	case env.ProfileID == rpc.ProfileID && env.MsgType == rpc.TypeReq:
		var call rpc.Req
		if call.Decode(payload) == nil && slices.Contains(unrecorded, string(call.Method)) {
			return false
		}
	case env.ProfileID == artifact.ProfileID && env.MsgType == artifact.TypeChunk:
		var chunk artifact.Chunk
		if chunk.Decode(payload) == nil && !chunk.IsTerminal {
			e.Kind = aPart
		}
	}
	x.j.note(e)
	return true
}

// RecordCall implements endpoint.CallRecorder.
func (x *exchanges) RecordCall(r endpoint.CallReport) {
	if r.Complete {
		x.j.note(entry{
			What: wasClosed, Topic: r.Profile + " " + r.Type,
			Payload: hex.EncodeToString(r.Request[:]), Text: hex.EncodeToString(r.Answer[:]),
		})
	}
}

// What the other end opens has its record there.

// Keeps implements endpoint.Recorder.
func (*exchanges) Keeps(*e1.Envelope) bool { return false }

// Admit implements endpoint.Recorder.
func (*exchanges) Admit() error { return nil }

// Begin implements endpoint.Recorder.
func (*exchanges) Begin(endpoint.Report) uint64 { return 0 }

// Record implements endpoint.Recorder.
func (*exchanges) Record(endpoint.Report) uint64 { return 0 }

// Commit implements endpoint.Recorder.
func (*exchanges) Commit() {}
