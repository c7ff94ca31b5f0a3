package daemon

import (
	"fmt"

	"github.com/slimwire/swp/daemon/config"
)

// describeStore says what is kept and what an acknowledgement promises.
func describeStore(c *config.Config) string {
	if c.Store == config.StoreMemory {
		return "memory: gone with the process"
	}
	promise := "acknowledged state survives a power cut"
	if c.Durability == "process" {
		promise = "acknowledged state survives the end of the process, not that of the machine"
	}
	return fmt.Sprintf("%s, durability %s: %s", c.Store, c.Durability, promise)
}
