package vectors

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Descriptor is the content of a .json file. The fields follow the public spec
// kit; those marked "ours" are extensions that the kit's own runner ignores.
//
// Specification: SWP conformance §2.1; docs/conformance.md for the extensions.
type Descriptor struct {
	VectorID    string   `json:"vector_id"` // the name of the file, and nothing else follows from it
	Group       string   `json:"group,omitempty"`
	Category    string   `json:"category"` // which profiles and rules apply
	Description string   `json:"description,omitempty"`
	Expected    Expected `json:"expected"`
}

// Expected says what has to come out, and holds what is played.
type Expected struct {
	Assertions      *Assertions `json:"assertions,omitempty"`
	Assert          *Envelope   `json:"assert,omitempty"` // synonym of assertions.envelope, from the draft
	Code            string      `json:"code,omitempty"`   // alias
	EvidenceType    string      `json:"evidence_type"`    // runtime or process
	Fixture         Fixture     `json:"fixture"`
	Outcome         string      `json:"outcome"` // accept, reject or process_check
	RejectionReason string      `json:"rejection_reason,omitempty"`
	ErrorCode       string      `json:"expected_error_code,omitempty"` // canonical
}

// Fixture names what is played. All names are of files beside the descriptor.
type Fixture struct {
	// BinFile holds the octets whose verdict is the verdict of the vector.
	// Without a transcript they are all that the peer sends; then it hangs up.
	BinFile string `json:"bin_file,omitempty"`

	EvidenceFile string `json:"evidence_file,omitempty"`

	// Transcript is what is played around BinFile, which exactly one of its
	// steps names. Ours.
	Transcript []Step `json:"transcript,omitempty"`

	// Siblings are related cases of the same requirement. Each is played on a new endpoint.
	// Extension of this project.
	Siblings []Sibling `json:"siblings,omitempty"`
}

// Assertions are the circumstances of the play, and for accepted frames what
// their envelope must say.
type Assertions struct {
	Envelope     *Envelope `json:"envelope,omitempty"`
	Limits       *Limits   `json:"limits,omitempty"`
	Policy       *Policy   `json:"policy,omitempty"`
	Clock        *Clock    `json:"clock,omitempty"`   // ours
	Channel      *Channel  `json:"channel,omitempty"` // ours
	Setup        string    `json:"setup,omitempty"`   // extension of this project: the surroundings of the endpoint, see Setups
	Artifact     string    `json:"artifact,omitempty"`
	States       string    `json:"artifact_states,omitempty"` // ours: a sentence that Artifact must contain
	Encoding     string    `json:"encoding,omitempty"`
	Binding      string    `json:"binding,omitempty"`
	Profile      string    `json:"profile,omitempty"`
	ProfileID    *uint64   `json:"profile_id,omitempty"`
	MsgType      *uint64   `json:"msg_type,omitempty"`
	Mapping      string    `json:"mapping,omitempty"`
	Scenario     string    `json:"scenario,omitempty"`
	SemanticCase string    `json:"semantic_case,omitempty"`
}

// Envelope is what a decoded envelope must say. Nil fields are not compared.
type Envelope struct {
	Version       *uint64 `json:"version,omitempty"`
	ProfileID     *uint64 `json:"profile_id,omitempty"`
	MsgType       *uint64 `json:"msg_type,omitempty"`
	PayloadLen    *int    `json:"payload_len,omitempty"`
	MinMsgIDBytes *int    `json:"min_msg_id_bytes,omitempty"`
	MinPayloadLen *int    `json:"min_payload_len,omitempty"` // ours, from the poc_ form
	Flags         *uint64 `json:"flags,omitempty"`           // ours
	TimestampMs   *uint64 `json:"ts_unix_ms,omitempty"`      // ours
	MsgID         *string `json:"msg_id,omitempty"`          // ours: hexadecimal
	PayloadHex    *string `json:"payload_hex,omitempty"`     // ours
}

// Limits override the default limits, in octets.
type Limits struct {
	MaxPayloadBytes int `json:"max_payload_bytes,omitempty"`
	MaxFrameBytes   int `json:"max_frame_bytes,omitempty"`
}

