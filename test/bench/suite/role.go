package suite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"runtime/pprof"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/slimwire/swp/test/bench/cert"
	"github.com/slimwire/swp/test/bench/echo"
	"github.com/slimwire/swp/test/bench/load"
	"github.com/slimwire/swp/test/bench/mcpecho"
	"github.com/slimwire/swp/test/bench/proc"
	"github.com/slimwire/swp/test/bench/proxyecho"
)

// The parts that a process started by this package can play.
const (
	roleServer = "server"
	roleClient = "client"
	roleStdio  = "stdio"
	roleProxy  = "proxy"
)

// The two sides of a pair of reverse proxies.
const (
	proxyNear = "near"
	proxyFar  = "far"
)

// Role plays a part in a process of its own until standard input ends:
// "server KEY DIR [PROFILE]", "client ID DIR [PROFILE]", "proxy near|far DIR [PROFILE]"
// or "stdio mcp DIR", an MCP server.
func Role(args []string) error {
	if len(args) < 3 {
		return errors.New("suite: a role wants a name and a folder")
	}
	role, name, dir := args[0], args[1], args[2]
	if len(args) > 3 {
		stop, err := profile(args[3])
		if err != nil {
			return err
		}
		defer stop()
	}
	switch role {
	case roleServer:
		return serverRole(name, dir)
	case roleClient:
		return clientRole(name, dir)
	case roleStdio:
		return mcpecho.Serve(os.Stdin, os.Stdout)
	case roleProxy:
		return proxyRole(name, dir)
	}
	return fmt.Errorf("suite: unknown role %q", role)
}

func profile(path string) (stop func(), err error) {
	f, err := os.Create(path) //nolint:gosec // the path comes from the command line
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		_ = f.Close()
	}, nil
}

func serverRole(key, dir string) error {
	listen, ok := servers()[key]
	if !ok {
		return fmt.Errorf("suite: unknown server %q", key)
	}
	return proc.Answer(os.Stdin, os.Stdout, proc.Ops{
		"listen": func(json.RawMessage) (any, error) { return listen(context.Background(), cert.Server(dir)) },

		// collect is the one forced collection before memory is weighed.
		"collect": func(json.RawMessage) (any, error) {
			debug.FreeOSMemory()
			return nil, nil
		},
	})
}

// proxyRole is the reverse proxy of one side, to the URL that "listen" is told.
func proxyRole(side, dir string) error {
	return proc.Answer(os.Stdin, os.Stdout, proc.Ops{"listen": func(raw json.RawMessage) (any, error) {
		var url string
		if err := json.Unmarshal(raw, &url); err != nil {
			return nil, err
		}
		if side == proxyFar {
			return proxyecho.Far(context.Background(), url, cert.Server(dir))
		}
		return proxyecho.Near(context.Background(), url, cert.Client(dir))
	}})
}

// loadArgs are the arguments of the client's "load".
type loadArgs struct {
	Addr string    `json:"addr"`
	Spec load.Spec `json:"spec"`
}

// holdArgs are the arguments of the client's "hold".
type holdArgs struct {
	Addr  string `json:"addr"`
	Conns int    `json:"conns"`
}

func clientRole(id, dir string) error {
	for _, s := range append(MoveSystems(), moveCrossings()...) {
		if s.ID == id {
			return proc.Answer(os.Stdin, os.Stdout, moveOps(s, dir))
		}
	}
	if id == streamID {
		return proc.Answer(os.Stdin, os.Stdout, streamOps(dir))
	}
	system, ok := find(slices.Concat(Systems(), idleSystems(), workSystems(), callSystems()), id)
	if !ok {
		return fmt.Errorf("suite: unknown system %q", id)
	}
	c := client{files: cert.Client(dir), dial: system.Dial}
	defer c.release()
	return proc.Answer(os.Stdin, os.Stdout, proc.Ops{"load": c.load, "hold": c.hold})
}

type client struct {
	files cert.Files
	dial  echo.Dial
	held  []echo.Conn
}

func (c *client) load(raw json.RawMessage) (any, error) {
	var args loadArgs
	if err := json.Unmarshal(raw, &args); err != nil {
		return nil, err
	}
	return load.Run(context.Background(), func(ctx context.Context) (echo.Conn, error) {
		return c.dial(ctx, args.Addr, c.files)
	}, args.Spec)
}

// hold opens connections, makes one exchange of 64 octets on each and keeps
// them.
func (c *client) hold(raw json.RawMessage) (any, error) {
	var args holdArgs
	if err := json.Unmarshal(raw, &args); err != nil {
		return nil, err
	}
	held := make([]echo.Conn, args.Conns)
	var g errgroup.Group
	g.SetLimit(16)
	for i := range held {
		g.Go(func() error {
			conn, err := c.dial(context.Background(), args.Addr, c.files)
			if err != nil {
				return fmt.Errorf("connection %d: %w", i, err)
			}
			held[i] = conn
			payload := make([]byte, 64)
			err = conn.Caller().Echo(payload, func(answer []byte) error {
				if !bytes.Equal(answer, payload) {
					return errors.New("the answer is not the request")
				}
				return nil
			})
			if err != nil {
				return fmt.Errorf("connection %d: %w", i, err)
			}
			return nil
		})
	}
	err := g.Wait()
	for _, conn := range held {
		if conn != nil {
			c.held = append(c.held, conn)
		}
	}
	return len(c.held), err
}

func (c *client) release() {
	for _, conn := range c.held {
		_ = conn.Close()
	}
}
