package conformance

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/vectors"
)

// result is the outcome of one step in the terms of a report.
type result struct{ outcome, code, errorCode string }

// resultOf reads the outcome of a step from its verdicts: the first that is not
// OK, or accept if there is one and all are.
func resultOf(s *Seen) result {
	if len(s.Verdicts) == 0 {
		return result{outcome: "none"}
	}
	for _, v := range s.Verdicts {
		if v.Code != profiles.OK.String() {
			return result{outcome: "reject", code: v.Alias, errorCode: v.Code}
		}
	}
	return result{outcome: "accept", code: profiles.OK.Alias()}
}

// compare holds what was seen in a play against what was expected of it and
// returns the first difference, or "".
func (sc *scene) compare(seen *Observation) string {
	if len(seen.Steps) != len(sc.expect) {
		return fmt.Sprintf("the target reported %d steps of %d", len(seen.Steps), len(sc.expect))
	}
	for i, x := range sc.expect {
		if x == nil {
			continue
		}
		if fault := sc.compareStep(i, x, seen); fault != "" {
			if len(sc.expect) > 1 {
				fault = fmt.Sprintf("step %d: %s", i+1, fault)
			}
			if why := sc.whys[i]; why != "" {
				fault += " (" + why + ")"
			}
			return fault
		}
	}
	switch {
	case !sc.allOuts:
	case len(seen.Extra) > 0:
		f := seen.Extra[0]
		return fmt.Sprintf("the endpoint sent %d frames more than it should, first on %q: %.64q", len(seen.Extra), f.Conn, f.Octets)
	case len(seen.Untold) > 0:
		return fmt.Sprintf("the application was told %d messages more than it should, first %.64q", len(seen.Untold), seen.Untold[0])
	case seen.Unanswered > 0:
		return fmt.Sprintf("the application was asked %d times more than it should", seen.Unanswered)
	}
	return ""
}

func (sc *scene) compareStep(i int, x *vectors.Expect, seen *Observation) string {
	s := &seen.Steps[i]
	switch sc.input.Steps[i].Dir {
	case vectors.In:
		return first(
			func() string { return compareOutcome(x, resultOf(s)) },
			func() string { return compareVerdicts(x, s) },
			func() string { return compareHandled(x, s) },
			func() string { return sc.compareTwin(x, s, seen) },
			func() string { return compareEffects(x, s) },
			func() string { return sc.compareReencoded(i, x, s) },
		)
	case vectors.Out:
		return first(
			func() string { return sc.compareFrame(i, x, s) },
			func() string { return sc.compareFresh(i, x, seen) },
			func() string { return compareEffects(x, s) },
		)
	case vectors.Told:
		return sc.compareFrame(i, x, s)
	}
	return ""
}

// first returns what the first check that finds a difference says.
func first(checks ...func() string) string {
	for _, check := range checks {
		if fault := check(); fault != "" {
			return fault
		}
	}
	return ""
}

// compareOutcome compares in the order of the specification: outcome, alias,
// canonical code.
func compareOutcome(x *vectors.Expect, r result) string {
	switch {
	case x.Outcome != r.outcome:
		return fmt.Sprintf("outcome mismatch: expected=%s observed=%s", x.Outcome, r.outcome)
	case x.Code != "" && x.Code != r.code:
		return fmt.Sprintf("code mismatch: expected=%s observed=%s", x.Code, r.code)
	case x.ErrorCode != "" && x.ErrorCode != r.errorCode:
		return fmt.Sprintf("canonical code mismatch: expected=%s observed=%s", x.ErrorCode, r.errorCode)
	}
	return ""
}

func compareVerdicts(x *vectors.Expect, s *Seen) string {
	want := max(1, x.Frames)
	if x.Outcome == "none" {
		want = 0
	}
	if len(s.Verdicts) != want {
		return fmt.Sprintf("%d frames were judged, want %d", len(s.Verdicts), want)
	}
	for _, v := range s.Verdicts {
		if x.Detail != "" && v.Detail != x.Detail {
			return fmt.Sprintf("detail mismatch: expected=%s observed=%s", x.Detail, v.Detail)
		}
		if x.LoggedFlags != nil && v.Flags != *x.LoggedFlags {
			return fmt.Sprintf("verdict shows flags %#x, want %#x", v.Flags, *x.LoggedFlags)
		}
	}
	return ""
}

// compareHandled compares what reached a handler. A frame that was rejected
// must not have reached one that does not judge payloads itself: such handlers
// are known by the Handled they leave.
func compareHandled(x *vectors.Expect, s *Seen) string {
	if x.Outcome != "accept" {
		if len(s.Handled) > 0 {
			return fmt.Sprintf("a handler was given what should have been refused: profile %d msg_type %d", s.Handled[0].ProfileID, s.Handled[0].MsgType)
		}
		return ""
	}
	for _, v := range s.Verdicts {
		if fault := compareVerdictEnvelope(x.Envelope, &v); fault != "" {
			return fault
		}
	}
	needs := x.Handler != nil || x.Reencode || x.SameAs != nil
	if len(s.Handled) == 0 && needs {
		return "no handler was called"
	}
	for i := range s.Handled {
		h := &s.Handled[i]
		if x.Handler != nil && h.Handler != *x.Handler {
			return fmt.Sprintf("handler of profile %d was called, want %d", h.Handler, *x.Handler)
		}
		if fault := compareEnvelope(x.Envelope, h); fault != "" {
			return fault
		}
	}
	if len(s.Handled) == 0 && onlyHandlerSees(x.Envelope) {
		return "no handler was given the envelope to compare"
	}
	return ""
}

