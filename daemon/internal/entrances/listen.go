package entrances

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/slimwire/swp/daemon/config"
)

// ListenError adds advice to the error for an address.
func ListenError(key, address string, err error) error {
	if _, unix := config.UnixSocket(address); unix {
		return fmt.Errorf("%s: %w", key, err)
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s: %s: the port is taken, perhaps by another swpd; stop that program or choose another port (0 lets the system choose)", key, address)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%s: %s: not permitted; ports below 1024 need a privilege, choose another", key, address)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%s: %s: this machine has no such address", key, address)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	return fmt.Errorf("%s: %s: %w", key, address, err)
}
