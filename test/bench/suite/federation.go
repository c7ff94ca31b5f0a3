package suite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/slimwire/swp/test/bench/cert"
	"github.com/slimwire/swp/test/bench/echo"
	"github.com/slimwire/swp/test/bench/swpd"
	"github.com/slimwire/swp/test/bench/swpecho"
	"github.com/slimwire/swp/test/bench/swpmove"
)

// The transports of a link between two swpd, and what keys of such servers begin with.
const (
	transportTLS  = "tls"
	transportQUIC = "quic"
	linkKey       = "link-"
)

// The names of the systems where work crosses a link.
const (
	oneSWPD   = "one swpd"
	twoOnTLS  = "two swpd, link over TLS"
	twoOnQUIC = "two swpd, link over QUIC"
)

// Crossings returns the work that crosses a link, in the order of the table. The first
// system of each does the same at one swpd.
func Crossings() []Work {
	list := []Work{
		{Name: "echo, called by name", Systems: crossing("name", swpecho.DialTLS), Cells: []Cell{{64, 1, 1}, {64, 64, 1}}},
		{Name: "relay, published to consumed", Systems: crossing("relay", swpecho.DialRelay), Cells: []Cell{{256, 1, 1}, {256, 64, 1}}},
	}
	for _, n := range []int{1, 10, 1000} {
		list = append(list, Work{
			Name:    fmt.Sprintf("event fan-out to %d", n),
			Systems: crossing(fmt.Sprintf("events-%d", n), swpecho.DialFanOut(n))[:2],
			Cells:   []Cell{{256, 1, 1}, {256, 16, 1}},
		})
	}
	return list
}

func crossing(id string, dial echo.Dial) []System {
	return []System{
		{id + "-one", oneSWPD, swpdKey, dial, ""},
		{id + "-tls", twoOnTLS, linkKey + transportTLS, dial, id + "-one"},
		{id + "-quic", twoOnQUIC, linkKey + transportQUIC, dial, id + "-one"},
	}
}

// moveCrossings are the artifacts that cross a link, and one swpd.
func moveCrossings() []MoveSystem {
	return []MoveSystem{
		{"artifact-one", oneSWPD, swpdKey, swpmove.NewMover},
		{"artifact-tls", twoOnTLS, linkKey + transportTLS, swpmove.NewMover},
	}
}

// federation measures what crosses a link, and the same at one swpd. Ratios use
// measurements of the same round.
func (r *run) federation() error {
	if r.opts.SWPD == "" {
		return errNeedsProgram
	}
	rounds := max(1, r.opts.Rounds/4)
	report := new(FederationReport)
	r.report.Federation = report
	for _, w := range Crossings() {
		for _, cell := range w.Cells {
			c, err := r.measureWork(w, cell, rounds)
			if err != nil {
				return err
			}
			c.Divided = oneSWPD
			report.Work = append(report.Work, c)
		}
	}
	moves, err := r.moveAll(moveCrossings(), rounds)
	for i := range moves {
		moves[i].Divided = oneSWPD
	}
	report.Artifact = moves
	return err
}

func (f *FederationReport) write(w io.Writer) {
	for _, c := range f.Work {
		c.write(w)
	}
	for _, m := range f.Artifact {
		m.write(w)
	}
}

// reach returns the address of the server of a key and its process ids. It is started if it
// has to be.
func (f *fleet) reach(key string) (addr string, pids []int, err error) {
	if transport, linked := strings.CutPrefix(key, linkKey); linked {
		g, err := f.gateway(transport, swpd.AuditOff)
		if err != nil {
			return "", nil, err
		}
		return g.Route().String(), g.PIDs(), nil
	}
	if audit, audited := strings.CutPrefix(key, auditKey); audited {
		return f.audited(audit)
	}
	if strings.HasPrefix(key, clusterKey) {
		return f.clustered(key)
	}
	if key == "" {
		return "", nil, nil
	}
	srv, err := f.server(key)
	if err != nil {
		return "", nil, err
	}
	return srv.Addr(), []int{srv.PID()}, nil
}

// gateway returns the two swpd with a link over a transport and an audit trail each, which it
// starts if it has to.
func (f *fleet) gateway(transport, audit string) (*swpd.Gateway, error) {
	key := transport + " " + audit
	if g, ok := f.gateways[key]; ok {
		return g, nil
	}
	srv, err := f.server(mcpKey)
	if err != nil {
		return nil, err
	}
	command, err := stdioServer()
	if err != nil {
		return nil, err
	}
	g, err := swpd.StartGateway(f.ctx, f.opts.SWPD, f.dir, transport, swpd.Behind{URL: srv.Addr(), Command: command, Audit: audit})
	if err != nil {
		return nil, err
	}
	f.gateways[key] = g
	return g, f.linked(g)
}

// linkPatience is how long a link may take to be there.
const linkPatience = 10 * time.Second

// linked returns when the partner can be reached.
func (f *fleet) linked(g *swpd.Gateway) error {
	ctx, cancel := context.WithTimeoutCause(f.ctx, linkPatience, errors.New("suite: no link"))
	defer cancel()
	conn, err := swpecho.DialTLS(ctx, g.Route().String(), cert.Client(f.dir))
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // nothing is in flight
	for {
		err := conn.Caller().Echo(make([]byte, 64), func([]byte) error { return nil })
		if err == nil {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		}
	}
}
