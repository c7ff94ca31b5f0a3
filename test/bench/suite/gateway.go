package suite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/slimwire/swp/test/bench/cert"
	"github.com/slimwire/swp/test/bench/echo"
	"github.com/slimwire/swp/test/bench/mcpecho"
	"github.com/slimwire/swp/test/bench/proc"
	"github.com/slimwire/swp/test/bench/swpd"
	"github.com/slimwire/swp/test/bench/swpecho"
)

// CallPath is a path of an MCP call: directly to the server; through a gateway, which is
// the HTTP front of a swpd, a link to another swpd, and the server there; or through two
// reverse proxies, for comparison with the gateway.
type CallPath struct {
	ID   string
	Name string
	Dial echo.Dial

	// Direct is the ID of the same call made directly, Transport the transport of the link,
	// and Behind the name of the server at the other end. All are empty for a direct call;
	// Transport and Behind are empty for the reverse proxies.
	Direct, Transport, Behind string

	// SWP says that the call goes to the swpd in front of the server, without the gateway;
	// with an empty Behind, to swpd itself.
	SWP bool

	// Against is the ID of the path with which the promises compare this one; empty without a
	// promise. Added bounds the p50 that this path adds, divided by that of the other, or by the
	// whole p50 of a path without Direct. CPU bounds the processor time of the servers, divided
	// in the same way; zero without a promise.
	Against    string
	Added, CPU float64
}

// CallPaths returns all paths in the order of the table.
func CallPaths() []CallPath {
	return []CallPath{
		{ID: "mcp-url", Name: "server at a URL", Dial: mcpecho.DialHTTP},
		{ID: "mcp-url-tls", Name: "gateway, two swpd over TLS", Dial: mcpecho.DialHTTP, Direct: "mcp-url", Transport: transportTLS, Behind: "url",
			Against: proxiesID, Added: 0.7, CPU: 0.6},
		{ID: "mcp-url-quic", Name: "gateway, two swpd over QUIC", Dial: mcpecho.DialHTTP, Direct: "mcp-url", Transport: transportQUIC, Behind: "url",
			Against: proxiesID, Added: 0.9, CPU: 0.6},
		{ID: proxiesID, Name: "two reverse proxies, HTTP/2 over TLS", Dial: mcpecho.DialHTTP, Direct: "mcp-url"},
		{ID: "mcp-url-swp", Name: "SWP client, one swpd over TLS", Dial: mcpecho.DialSWP, Direct: "mcp-url", Transport: transportTLS, Behind: "url",
			SWP: true, Against: "mcp-echo", Added: 1.4},
		{ID: "mcp-echo", Name: "swp.echo at that swpd", Dial: swpecho.DialTLS, Transport: transportTLS, SWP: true},
		{ID: "mcp-stdio", Name: "server on stdio", Dial: dialStdio},
		{ID: "mcp-stdio-tls", Name: "gateway, two swpd over TLS", Dial: mcpecho.DialHTTP, Direct: "mcp-stdio", Transport: transportTLS, Behind: "stdio"},
	}
}

// proxiesID is the path through two reverse proxies.
const proxiesID = "mcp-url-proxies"

// callCell is the load for all paths.
var callCell = Cell{64, 1, 1}

// mcpKey is the key of the MCP server at a URL.
const mcpKey = "mcp"

// callSystems are what clients have to know of them.
func callSystems() []System {
	var list []System
	for _, p := range CallPaths() {
		list = append(list, System{ID: p.ID, Name: p.Name, Dial: p.Dial})
	}
	return list
}

// stdioServer is the command of the MCP server on stdio: this program.
func stdioServer() ([]string, error) {
	self, err := os.Executable()
	return []string{self, RoleCommand, roleStdio, mcpKey, os.TempDir()}, err
}

// dialStdio starts a server of its own.
func dialStdio(ctx context.Context, _ string, _ cert.Files) (echo.Conn, error) {
	command, err := stdioServer()
	if err != nil {
		return nil, err
	}
	return mcpecho.Command(ctx, command[0], command[1:]...)
}

// gateway measures the call on every path. Differences use measurements of the same round.
func (r *run) gateway() error {
	if r.opts.SWPD == "" {
		return errNeedsProgram
	}
	paths := CallPaths()
	results := make([][]measurement, len(paths))
	for round := range r.opts.Rounds {
		r.say("gateway, %s, round %d of %d", callCell, round+1, r.opts.Rounds)
		for j := range paths {
			k := (round + j) % len(paths)
			m, err := r.fleet.call(paths[k])
			if r.ctx.Err() != nil {
				return context.Cause(r.ctx)
			}
			if err != nil {
				r.fail(paths[k].ID, err)
			}
			results[k] = append(results[k], m)
		}
	}
	r.report.Gateway = callReport(r.opts.Rounds, paths, results)
	return nil
}

// call has one path make calls for one window.
func (f *fleet) call(p CallPath) (measurement, error) {
	addr, pids, err := f.callee(p)
	if err != nil {
		return measurement{}, err
	}
	return f.window(p.ID, addr, pids, callCell)
}

