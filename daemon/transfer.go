package daemon

import "github.com/slimwire/swp/daemon/internal/storage"

// Transfer exports or imports the store of a configuration.
type Transfer = storage.Transfer

// Transferred counts what an export or import of a store has carried.
type Transferred = storage.Transferred
