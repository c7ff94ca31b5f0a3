package part

import (
	"maps"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
)

// Section is a part of the configuration that is taken up while the daemon serves. A key
// that is in no section waits for the next start, and is named until then.
type Section struct {
	Name  string   // in the log and in warnings
	Stays string   // what is said to stay while the section cannot be used
	Keys  []string // what is taken up, with all below them; none: only files are read again

	// Fits reports whether the keys of a configuration can be taken up by what was started;
	// if not, they wait for the next start. Nil: always.
	Fits func(started, now *config.Config) bool

	// Files are read again when they change. Nil: there are none.
	Files func(c *config.Config) []string

	// Prepare reads what a configuration says. What is in force does not change.
	Prepare Prepare
}

// Prepare makes a Change of what a configuration says.
type Prepare func(c *config.Config) (Change, error)

// Change is a Section that is ready to be in force: either Commit is called, and Then, or
// Abandon.
type Change struct {
	// Commit puts it in force. It reports whether somebody may not be let in any more.
	Commit func() (stricter bool)

	Then     func()      // once peers were held against what is in force; nil: nothing
	Abandon  func()      // gives back what was prepared; nil: nothing
	Identity string      // that this endpoint has with it; empty: the one it had
	Fields   []zap.Field // of the log line
}

// Names lists the names of a section of the configuration, for the log.
func Names[T any](section map[string]T) string {
	return strings.Join(slices.Sorted(maps.Keys(section)), " ")
}
