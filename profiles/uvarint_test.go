package profiles_test

import (
	"strings"
	"testing"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

func TestUvarintTellsNothingFromGarbage(t *testing.T) {
	for _, tt := range []struct {
		name  string
		ext   e1.Extensions
		value uint64
		ok    bool
		fault bool
	}{
		{"none", nil, 0, false, false},
		{"another type", e1.AppendExtension(nil, 21, []byte{0x80}), 0, false, false},
		{"zero", e1.AppendExtensionUvarint(nil, 20, 0), 0, true, false},
		{"largest", e1.AppendExtensionUvarint(nil, 20, 1<<64-1), 1<<64 - 1, true, false},
		{"longer than need be", e1.AppendExtension(nil, 20, []byte{0x81, 0}), 1, true, false},
		{"the first counts", e1.AppendExtension(e1.AppendExtensionUvarint(nil, 20, 7), 20, []byte{0x80}), 7, true, false},
		{"empty", e1.AppendExtension(nil, 20, nil), 0, false, true},
		{"cut", e1.AppendExtension(nil, 20, []byte{0x80}), 0, false, true},
		{"more", e1.AppendExtension(nil, 20, []byte{1, 1}), 0, false, true},
		{"too large", e1.AppendExtension(nil, 20, []byte(strings.Repeat("\xff", 9)+"\x02")), 0, false, true},
	} {
		v, ok, err := profiles.Uvarint(tt.ext, 20)
		if v != tt.value || ok != tt.ok || (err != nil) != tt.fault {
			t.Errorf("%s: %d, %v, %v", tt.name, v, ok, err)
		}
		if fault := profiles.AsError(err); tt.fault && (fault.Code != profiles.InvalidProfilePayload || fault.Detail != profiles.DetailExtension) {
			t.Errorf("%s: %v · %s", tt.name, fault.Code, fault.Detail)
		}
	}
}
