package profiles_test

import (
	"testing"
	"time"

	"github.com/slimwire/swp/profiles"
)

func TestTheWholeOfACallIsAnHourOrSixTimesItsTimeout(t *testing.T) {
	for silence, want := range map[time.Duration]time.Duration{
		time.Second: time.Hour, 10 * time.Minute: time.Hour, 11 * time.Minute: 66 * time.Minute,
		profiles.MostWork: 6 * profiles.MostWork, profiles.MostWork + 1: profiles.MostWork + 1, 1<<63 - 1: 1<<63 - 1,
	} {
		if got := profiles.WholeWork(silence); got != want {
			t.Errorf("%v: %v, want %v", silence, got, want)
		}
	}
}
