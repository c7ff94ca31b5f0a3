package part

import (
	"path/filepath"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/boundlog"
	"github.com/slimwire/swp/internal/bridge/proc"
)

// KeepGroups keeps the process groups of commands in the data directory, and ends what
// commands of an earlier swpd that was killed have started. With store: memory it does
// nothing. Nobody else may use the data directory.
func KeepGroups(c *config.Config, log *zap.Logger) (*proc.Groups, error) {
	if c.Store == config.StoreMemory {
		return nil, nil
	}
	log = log.Named(boundlog.Backend)
	return proc.OpenGroups(proc.GroupsOptions{
		Dir: filepath.Join(c.Data, "processes"),
		Ended: func(pid int) {
			log.Warn("a process that commands of an earlier swpd had started was killed", zap.Int("pid", pid))
		},
		Failed: func(err error) {
			log.Warn("if swpd is killed, what a command has started will not be ended", zap.Error(err))
		},
	})
}
