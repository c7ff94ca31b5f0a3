package suite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/slimwire/swp/test/bench/cert"
	"github.com/slimwire/swp/test/bench/load"
	"github.com/slimwire/swp/test/bench/proc"
	"github.com/slimwire/swp/test/bench/swpd"
)

// server is a process that answers.
type server interface {
	Addr() string
	PID() int

	// Collect forces one collection of garbage.
	Collect() error
	Close() error
}

// fleet starts the processes of a run and ends them.
type fleet struct {
	ctx     context.Context
	opts    *Options
	dir     string // certificates, configuration
	servers map[string]server
	clients map[string]*proc.Child

	gateways map[string]*swpd.Gateway // by transport and audit trail
	nodes    map[int]*swpd.Cluster    // by their number
	proxies  *proxies                 // nil until they are wanted
}

func newFleet(ctx context.Context, opts *Options) (*fleet, error) {
	dir, err := os.MkdirTemp("", "swp-bench-")
	if err != nil {
		return nil, err
	}
	f := &fleet{
		ctx: ctx, opts: opts, dir: dir,
		servers: make(map[string]server), clients: make(map[string]*proc.Child), gateways: make(map[string]*swpd.Gateway),
		nodes: make(map[int]*swpd.Cluster),
	}
	if err := cert.Make(dir); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Close ends every process and removes the certificates.
func (f *fleet) Close() error {
	var errs []error
	for _, c := range f.clients {
		errs = append(errs, c.Close())
	}
	for _, g := range f.gateways {
		errs = append(errs, g.Close())
	}
	for _, c := range f.nodes {
		errs = append(errs, c.Close())
	}
	if f.proxies != nil {
		errs = append(errs, f.proxies.Close())
	}
	for _, s := range f.servers {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(f.dir))...)
}

// server returns the server of a key, which it starts if it has to.
func (f *fleet) server(key string) (server, error) {
	if s, ok := f.servers[key]; ok {
		return s, nil
	}
	s, err := f.startServer(key, f.opts.SWPD == "")
	if err != nil {
		return nil, err
	}
	f.servers[key] = s
	return s, nil
}

// startServer starts a server that the caller closes. A server of swpd is the
// program itself, unless built is set: then it is built here from the same
// packages.
func (f *fleet) startServer(key string, built bool) (server, error) {
	switch {
	case (key == swpdKey || key == swpdMoveKey) && !built:
		return swpd.Start(f.ctx, f.opts.SWPD, f.dir, "")
	case key == roomyKey:
		return swpd.Start(f.ctx, f.opts.SWPD, f.dir, roomy)
	}
	child, err := proc.Start(f.ctx, f.roleArgs(roleServer, key)...)
	if err != nil {
		return nil, err
	}
	s := &childServer{Child: child}
	if err := child.Do("listen", nil, &s.addr); err != nil {
		return nil, errors.Join(err, child.Close())
	}
	return s, nil
}

// client returns the client process of the system of an ID.
func (f *fleet) client(id string) (*proc.Child, error) {
	if c, ok := f.clients[id]; ok {
		return c, nil
	}
	c, err := proc.Start(f.ctx, f.roleArgs(roleClient, id)...)
	if err != nil {
		return nil, err
	}
	f.clients[id] = c
	return c, nil
}

// roleArgs are the arguments of a process of this program; main calls Role.
func (f *fleet) roleArgs(role, name string) []string {
	args := []string{RoleCommand, role, name, f.dir}
	if f.opts.CPUProfile != "" {
		args = append(args, filepath.Join(f.opts.CPUProfile, role+"-"+name+".pprof"))
	}
	return args
}

// measurement is what one window of one system has shown. The zero value is one
// that failed.
type measurement struct {
	load.Result

	// ClientCPU and ServerCPU are the processor time of the processes from before
	// the first connection to after the last, for all exchanges.
	ClientCPU, ServerCPU time.Duration
}

// measure has one system exchange for one window.
func (f *fleet) measure(s System, c Cell) (measurement, error) {
	addr, pids, err := f.reach(s.Server)
	if err != nil {
		return measurement{}, err
	}
	return f.window(s.ID, addr, pids, c)
}

// window has the client of an ID exchange with a server for one window. pids are the
// processes whose time is the ServerCPU.
func (f *fleet) window(id, addr string, pids []int, c Cell) (measurement, error) {
	client, err := f.client(id)
	if err != nil {
		return measurement{}, err
	}
	pids = append([]int{client.PID()}, pids...)
	before, err := cpus(pids...)
	if err != nil {
		return measurement{}, err
	}
	var m measurement
	err = client.Do("load", loadArgs{Addr: addr, Spec: load.Spec{
		Payload: c.Payload, InFlight: c.InFlight, Conns: c.Conns,
		Warmup: f.opts.Warmup, Duration: f.opts.Duration,
	}}, &m.Result)
	if err != nil {
		return measurement{}, err
	}
	after, err := cpus(pids...)
	if err != nil {
		return measurement{}, err
	}
	m.ClientCPU = after[0] - before[0]
	for i := range pids[1:] {
		m.ServerCPU += after[i+1] - before[i+1]
	}
	return m, nil
}

// cpus returns the processor time of processes.
func cpus(pids ...int) ([]time.Duration, error) {
	list := make([]time.Duration, len(pids))
	for i, pid := range pids {
		var err error
		if list[i], err = proc.CPU(pid); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// childServer is a server in a process of this program.
type childServer struct {
	*proc.Child
	addr string
}

func (s *childServer) Addr() string   { return s.addr }
func (s *childServer) Collect() error { return s.Do("collect", nil, nil) }
