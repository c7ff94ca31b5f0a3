package entrances

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"time"

	"github.com/slimwire/swp/daemon/config"
)

// ListenUnix listens on a Unix socket, which this user and its group may use (0660). The socket of
// a process that has been killed is replaced; a socket in use is an error, and any other file.
func ListenUnix(path string) (net.Listener, error) { return listenUnix(path, path, 0o660) }

// ListenPrivate is ListenUnix for this user only (0600). The path may be longer than a Unix socket allows.
func ListenPrivate(path string) (net.Listener, error) {
	short, done, err := config.ShortSocket(path)
	if err != nil {
		return nil, err
	}
	ln, err := listenUnix(path, short, 0o600)
	if err != nil {
		done()
		return nil, err
	}
	return &private{ln, path, done}, nil
}

// private is the listener of ListenPrivate.
type private struct {
	net.Listener
	path string
	done func()
}

func (p *private) Addr() net.Addr { return &net.UnixAddr{Name: p.path, Net: "unix"} }

// Close implements net.Listener.
func (p *private) Close() error {
	err := p.Listener.Close()
	p.done()
	return err
}

// listenUnix listens on a path, under another name of it that is short enough for the system.
func listenUnix(path, short string, mode fs.FileMode) (net.Listener, error) {
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSocket == 0:
		return nil, fmt.Errorf("%s is there and is no socket", path)
	default:
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(context.Background(), "unix", short)
		if err == nil {
			_ = conn.Close()
			return nil, fmt.Errorf("another process listens on %s", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(context.Background(), "unix", short)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, mode); err != nil {
		_ = ln.Close()
		return nil, err
	}
	return ln, nil
}