// Policy turns policies on. In some descriptors of the kit it is a mere label.
type Policy struct {
	Label string `json:"-"`

	TimestampRequired bool   `json:"timestamp_required,omitempty"`
	Freshness         string `json:"freshness,omitempty"` // ours, as all below: off, core or s1
	MaxClockSkewMs    int    `json:"max_clock_skew_ms,omitempty"`
	Rate              *Rate  `json:"rate,omitempty"`
	ReplayWindowMs    int    `json:"replay_window_ms,omitempty"`
	ErrorPath         bool   `json:"error_path,omitempty"`
}

// Rate is a fixed window in which so many frames are accepted.
type Rate struct {
	Frames   int `json:"frames"`
	WindowMs int `json:"window_ms"`
}

// Clock sets the clock of the endpoint. Without Clock the endpoint uses real time.
type Clock struct {
	NowUnixMs int64 `json:"now_unix_ms"`
}

// Channel asks for a real channel scenario and says what is wrong with it.
type Channel struct {
	// Transport is QUIC; empty means TLS over TCP.
	Transport string `json:"transport,omitempty"`

	// Endpoint is the side that the endpoint under test takes: "accept", the
	// default, or "dial".
	Endpoint string `json:"endpoint,omitempty"`

	// PeerCertificate is what the other side shows: "valid", the default,
	// "none", "untrusted", "expired" or "wrong_name".
	PeerCertificate string `json:"peer_certificate,omitempty"`

	// PeerMaxVersion is the highest TLS version of the other side: "1.3", the
	// default, or "1.2", which QUIC does not have.
	PeerMaxVersion string `json:"peer_max_version,omitempty"`

	// PeerProtocol is the protocol that the other side offers instead of that of SWP (ALPN).
	PeerProtocol string `json:"peer_protocol,omitempty"`

	// Plaintext is a TCP address on which the endpoint is asked to speak
	// without TLS. Nothing is sent there.
	Plaintext string `json:"plaintext,omitempty"`
}

// QUIC is a Channel.Transport.
const QUIC = "quic"

// Setups: the surroundings of the endpoint under test.
const (
	// Serve: the endpoint serves its profiles to the peers. The default.
	Serve = "serve"

	// Relay: messages from connection "a" are forwarded to connection "b", and answers back
	// to "a": messages of profile 1, and in category obs calls of profile 12 with their
	// trace context.
	Relay = "relay"

	// Partner: as Relay, for messages of profile 1, and connection "b" is the link to a
	// partner of the endpoint.
	Partner = "partner"

	// Signed: as Serve, but of A2A-SDL the endpoint takes what did:key:caller has
	// signed, by the Ed25519 key whose seed is the SHA-256 of "key of
	// did:key:caller", under the kid did:key:caller#1.
	Signed = "signed"

	// Gateway: JSON-RPC comes in on connection "json", in files that hold
	// nothing else, and leaves as profile 1 on connection "a".
	Gateway = "gateway"

	// GatewayFailing: as Gateway, but "a" leads to an endpoint of ours whose
	// MCP server fails.
	GatewayFailing = "gateway_to_failing_server"

	// GatewayWithoutMCP: as Gateway, but "a" leads to an endpoint of ours that
	// does not have profile 1.
	GatewayWithoutMCP = "gateway_to_endpoint_without_mcp"

	// Front: as Gateway, but a client of the HTTP front posts the JSON-RPC.
	Front = "front"
)

// JSONConn is the name of the connection on which a gateway is spoken to.
const JSONConn = "json"

// Directions of a Step.
const (
	In   = "in"   // the peer sends these octets
	Out  = "out"  // the endpoint must send one frame
	App  = "app"  // what runs behind the endpoint sends this
	Told = "told" // what runs behind the endpoint must have been told this
	Wait = "wait" // the endpoint waits for AtMs; then it is AtMs
)

