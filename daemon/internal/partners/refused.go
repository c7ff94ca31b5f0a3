package partners

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/slimwire/swp/internal/partner"
	"github.com/slimwire/swp/profiles/a2a"
)

// newRefusals counts refusals by partners. Label values are names from the configuration
// and error codes.
func newRefusals() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "swpd_partner_refusals_total", Help: "What the partner, or an endpoint behind it, has refused of what was passed on.",
	}, []string{"partner", "code"})
}

// refusedTask records the refusal of a task, whose name begins with the name of the
// partner.
func (p *Partners) refusedTask(r a2a.Refusal) {
	name, _, _ := strings.Cut(r.Name, "/")
	p.refused(partner.Refusal{
		Partner: name, Caller: r.Owner, Profile: "a2a", Operation: "task", Name: r.Name, Code: r.Code, Endpoint: r.Endpoint,
	})
}

// refused writes the refusal by a partner to the audit trail. The name comes from a peer
// and the reason from the partner; the log truncates and escapes both.
func (p *Partners) refused(r partner.Refusal) {
	p.refusals.WithLabelValues(r.Partner, r.Code.String()).Inc()
	if _, still := p.Of(r.Partner + "/" + r.Name); !still { // the partner was removed in the meantime
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
