package plain

import "testing"

func TestCountPutsWordsIntoThePlural(t *testing.T) {
	for want, got := range map[string]string{
		"0 deliveries": Count(0, "delivery"), "1 delivery": Count(uint64(1), "delivery"), "2 deliveries": Count(int64(2), "delivery"),
		"1 day": Count(1, "day"), "2 days": Count(2, "day"), "0 segments": Count(0, "segment"), "1 dead delivery": Count(1, "dead delivery"),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
