package partners

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/slimwire/swp/internal/partner"
	"github.com/slimwire/swp/profiles/a2a"
)

// newRefusals counts what partners have refused. Labels are names from the configuration
// and codes.
func newRefusals() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "swpd_partner_refusals_total", Help: "What the partner, or an endpoint behind it, has refused of what was passed on.",
	}, []string{"partner", "code"})
}

// refusedTask is refused for a task, whose name begins with that of the partner.
func (p *Partners) refusedTask(r a2a.Refusal) {
	name, _, _ := strings.Cut(r.Name, "/")
	p.refused(partner.Refusal{
		Partner: name, Caller: r.Owner, Profile: "a2a", Operation: "task", Name: r.Name, Code: r.Code, Endpoint: r.Endpoint,
	})
}

// refused writes to the audit trail that a partner has refused something. What was
// asked is what a peer wrote, and who refused it what the partner says: the log cuts
// and escapes both.
func (p *Partners) refused(r partner.Refusal) {
	p.refusals.WithLabelValues(r.Partner, r.Code.String()).Inc()
	if _, still := p.Of(r.Partner + "/" + r.Name); !still { // it was removed meanwhile
		p.forget(r.Partner)
	}
	p.audit.Warn("refused by partner",
		zap.Stringer("err_code", r.Code),
		zap.String("partner", r.Partner),
		zap.String("endpoint", r.Endpoint),
		zap.String("peer", r.Caller),
		zap.String("profile", r.Profile),
		zap.String("operation", r.Operation),
		zap.String("name", r.Name),
	)
}
