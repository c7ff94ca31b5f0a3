package plain

import (
	"strings"
	"testing"
)

func TestTheNearestWordIsMeant(t *testing.T) {
	known := []string{"orders.create", "orders.cancel", "swp.info", "a"}
	for word, want := range map[string]string{
		"orders.crate": "orders.create", "swp.inof": "swp.info", "orders.cancle": "orders.cancel", "swp.infoxx": "swp.info",
		"shipping": "", strings.Repeat("x", 100): "", "swp": "",
	} {
		if got := Meant(word, known); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}
