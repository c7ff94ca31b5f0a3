package suite

import (
	"strings"

	"github.com/slimwire/swp/test/bench/echo"
	"github.com/slimwire/swp/test/bench/mcpecho"
	"github.com/slimwire/swp/test/bench/swpd"
	"github.com/slimwire/swp/test/bench/swpecho"
)

// What keys of pairs of swpd with an audit trail begin with, and those of their HTTP fronts.
const (
	auditKey  = "audit-"
	auditHTTP = "http-"
)

// noAudit is what the others are compared with.
const noAudit = "audit off"

// Audits returns the work that two swpd with a link do, each with every audit trail.
func Audits() []Work {
	small := []Cell{{64, 1, 1}, {64, 64, 1}}
	return []Work{
		{Name: "RPC call over a link", Systems: audits("rpc", auditKey, swpecho.DialList), Cells: small},
		{Name: "MCP call over a link, from HTTP", Systems: audits("mcp", auditKey+auditHTTP, mcpecho.DialHTTP), Cells: small},
		{Name: "relay over a link, published to consumed", Systems: audits("relay", auditKey, swpecho.DialRelay), Cells: []Cell{{256, 1, 1}, {256, 64, 1}}},
	}
}

func audits(id, key string, dial echo.Dial) []System {
	subject := id + "-audit-" + swpd.AuditOff
	return []System{
		{subject, noAudit, key + swpd.AuditOff, dial, ""},
		{id + "-audit-denials", "denials", key + "denials", dial, subject},
		{id + "-audit-all", "all exchanges", key + "all", dial, subject},
		{id + "-audit-receipts", "all exchanges, receipts", key + "receipts", dial, subject},
	}
}

// audit measures what an audit trail and receipts cost.
func (r *run) audit() error {
	if r.opts.SWPD == "" {
		return errNeedsProgram
	}
	for _, w := range Audits() {
		for _, cell := range w.Cells {
			c, err := r.measureWork(w, cell, r.opts.Rounds)
			if err != nil {
				return err
			}
			c.Divided = noAudit
			r.report.Audit = append(r.report.Audit, c)
		}
	}
	return nil
}

// audited returns where the pair with an audit trail is reached.
func (f *fleet) audited(name string) (addr string, pids []int, err error) {
	name, overHTTP := strings.CutPrefix(name, auditHTTP)
	g, err := f.gateway(transportTLS, name)
	switch {
	case err != nil:
		return "", nil, err
	case overHTTP:
		return g.Addr("url"), g.PIDs(), nil
	}
	return g.Route().String(), g.PIDs(), nil
}
