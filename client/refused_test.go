package client

import (
	"errors"
	"testing"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/relay"
)

func TestRefusedIsWhatIsOfNoUseAgain(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"conflict":     {&RefusedError{nil, &profiles.PeerError{Profile: relay.Name, Code: relay.CodeConflict}}, true},
		"no rule":      {&RefusedError{nil, &profiles.PeerError{Profile: relay.Name, Code: profiles.SecurityPolicy.Alias()}}, true},
		"too large":    {&RefusedError{nil, &profiles.Error{Code: profiles.Internal, Detail: profiles.PayloadTooLarge.String()}}, true},
		"no message":   {&RefusedError{nil, profiles.Errorf(profiles.InvalidProfilePayload, "relay: topic is empty")}, true},
		"no room":      {&RefusedError{nil, &profiles.PeerError{Profile: relay.Name, Code: profiles.RateLimitExceeded.Alias()}}, false},
		"busy":         {&RefusedError{nil, profiles.Busy("x", "x")}, false},
		"lost":         {&RefusedError{nil, errors.New("connection reset")}, false},
		"not refused":  {errors.New("connection refused"), false},
		"nothing":      {nil, false},
		"of a message": {&profiles.PeerError{Profile: relay.Name, Code: relay.CodeConflict}, false},
	} {
		if got := Refused(test.err); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
