package part

import (
	"maps"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
)

// Section is a part of the configuration that can be reloaded. A key without a section
// takes effect at the next start; until then warnings name it.
type Section struct {
	Name  string   // in the log and in warnings
	Stays string   // for warnings: what stays in force while the section is faulty
	Keys  []string // the keys, with all below them; empty: only files are read again

	// Fits reports whether a running daemon can apply the keys of a configuration; if not,
	// they take effect at the next start, for the reason Waits. Nil: always.
	Fits  func(started, now *config.Config) bool
	Waits string

	// Files are read again when they change. May be nil.
	Files func(c *config.Config) []string

	// State describes what the section depends on besides the configuration and the files, such
	// as the time. When it changes, the section is prepared again. May be nil.
	State func(c *config.Config) string

	// Prepare reads the section of a configuration, without changing what is in force.
	Prepare Prepare
}

// Prepare makes a Change from a configuration.
type Prepare func(c *config.Config) (Change, error)

// Change is a prepared Section. Either Commit and then Then is called, or Abandon.
type Change struct {
	// Commit puts the section in force. It returns true if peers may no longer be admitted.
	Commit func() (stricter bool)

	Then     func()      // called after connected peers were checked; may be nil
	Abandon  func()      // releases what was prepared; may be nil
	Identity string      // the identity of this endpoint after the change; empty: unchanged
	Fields   []zap.Field // of the log line
}

// Names lists the names of a section of the configuration, for the log.
func Names[T any](section map[string]T) string {
	return strings.Join(slices.Sorted(maps.Keys(section)), " ")
}
