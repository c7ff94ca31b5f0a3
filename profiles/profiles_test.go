package profiles_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/slimwire/swp/profiles"
)

func handler(context.Context, *profiles.Request, profiles.Responder) error { return nil }

func profile(id uint64, types ...profiles.Type) *profiles.Profile {
	return &profiles.Profile{ID: id, Name: fmt.Sprintf("p%d", id), Types: types, Handler: profiles.HandlerFunc(handler)}
}

func TestRegistryFindsProfilesAndNoOthers(t *testing.T) {
	list := []*profiles.Profile{profile(1), profile(31), profile(32), profile(1024), profile(1<<64 - 1)}
	r, err := profiles.NewRegistry(list...)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range list {
		if got, ok := r.Lookup(want.ID); !ok || got != want {
			t.Errorf("Lookup(%d) = %v, %v", want.ID, got, ok)
		}
	}
	for _, id := range []uint64{0, 2, 30, 33, 1 << 32, 1<<32 + 1} {
		if got, ok := r.Lookup(id); ok || got != nil {
			t.Errorf("Lookup(%d) = %v, %v, want none", id, got, ok)
		}
	}
	if len(r.All()) != len(list) || r.All()[2] != list[2] {
		t.Errorf("All() = %v, want the profiles in order", r.All())
	}
}

func TestRegistryRefuses(t *testing.T) {
	row := profiles.Type{ID: 1, Name: "ONE", Role: profiles.Initiating}
	for name, list := range map[string][]*profiles.Profile{
		"profile_id 0":           {profile(0)},
		"a profile_id twice":     {profile(7), profile(7)},
		"a large id twice":       {profile(7000), profile(7000)},
		"msg_type 0":             {profile(7, profiles.Type{Name: "ZERO", Role: profiles.Answer})},
		"a msg_type twice":       {profile(7, row, row)},
		"a type without a role":  {profile(7, profiles.Type{ID: 1, Name: "ONE"})},
		"nothing to conclude":    {profile(7, profiles.Type{ID: 1, Name: "ONE", Role: profiles.Answer | profiles.Concluding})},
		"a profile that is deaf": {{ID: 7, Name: "deaf"}},
	} {
		if _, err := profiles.NewRegistry(list...); err == nil || !strings.HasPrefix(err.Error(), "profiles: ") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestTypeFindsRowsInAnyOrder(t *testing.T) {
	for _, ids := range [][]uint64{{1, 2, 3}, {3, 1, 2}, {10, 1 << 40}, nil} {
		var rows []profiles.Type
		for _, id := range ids {
			rows = append(rows, profiles.Type{ID: id, Name: "X", Role: profiles.Answer})
		}
		p := profile(1, rows...)
		for i, id := range ids {
			if got, ok := p.Type(id); !ok || got != rows[i] {
				t.Errorf("%v: Type(%d) = %v, %v", ids, id, got, ok)
			}
		}
		for _, id := range []uint64{0, 4, 99, 1<<64 - 1} {
			if got, ok := p.Type(id); ok {
				t.Errorf("%v: Type(%d) = %v, want none", ids, id, got)
			}
		}
	}
}

func TestCodesHaveTheNamesOfTheTaxonomy(t *testing.T) {
	for code, want := range map[profiles.Code]string{
		profiles.OK:                    "OK",
		profiles.InvalidFrame:          "ERR_INVALID_FRAME",
		profiles.UnsupportedVersion:    "ERR_UNSUPPORTED_VERSION",
		profiles.UnknownProfile:        "ERR_UNKNOWN_PROFILE",
		profiles.InvalidProfilePayload: "ERR_INVALID_PROFILE_PAYLOAD",
		profiles.CompatibilityPolicy:   "ERR_COMPATIBILITY_POLICY",
		profiles.Internal:              "ERR_INTERNAL_ERROR",
		99:                             "ERR_UNKNOWN_99",
	} {
		if got := code.String(); got != want {
			t.Errorf("%d: %q, want %q", code, got, want)
		}
	}
	// The number is the position in the table of SWP Core §12, as QUIC carries it.
	if profiles.CompatibilityPolicy != 17 {
		t.Errorf("ERR_COMPATIBILITY_POLICY is %d, want 17", profiles.CompatibilityPolicy)
	}
	for code := profiles.OK; code <= profiles.CompatibilityPolicy; code++ {
		for _, name := range []string{code.String(), code.Alias()} {
			if got, ok := profiles.ParseCode(name); !ok || got != code {
				t.Errorf("ParseCode(%q) = %v, %v", name, got, ok)
			}
		}
	}
	if got, ok := profiles.ParseCode("ERR_INTERNAL_ERROR"); !ok || got != profiles.Internal {
		t.Errorf("ERR_INTERNAL_ERROR: %v, %v", got, ok)
	}
	for _, name := range []string{"", "ERR_", "ERR_NO_SUCH", "invalid_frame"} {
		if _, ok := profiles.ParseCode(name); ok {
			t.Errorf("ParseCode(%q) found a code", name)
		}
	}
}

func TestAsErrorHidesWhatIsNotMeantForThePeer(t *testing.T) {
	secret := errors.New("secret")
	if e := profiles.AsError(secret); e.Code != profiles.Internal || strings.Contains(e.Text, "secret") || !errors.Is(e, secret) {
		t.Errorf("%+v: want an internal error with the cause kept for the log", e)
	}
	fault := profiles.Errorf(profiles.NotFound, "no %s", "such")
	if e := profiles.AsError(fmt.Errorf("wrapped: %w", fault)); e != fault {
		t.Errorf("%+v, want %+v", e, fault)
	}
	e := &profiles.Error{Code: profiles.NotFound, Detail: "D", Text: "text", Cause: secret}
	if got := e.Error(); got != "ERR_NOT_FOUND · D: text: secret" {
		t.Errorf("%q", got)
	}
	if busy := profiles.Busy("d", "t"); busy.Code != profiles.RateLimitExceeded || !busy.Pace || !busy.Retryable {
		t.Errorf("%+v", busy)
	}
}

func TestMsgIDsAreFresh(t *testing.T) {
	seen := make(map[string]bool)
	for range 1000 {
		id := profiles.NewMsgID()
		if len(id) != 16 || seen[string(id)] {
			t.Fatalf("msg_id %x of %d octets, seen before: %v", id, len(id), seen[string(id)])
		}
		seen[string(id)] = true
	}
}
