package daemon

import (
	"reflect"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/slimwire/swp/daemon/internal/part"
)

// A part that has metrics registers them: forgotten, they would be missing without a word.
func TestPartsRegisterTheMetricsTheyHave(t *testing.T) {
	collector, n := reflect.TypeFor[prometheus.Collector](), 0
	for _, field := range reflect.VisibleFields(reflect.TypeFor[daemon]()) {
		if !field.Type.Implements(reflect.TypeFor[part.Part]()) || !field.Type.Implements(collector) {
			continue
		}
		n++
		one := reflect.New(field.Type.Elem()).Interface()
		if !slices.Contains(one.(part.Part).Collectors(), one.(prometheus.Collector)) {
			t.Errorf("%s does not register itself", field.Name)
		}
	}
	if n < 5 {
		t.Errorf("only %d parts with metrics were found", n)
	}
}
