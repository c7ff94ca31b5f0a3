package artifact

import (
	"errors"
	"fmt"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
	"github.com/slimwire/swp/store"
)

// Codes of ART_ERR. Other refusals have the alias of the canonical code, such as
// INVALID_PROFILE_PAYLOAD.
const (
	CodeNotFound     = "NOT_FOUND"            // no such artifact, or no such offer, for this peer
	CodeInvalidRange = "INVALID_RANGE"        // the range begins beyond the artifact, or after its own end
	CodeInvalidToken = "INVALID_RESUME_TOKEN" // not issued by this endpoint for the present artifact

	CodeUnsupportedHash = "UNSUPPORTED_HASH"   // hash_alg is not sha256
	CodeConflict        = "OFFER_CONFLICT"     // another upload of this artifact_id is in progress
	CodeTooLarge        = "TOO_LARGE"          // total_size, or metadata, is above the limit of this endpoint
	CodeQuota           = "QUOTA_EXCEEDED"     // there is no room now
	CodeOrdering        = "ORDERING"           // chunk_index is not the next one
	CodeInvalidOffset   = "INVALID_OFFSET"     // offset is not where the last chunk ended
	CodeSizeMismatch    = "SIZE_MISMATCH"      // more, or at the end fewer, octets than were offered
	CodeIntegrity       = "INTEGRITY_MISMATCH" // the octets do not match the hash; they are discarded
	CodeBusy            = "BUSY"               // offer it again in a moment
	CodeChanged         = "CHANGED"            // the artifact was replaced or removed while it was sent
)

// The details of the errors of this profile.
const (
	DetailOrdering = "artifact_ordering"
	DetailOffset   = "artifact_offset"
	DetailSize     = "artifact_size"
	DetailHash     = "artifact_integrity"
	DetailConflict = "artifact_conflict"
	DetailRange    = "artifact_range"
	DetailToken    = "artifact_token"
	DetailUnknown  = "artifact_unknown"
	DetailBusy     = "artifact_busy"
	DetailWindow   = "artifact_window"
	DetailChanged  = "artifact_changed"
	DetailStore    = "artifact_no_store"
)

// refuse returns a refusal of InvalidProfilePayload with a code of the profile.
func refuse(code, format string, args ...any) *profiles.Error {
	text := "artifact: " + fmt.Sprintf(format, args...)
	return &profiles.Error{Code: profiles.InvalidProfilePayload, Text: text, Answer: refusals.Answer(code, text, false)}
}

// with returns a copy of a refusal with a detail.
func with(detail string, fault *profiles.Error) *profiles.Error {
	fault.Detail = detail
	return fault
}

// domain marks an ordinary answer of the profile.
func domain(fault *profiles.Error) *profiles.Error {
	fault.Domain = true
	return fault
}

// errUnknown refuses absent artifacts, and those that the peer may not see.
var errUnknown = &profiles.Error{Code: profiles.NotFound, Detail: DetailUnknown, Text: "artifact: not found", Domain: true}

// errHidden is errUnknown for artifacts that the peer may not see. The peer cannot
// distinguish them.
var errHidden = profiles.Deny(errUnknown)

// errDenied refuses an offer that the rules do not allow.
var errDenied = &profiles.Error{Code: profiles.SecurityPolicy, Text: "artifact: not allowed to offer this artifact", Denied: true}

// errStore refuses offers if there is no store.
var errStore = &profiles.Error{Code: profiles.NotFound, Detail: DetailStore, Text: "artifact: this endpoint keeps no artifacts"}

// later is a retryable refusal.
func later(code, detail, text string) *profiles.Error {
	return &profiles.Error{
		Code: profiles.RateLimitExceeded, Detail: detail, Text: "artifact: " + text, Pace: true, Retryable: true,
		Answer: refusals.Answer(code, "artifact: "+text, true),
	}
}

var (
	errSealing   = later(CodeBusy, DetailBusy, "what was received is being written or verified; offer it again")
	errDownloads = later(profiles.RateLimitExceeded.Alias(), DetailBusy, "too many artifacts are being sent")
	errWindow    = later(profiles.RateLimitExceeded.Alias(), DetailWindow, "too many chunks wait for their ART_ACK")
	errEnding    = later(profiles.RateLimitExceeded.Alias(), DetailBusy, "this endpoint is shutting down")
	errReplaced  = later(CodeChanged, DetailChanged, "the artifact that this one replaces was removed; offer it again")
	errChanged   = later(CodeChanged, DetailChanged, "the artifact was replaced or removed; get it again")
)

// unavailable is the refusal for a failure of the store.
func unavailable(err error) *profiles.Error {
	fault := profiles.Unavailable(err)
	if errors.Is(err, store.ErrQuota) {
		fault.Text = "artifact: there is no room for this now"
		fault.Answer = refusals.Answer(CodeQuota, fault.Text, true)
	}
	return fault
}

// refusals are the ART_ERRs of this endpoint and of peers.
var refusals = p1.Refusals{
	Profile: Name, Type: TypeErr, Of: []uint64{TypeOffer, TypeGet, TypeChunk},
	New: func() (p1.ErrMessage, p1.ErrFields) {
		m := new(Err)
		return m, p1.ErrFields{Code: &m.Code, Message: &m.Message, Retryable: &m.Retryable}
	},
}

// ackAnswer builds the ART_ACK of a chunk.
func ackAnswer(id []byte, index uint64) e1.Envelope {
	m := Ack{ArtifactID: id, ChunkIndex: index}
	return e1.Envelope{MsgType: TypeAck, Payload: m.Append(make([]byte, 0, m.Size()))}
}

// heldAnswer builds the ART_ACK of an offer. mark is the number of stored chunks, held the
// number of stored octets.
func heldAnswer(id []byte, mark, held uint64) e1.Envelope {
	env := ackAnswer(id, mark-1)
	env.Extensions = e1.AppendExtensionUvarint(nil, ExtDurable, held)
	return env
}