// Step is one step of a transcript.
type Step struct {
	Why string `json:"why,omitempty"`
	Dir string `json:"dir"`

	// Conn names the connection, "a" where it is empty. Each is another identity,
	// but for those that are equal up to a dot.
	Conn string `json:"conn,omitempty"`

	// BinFile or Hex is what is sent, or for Out and Told the frame that the
	// endpoint's must equal in profile_id, msg_type, flags and payload, and in its
	// extensions if it has any.
	BinFile string `json:"bin_file,omitempty"`
	Hex     Hex    `json:"hex,omitzero"`

	// AtMs is when, on the endpoint's clock, counted from the start; where it is
	// 0, when the step before was.
	AtMs int `json:"at_ms,omitempty"`

	// End says that the peer sends nothing more after this step.
	End bool `json:"end,omitempty"`

	// Answers replaces the msg_id of the frame by that of the last frame of the endpoint on
	// this connection.
	Answers bool `json:"answers,omitempty"`

	// Gathers lets an Out step receive several frames, until their bodies have this many
	// fields. The comparison uses one frame with all these fields.
	Gathers int `json:"gathers,omitempty"`

	// Relates adds extension 18 of profile 1, which names that msg_id as the
	// request that a notification belongs to.
	Relates bool `json:"relates,omitempty"`

	// Continues replaces the page_token of a TOOLDISC_LIST_REQ by the
	// next_page_token of the last frame that the endpoint sent on this connection,
	// and the resume_token of an ART_GET by that of such an ART_CHUNK.
	Continues bool `json:"continues,omitempty"`

	// Flip inverts a bit of the protected record on its way.
	Flip bool `json:"flip,omitempty"`

	Expect *Expect `json:"expect,omitempty"`
}

// Hex are octets that stand in the descriptor, as lower-case hexadecimal digits. Nil
// stands for none; octets that are empty are not nil.
type Hex []byte

// MarshalText writes the digits.
func (h Hex) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h), nil }

// UnmarshalText reads digits, of either case.
func (h *Hex) UnmarshalText(text []byte) (err error) {
	*h, err = hex.AppendDecode(make([]byte, 0, len(text)/2), text)
	return err
}

// Sibling is a neighbouring case. It inherits the assertions of the vector but
// for those it gives itself.
type Sibling struct {
	Why        string   `json:"why"`
	BinFile    string   `json:"bin_file,omitempty"`
	Hex        Hex      `json:"hex,omitzero"` // in place of BinFile
	Transcript []Step   `json:"transcript,omitempty"`
	Limits     *Limits  `json:"limits,omitempty"`
	Policy     *Policy  `json:"policy,omitempty"`
	Clock      *Clock   `json:"clock,omitempty"`
	Channel    *Channel `json:"channel,omitempty"`
	Setup      string   `json:"setup,omitempty"`
	Expect     *Expect  `json:"expect,omitempty"` // of BinFile or Hex
}

// Expect is what a step must lead to. Absent fields are not compared.
type Expect struct {
	// Outcome is "accept", "reject" or, where the endpoint must not have
	// judged anything, "none".
	Outcome   string `json:"outcome,omitempty"`
	Code      string `json:"code,omitempty"`                // alias
	ErrorCode string `json:"expected_error_code,omitempty"` // canonical
	Detail    string `json:"detail,omitempty"`              // finer name, or a remark such as "unsolicited"

	// Frames is how many frames the octets hold, each with this outcome; 1
	// where it is absent.
	Frames int `json:"frames,omitempty"`

	Envelope *Envelope `json:"envelope,omitempty"`

	// LoggedFlags are the flags in the verdict, which logs and metrics read.
	LoggedFlags *uint64 `json:"logged_flags,omitempty"`

	// Handler is the profile_id of the handler that must be called.
	Handler *uint64 `json:"handler,omitempty"`

	// SameAs compares the message for the handler with that of an earlier step.
	SameAs *SameAs `json:"same_as,omitempty"`

	// Reencode: the envelope, encoded again, gives the same octets.
	Reencode bool `json:"reencode,omitempty"`

	// Close: the endpoint ended the connection, or did not.
	Close *bool `json:"close,omitempty"`

	// AllocBelow bounds what the process allocated for the step, in octets.
	AllocBelow int `json:"alloc_below,omitempty"`

	// SecurityEvent is the reason of the expected security event.
	SecurityEvent string `json:"security_event,omitempty"`

	// For frames that the endpoint sends.
	ProfileID *uint64 `json:"profile_id,omitempty"`
	MsgType   *uint64 `json:"msg_type,omitempty"`
	SameMsgID *bool   `json:"same_msg_id,omitempty"` // as the last frame the peer sent on this connection

	// FreshMsgID: no step of the transcript saw or sent a frame with this msg_id
	// before on this connection, or one did.
	FreshMsgID *bool `json:"fresh_msg_id,omitempty"`

	// Free are the fields of the body of a P1 payload, by number, whose content
	// may be another than in BinFile, such as text for people. They must be there
	// and not be empty.
	Free []uint64 `json:"free,omitempty"`

	// FreeMembers are the members of a document of A2A-SDL, by path with dots, whose
	// content may be another than in BinFile. Those that BinFile has must be there.
	// The document is compared by its values, in the same form.
	FreeMembers []string `json:"free_members,omitempty"`

	// For JSON-RPC that the endpoint sends.
	JSONErrorCode *int   `json:"json_error_code,omitempty"`
	JSONID        string `json:"json_id,omitempty"` // the raw token
}