// callee returns where a path begins, and the processes that are on it.
func (f *fleet) callee(p CallPath) (addr string, pids []int, err error) {
	if p.Transport != "" {
		g, err := f.gateway(p.Transport, swpd.AuditOff)
		if err != nil {
			return "", nil, err
		}
		if p.SWP {
			addr, pid := g.Far(p.Behind)
			return addr, []int{pid}, nil
		}
		return g.Addr(p.Behind), g.PIDs(), nil
	}
	srv, err := f.server(mcpKey)
	if err != nil {
		return "", nil, err
	}
	if p.Direct == "" {
		return srv.Addr(), nil, nil
	}
	if f.proxies == nil {
		if f.proxies, err = f.startProxies(srv.Addr()); err != nil {
			return "", nil, err
		}
	}
	return f.proxies.near.Addr(), f.proxies.PIDs(), nil
}

// proxies are two reverse proxies in processes of their own.
type proxies struct{ near, far *childServer }

// startProxies starts those that lead to the server at a URL.
func (f *fleet) startProxies(url string) (*proxies, error) {
	far, err := f.startProxy(proxyFar, url)
	if err != nil {
		return nil, err
	}
	near, err := f.startProxy(proxyNear, far.Addr())
	if err != nil {
		return nil, errors.Join(err, far.Close())
	}
	return &proxies{near, far}, nil
}

func (f *fleet) startProxy(side, url string) (*childServer, error) {
	child, err := proc.Start(f.ctx, f.roleArgs(roleProxy, side)...)
	if err != nil {
		return nil, err
	}
	s := &childServer{Child: child}
	if err := child.Do("listen", url, &s.addr); err != nil {
		return nil, errors.Join(err, child.Close())
	}
	return s, nil
}

// PIDs are the process ids of the two.
func (p *proxies) PIDs() []int { return []int{p.near.PID(), p.far.PID()} }

// Close ends both.
func (p *proxies) Close() error { return errors.Join(p.near.Close(), p.far.Close()) }

// callReport subtracts what was measured, by path and round.
func callReport(rounds int, paths []CallPath, results [][]measurement) *CallReport {
	report := &CallReport{Cell: callCell, Rounds: rounds}
	for i, p := range paths {
		row := CallRow{
			System: p.ID, Name: p.Name, Direct: p.Direct,
			PerSecond: figures(results[i], rate),
			P50:       figures(results[i], p50),
			P99:       figures(results[i], p99),
			ClientCPU: figures(results[i], clientCPU),
			SWPDCPU:   figures(results[i], serverCPU),
		}
		if j := slices.IndexFunc(paths, func(o CallPath) bool { return o.ID == p.Direct }); j >= 0 {
			row.Added = differences(each(results[i], p50), each(results[j], p50))
			row.AddedP99 = differences(each(results[i], p99), each(results[j], p99))
		}
		if j := slices.IndexFunc(paths, func(o CallPath) bool { return o.ID == p.Against }); j >= 0 {
			row.Against, row.AddedRatio = p.Against, against(p, paths, results, i, j)
			if s, ok := ratios(each(results[i], serverCPU), each(results[j], serverCPU)); ok && p.CPU > 0 {
				row.CPURatio = &Ratio{Of: "CPU", Spread: s, Promise: atMost(s.Median, p.CPU)}
			}
		}
		report.Rows = append(report.Rows, row)
	}
	return report
}

// against divides the added p50 of the path at i by that of the path at j, round by round.
func against(p CallPath, paths []CallPath, results [][]measurement, i, j int) *Ratio {
	s, ok := ratios(added(paths, results, i), added(paths, results, j))
	if !ok {
		return nil
	}
	return &Ratio{Of: "added p50", Spread: s, Promise: atMost(s.Median, p.Added)}
}

// added returns what the path at i adds to the p50 of the call made directly, by round, or its
// p50 if it adds to nothing. A round that lacks one of the two, or where nothing is added, is zero.
func added(paths []CallPath, results [][]measurement, i int) []float64 {
	v := each(results[i], p50)
	j := slices.IndexFunc(paths, func(o CallPath) bool { return o.ID == paths[i].Direct })
	if j < 0 {
		return v
	}
	direct := each(results[j], p50)
	for k := range v {
		if v[k] > 0 {
			v[k] = max(0, v[k]-direct[k])
		}
		if direct[k] == 0 {
			v[k] = 0
		}
	}
	return v
}

func (c *CallReport) write(w io.Writer) {
	section(w, fmt.Sprintf("MCP tools/call, directly and through swpd, HTTP in plain · %s (%d rounds)", c.title(), c.Rounds),
		"", "calls/s", "p50 µs", "p99 µs", "client CPU", "CPU of the two", "added p50 µs", "min–max", "added p99 µs", "added ÷", "min–max", "promise", "", "CPU ÷", "min–max", "promise", "")
	for _, r := range c.Rows {
		if r.PerSecond == nil {
			row(w, r.Name, append([]string{"not measured"}, make([]string, 15)...)...)
			continue
		}
		span := ""
		if r.Added != nil {
			span = fmt.Sprintf("%.1f–%.1f", r.Added.Min, r.Added.Max)
		}
		cells := []string{
			fmt.Sprintf("%.0f", r.PerSecond.Median), micros(r.P50), micros(r.P99), micros(r.ClientCPU), micros(r.SWPDCPU),
			micros(r.Added), span, micros(r.AddedP99),
		}
		row(w, r.Name, slices.Concat(cells, r.AddedRatio.cells(), r.CPURatio.cells())...)
	}
}