// onlyHandlerSees says whether a field is asked for that verdicts do not have.
func onlyHandlerSees(want *vectors.Envelope) bool {
	return want != nil && (want.PayloadLen != nil || want.MinPayloadLen != nil || want.MinMsgIDBytes != nil ||
		want.TimestampMs != nil || want.MsgID != nil || want.PayloadHex != nil)
}

func compareVerdictEnvelope(want *vectors.Envelope, v *Verdict) string {
	if want == nil {
		return ""
	}
	return first(
		func() string { return equal("profile_id", want.ProfileID, v.ProfileID) },
		func() string { return equal("msg_type", want.MsgType, v.MsgType) },
		func() string { return equal("flags", want.Flags, v.Flags) },
	)
}

func compareEnvelope(want *vectors.Envelope, h *Handled) string {
	if want == nil {
		return ""
	}
	return first(
		func() string { return equal("version", want.Version, h.Version) },
		func() string { return equal("profile_id", want.ProfileID, h.ProfileID) },
		func() string { return equal("msg_type", want.MsgType, h.MsgType) },
		func() string { return equal("flags", want.Flags, h.Flags) },
		func() string { return equal("ts_unix_ms", want.TimestampMs, h.Timestamp) },
		func() string { return equal("payload_len", want.PayloadLen, len(h.Payload)) },
		func() string { return equal("msg_id", want.MsgID, hex.EncodeToString(h.MsgID)) },
		func() string { return equal("payload_hex", want.PayloadHex, hex.EncodeToString(h.Payload)) },
		func() string { return atLeast("msg_id", want.MinMsgIDBytes, len(h.MsgID)) },
		func() string { return atLeast("payload", want.MinPayloadLen, len(h.Payload)) },
	)
}

func equal[T comparable](name string, want *T, got T) string {
	if want == nil || *want == got {
		return ""
	}
	return fmt.Sprintf("%s mismatch: expected=%v observed=%v", name, *want, got)
}

func atLeast(name string, want *int, got int) string {
	if want == nil || got >= *want {
		return ""
	}
	return fmt.Sprintf("%s has %d octets, want at least %d", name, got, *want)
}

// compareTwin compares what the handler was given with an earlier step.
func (sc *scene) compareTwin(x *vectors.Expect, s *Seen, seen *Observation) string {
	if x.SameAs == nil {
		return ""
	}
	earlier := seen.Steps[x.SameAs.Step-1].Handled
	if len(earlier) != 1 || len(s.Handled) != 1 {
		return fmt.Sprintf("handlers were called %d and %d times, want once each", len(earlier), len(s.Handled))
	}
	a, b := fieldsOf(&earlier[0]), fieldsOf(&s.Handled[0])
	differ := false
	for _, name := range fieldNames {
		same := a[name] == b[name]
		switch allowed := slices.Contains(x.SameAs.Except, name); {
		case !same && !allowed:
			return fmt.Sprintf("%s differs from that of step %d: %q, then %q", name, x.SameAs.Step, a[name], b[name])
		case !same:
			differ = true
		}
	}
	if len(x.SameAs.Except) > 0 && !differ {
		return fmt.Sprintf("nothing differs from step %d: the pair shows nothing", x.SameAs.Step)
	}
	return ""
}

var fieldNames = []string{"handler", "version", "profile_id", "msg_type", "flags", "ts_unix_ms", "msg_id", "extensions", "payload"}

func fieldsOf(h *Handled) map[string]string {
	return map[string]string{
		"handler": fmt.Sprint(h.Handler), "version": fmt.Sprint(h.Version), "profile_id": fmt.Sprint(h.ProfileID),
		"msg_type": fmt.Sprint(h.MsgType), "flags": fmt.Sprint(h.Flags), "ts_unix_ms": fmt.Sprint(h.Timestamp),
		"msg_id": string(h.MsgID), "extensions": string(h.Extensions), "payload": string(h.Payload),
	}
}

func compareEffects(x *vectors.Expect, s *Seen) string {
	switch {
	case x.Close != nil && *x.Close && !s.Closed:
		return "the connection was kept, want it closed"
	case x.Close != nil && !*x.Close && s.Closed:
		return "the connection was closed, want it kept"
	case x.AllocBelow > 0 && s.Allocated >= uint64(x.AllocBelow):
		return fmt.Sprintf("%d octets were allocated, want below %d", s.Allocated, x.AllocBelow)
	case x.SecurityEvent != "" && !slices.Contains(s.Events, x.SecurityEvent):
		return fmt.Sprintf("security events %q, want %q among them", s.Events, x.SecurityEvent)
	}
	return ""
}

func (sc *scene) compareReencoded(i int, x *vectors.Expect, s *Seen) string {
	if !x.Reencode {
		return ""
	}
	var all []byte
	for _, h := range s.Handled {
		all = frame.Append(all, h.Encoded)
	}
	if !bytes.Equal(all, sc.input.Steps[i].Octets) {
		return fmt.Sprintf("encoded again the envelope is %x", all)
	}
	return ""
}
