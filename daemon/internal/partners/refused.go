package partners

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/internal/partner"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/relay"
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

// refusedDelivery records the refusal of a delivery.
func (p *Partners) refusedDelivery(name, publisher, topic string, r relay.Refusal) {
	code, ok := profiles.ParseCode(r.Code)
	if !ok {
		code = profiles.InvalidProfilePayload
	}
	p.refused(partner.Refusal{
		Partner: name, Caller: publisher, Profile: relay.Name, Operation: "publish", Name: topic, Code: code, Endpoint: r.Endpoint,
	})
}

// refused writes the refusal by a partner to the audit trail. The name comes from a peer
// and the reason from the partner; the log truncates and escapes both.
func (p *Partners) refused(r partner.Refusal) {
	p.count(p.refusals.WithLabelValues(r.Partner, r.Code.String()), r.Partner)
	p.audit.With(
		zap.Stringer("err_code", r.Code),
		zap.String("partner", r.Partner),
		zap.String("endpoint", r.Endpoint),
	).Warn("refused by partner", part.From(r.Caller,
		zap.String("profile", r.Profile),
		zap.String("operation", r.Operation),
		zap.String("name", r.Name),
		zap.String("told", p.directory.Told(r.Partner, r.Caller)),
	)...)
}

// count counts something of a partner, unless it has been removed.
func (p *Partners) count(c prometheus.Counter, partner string) {
	c.Inc()
	if !p.Has(partner) {
		p.forget(partner)
	}
}

// newWrongs counts answers by which partners have broken the protocol. Labels are names from
// the configuration and of profiles.
func newWrongs() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "swpd_partner_wrong_answers_total", Help: "Answers by which the partner, or an endpoint behind it, has broken the protocol.",
	}, []string{"partner", "profile"})
}

// wrongDelivery is wrong for a delivery.
func (p *Partners) wrongDelivery(name, publisher, operation, about string, err error) {
	p.wrong(partner.Wrong{Partner: name, Caller: publisher, Profile: "relay", Operation: operation, Name: about, Err: err})
}

// wrongTask is wrong for a task, whose name begins with the name of the partner.
func (p *Partners) wrongTask(owner, task string, err error) {
	name, _, _ := strings.Cut(task, "/")
	p.wrong(partner.Wrong{Partner: name, Caller: owner, Profile: "a2a", Operation: "task", Name: task, Err: err})
}

// wrong writes to the audit trail that a partner has broken the protocol with an answer.
func (p *Partners) wrong(w partner.Wrong) {
	p.count(p.wrongs.WithLabelValues(w.Partner, w.Profile), w.Partner)
	p.audit.With(zap.String("partner", w.Partner)).Warn("wrong answer of partner", part.From(w.Caller,
		zap.String("profile", w.Profile),
		zap.String("operation", w.Operation),
		zap.String("name", w.Name),
		zap.Error(w.Err),
	)...)
}

// drifted writes to the log and to the audit trail that a partner lists a pinned tool otherwise now. The name
// of the tool is from the configuration.
func (p *Partners) drifted(name, identity, tool string, gone bool) {
	state := partner.Changed
	if gone {
		state = partner.Gone
	}
	if p.o.Drifted != nil {
		p.o.Drifted(name, identity, tool, gone)
	}
	p.audit.Warn("pinned tool of partner differs", zap.String("partner", name), zap.String("tool", tool), zap.String("state", string(state)),
		zap.String("advice", "calls of it are refused; swpd partner pin "+name+" shows and accepts it"))
}