// SameAs names an earlier step, from 1, and the fields that may differ.
type SameAs struct {
	Step   int      `json:"step"`
	Except []string `json:"except,omitempty"`
}

// PoC is the descriptor form of the poc_ vectors.
type PoC struct {
	Name   string    `json:"name"`
	Bin    string    `json:"bin"`
	Expect PoCExpect `json:"expect"`
}

// PoCExpect is what a poc_ vector expects. Nil fields are not compared.
type PoCExpect struct {
	OK            bool    `json:"ok"`
	Code          string  `json:"code"` // alias
	Version       *uint64 `json:"version,omitempty"`
	ProfileID     *uint64 `json:"profile_id,omitempty"`
	MsgType       *uint64 `json:"msg_type,omitempty"`
	MinPayloadLen *int    `json:"min_payload_len,omitempty"`
}

// UnmarshalJSON accepts the object, or the label of some kit descriptors.
func (p *Policy) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &p.Label)
	}
	type plain Policy
	return decodeStrictly(b, (*plain)(p))
}

// MarshalJSON writes the label where there is one.
func (p Policy) MarshalJSON() ([]byte, error) {
	if p.Label != "" {
		return json.Marshal(p.Label)
	}
	type plain Policy
	return json.Marshal(plain(p))
}

// Parse reads a descriptor. Keys that it does not know, keys that are there
// twice and anything after the object are errors: an expectation that is not
// understood must not pass for one that was met.
func Parse(b []byte) (*Descriptor, error) {
	var d Descriptor
	if err := parse(b, &d); err != nil {
		return nil, err
	}
	return &d, nil
}

// ParsePoC reads a descriptor in the poc_ form, as strictly.
func ParsePoC(b []byte) (*PoC, error) {
	var p PoC
	if err := parse(b, &p); err != nil {
		return nil, err
	}
	return &p, nil
}

func parse(b []byte, into any) error {
	if err := checkKeys(json.NewDecoder(bytes.NewReader(b))); err != nil {
		return fmt.Errorf("vectors: %w", err)
	}
	if err := decodeStrictly(b, into); err != nil {
		return fmt.Errorf("vectors: %w", err)
	}
	return nil
}

func decodeStrictly(b []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the descriptor")
	}
	return nil
}

// checkKeys walks one value and refuses an object with the same key twice.
func checkKeys(d *json.Decoder) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	open, ok := t.(json.Delim)
	if !ok {
		return nil
	}
	seen := make(map[string]bool)
	for d.More() {
		if open == '{' {
			key, err := d.Token()
			if err != nil {
				return err
			}
			name, _ := key.(string)
			if name != strings.ToLower(name) {
				// encoding/json would take it for the lower case one.
				return fmt.Errorf("unknown key %q", name)
			}
			if seen[name] {
				return fmt.Errorf("key %q is there twice", name)
			}
			seen[name] = true
		}
		if err := checkKeys(d); err != nil {
			return err
		}
	}
	_, err = d.Token() // the closing delimiter
	return err
}
