package part

import (
	"os"
	"path/filepath"
	"sync"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/boundlog"
	"github.com/slimwire/swp/internal/bridge/proc"
)

// Groups returns the process groups of this process. It opens them at the first call.
type Groups func() (*proc.Groups, error)

// KeepGroups keeps the process groups of commands in the data directory. The first call of the
// result ends the processes that commands of an earlier, killed swpd have started: no other process
// may use the data directory then. With store: memory it does nothing.
func KeepGroups(c *config.Config, log *zap.Logger) Groups {
	log = log.Named(boundlog.Backend)
	return sync.OnceValues(func() (*proc.Groups, error) {
		if c.Store == config.StoreMemory {
			return nil, nil
		}
		return proc.OpenGroups(proc.GroupsOptions{
			Dir: filepath.Join(c.Data, "processes"),
			Ended: func(pid int) {
				log.Warn("a process that commands of an earlier swpd had started was killed", zap.Int("pid", pid))
			},
			Failed: func(err error) {
				log.Warn("if swpd is killed, what a command has started will not be ended", zap.Error(err))
			},
		})
	})
}

// Program describes a command of the configuration.
func Program(command string, args []string, env map[string]string, dir string, groups *proc.Groups) proc.Config {
	return proc.Config{Command: command, Args: args, Env: Environ(env), Path: os.Getenv("PATH"), Dir: dir, Groups: groups}
}

// Place decides where processes of a program run that is an entry of the configuration, such as
// "mcp/NAME": see proc.Config.
type Place func(entry string, program proc.Config) func(more []string) (*proc.Link, func())

// Node is a log field: the node where a process runs, if it is another one.
func Node(name string) zap.Field {
	if name == "" {
		return zap.Skip()
	}
	return zap.String("node", name)
}
