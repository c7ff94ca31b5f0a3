package part

import (
	"sync/atomic"

	"github.com/slimwire/swp/daemon/internal/boundlog"
)

// Fault is why something does not work now. The zero value is no fault. It is safe for
// concurrent use.
type Fault struct{ text atomic.Pointer[string] }

// Set records a fault. It reports whether this is news: there was none, or another.
func (f *Fault) Set(err error) (news bool) {
	text := boundlog.CleanLines(err.Error())
	old := f.text.Swap(&text)
	return old == nil || *old != text
}

// Clear removes the fault. It reports whether there was one.
func (f *Fault) Clear() (was bool) { return f.text.Swap(nil) != nil }

// Text returns the fault, one line for each line of the error; ok is false without a fault.
func (f *Fault) Text() (text string, ok bool) {
	now := f.text.Load()
	if now == nil {
		return "", false
	}
	return *now, true
}
