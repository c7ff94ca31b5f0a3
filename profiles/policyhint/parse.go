package policyhint

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/slimwire/swp/profiles"
)

// Bounds of a constraint, in octets.
const (
	MaxKey   = 128
	MaxValue = 1024
	MaxName  = 1024 // of the task_id, rpc_id or target in a scope
)

// CodeInvalidScope is the code of POLICY_ERR for a scope_ref of another form. Other codes
// are the names of canonical codes, such as RATE_LIMIT_EXCEEDED.
const CodeInvalidScope = "INVALID_SCOPE"

// The details of the errors of this profile, in addition to CodeInvalidScope. Malformed
// payloads have the details of p1.
const (
	DetailKey   = "hint_key"   // of no use
	DetailValue = "hint_value" // not in the syntax of its key
	DetailMode  = "hint_mode"  // not one of the three
	DetailBound = "hint_bound" // too many hints
)

func invalid(detail, format string, args ...any) *profiles.Error {
	return &profiles.Error{Code: profiles.InvalidProfilePayload, Detail: detail, Text: "policyhint: " + fmt.Sprintf(format, args...)}
}

// Check returns a hint in its stored form, with its effective scope. The error for an
// invalid hint is an *profiles.Error of InvalidProfilePayload.
func Check(h profiles.Hint) (profiles.Hint, error) {
	if strings.TrimSpace(h.Key) == "" || len(h.Key) > MaxKey {
		return h, invalid(DetailKey, "key %.80q, want 1 to %d octets that are not all blank", h.Key, MaxKey)
	}
	if h.Value == "" || len(h.Value) > MaxValue {
		return h, invalid(DetailValue, "%q: value of %d octets, want 1 to %d", h.Key, len(h.Value), MaxValue)
	}
	if known, ok := keys[h.Key]; ok {
		if err := known.check(h.Value); err != nil {
			return h, invalid(DetailValue, "%s: %.80q: %v", h.Key, h.Value, err)
		}
	}
	var err error
	h.Scope, err = checkScope(h.Scope)
	return h, err
}

// checkScope returns the effective scope of a scope_ref, with hexadecimal digits in lower
// case.
func checkScope(ref string) (string, error) {
	if ref == "" || ref == profiles.ScopeConnection {
		return profiles.ScopeConnection, nil
	}
	if name, ok := strings.CutPrefix(ref, profiles.ScopeTarget); ok && name != "" && len(name) <= MaxName {
		return ref, nil
	}
	for _, prefix := range []string{profiles.ScopeTask, profiles.ScopeRPC} {
		digits, ok := strings.CutPrefix(ref, prefix)
		if !ok || digits == "" || len(digits) > 2*MaxName {
			continue
		}
		if id, err := hex.DecodeString(digits); err == nil {
			return scopeOf(prefix, id), nil
		}
	}
	return "", invalid(CodeInvalidScope, "scope_ref %.80q, want connection, task:<hex>, rpc:<hex> or target:<name>", ref)
}

func scopeOf(prefix string, id []byte) string { return prefix + hex.EncodeToString(id) }

// messageScope is the scope of the message with a msg_id.
func messageScope(msgID []byte) string { return scopeOf(profiles.ScopeMessage, msgID) }

// hints returns the constraints of a Set, checked. With a msg_id they are for that message
// only, and must not have a scope.
func (m *Set) hints(msgID []byte) ([]profiles.Hint, error) {
	list := make([]profiles.Hint, len(m.Constraints))
	for i := range m.Constraints {
		c := &m.Constraints[i]
		mode, ok := profiles.ParseMode(string(c.Mode))
		if !ok {
			return nil, invalid(DetailMode, "mode %.80q, want MUST, SHOULD or MAY", c.Mode)
		}
		h, err := Check(profiles.Hint{Key: string(c.Key), Value: string(c.Value), Mode: mode, Scope: string(c.Scope)})
		if err != nil {
			return nil, err
		}
		if msgID != nil {
			if h.Scope != profiles.ScopeConnection {
				return nil, invalid(CodeInvalidScope, "scope_ref %.80q in hints for one message (extension %d), want none", c.Scope, ExtMessage)
			}
			h.Scope = messageScope(msgID)
		}
		list[i] = h
	}
	return list, nil
}
