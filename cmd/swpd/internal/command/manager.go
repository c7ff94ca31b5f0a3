package command

import (
	"fmt"
	"io"
	"os"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"
)

// States of swpd for the service manager.
const (
	ready    = daemon.SdNotifyReady
	stopping = daemon.SdNotifyStopping
)

// sockets returns the sockets that a service manager passed to this process, as
// sd_listen_fds(3) does. Children do not get them.
func sockets() []*os.File { return activation.Files(true) }

// notify tells the service manager that has started this process, if there is one, a state as
// in sd_notify(3).
func notify(log io.Writer, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		fmt.Fprintf(log, "swpd: the service manager cannot be told %s: %v\n", state, err)
	}
}
