package trail

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/boundlog"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/daemon/internal/telemetry"
	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/audit"
	"github.com/slimwire/swp/internal/receipts"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/transport/endpoint"
)

// Offer implements part.Part.
func (t *Trail) Offer(o *all.Options) error {
	o.RPC.Receipt = t.book.Receive
	o.Methods = func(peer *profiles.Peer) []string {
		if t.book.Tell(peer.Identity) {
			return []string{rpc.MethodReceipt}
		}
		return nil
	}
	return nil
}

// SetPartners says how to get the links for receipts. It is called once, before a session
// is served.
func (t *Trail) SetPartners(partners func() []receipts.Partner) { t.partners = partners }

// LinksChanged has the partners be looked at again.
func (t *Trail) LinksChanged() { t.book.Changed() }

// Receipts is the state of the receipts with a partner.
type Receipts = receipts.Status

// Receipts returns the state of the receipts with each partner.
func (t *Trail) Receipts() []Receipts { return t.book.Status() }

// Records implements endpoint.CallRecorder: exchanges at partners that exchange receipts
// have a record here, too.
func (t *Trail) Records(s *endpoint.Session, env *e1.Envelope) bool {
	return t.book.Asks(s.Peer().Identity) != nil && *t.mode.Load() == config.AuditAll && !withoutRecord(env)
}

// RecordCall implements endpoint.CallRecorder.
func (t *Trail) RecordCall(r endpoint.CallReport) {
	peer := r.Session.Peer()
	ledger, file := t.book.Asks(peer.Identity), t.file.Load()
	if ledger == nil || file == nil {
		return // turned off in the meantime
	}
	rec := audit.Record{
		Time: r.Began.Add(r.Took), Took: r.Took, Identity: bounded(peer.Identity), Partner: ledger.Name(), Sent: true,
		Profile: r.Profile, Operation: r.Type, Outcome: sentOutcome(&r), OK: r.Complete && r.Fault == nil,
		In: uint64(r.Received), Out: uint64(r.Sent), Request: r.Request, Answer: r.Answer,
		Crossing: audit.Crossing{
			MsgID: r.MsgID, ProfileID: r.ProfileID, MsgType: r.MsgType, AnswerType: r.AnswerType,
			Caller: r.Caller, Target: r.Target, Complete: r.Complete,
		},
		Transport: telemetry.TransportOf(peer), Session: r.Session.ID(), Trace: telemetry.TraceID(profiles.TraceOf(r.Context)),
	}
	if rec.Profile == "" {
		rec.Profile = fmt.Sprint(r.ProfileID)
	}
	if sequence := t.append(file, &rec); sequence > 0 {
		x := rec.Exchange()
		ledger.Asked(&x, sequence)
	}
}

// sentOutcome is the outcome of an exchange at a partner, if known without its
// profile.
func sentOutcome(r *endpoint.CallReport) string {
	switch {
	case r.Complete && r.Fault != nil:
		return "refused:" + profiles.AsError(r.Fault).Code.String()
	case r.Complete && r.AnswerType == 0:
		return "accepted"
	case r.Complete:
		return "answered"
	}
	return "unanswered"
}

// keep writes a receipt.
func (t *Trail) keep(partner string, r *audit.Receipt) (uint64, error) {
	return t.file.Load().Receipt(partner, r)
}

// find adds a finding.
func (t *Trail) find(f *audit.PartnerFinding) {
	f.Text = boundlog.Clean(f.Text)
	t.file.Load().Find(f)
}

// observe logs what is wrong with receipts.
func (t *Trail) observe(e receipts.Event) {
	fields := []zap.Field{zap.String("partner", e.Partner), zap.String("finding", e.What), zap.String("reason", boundlog.Clean(e.Text))}
	if e.Exchanges > 0 {
		fields = append(fields, zap.Int("exchanges", e.Exchanges))
	}
	t.o.Log.Warn("finding about receipts", fields...)
}

// lookReceipts warns of exchanges that the two ends tell differently.
func (t *Trail) lookReceipts(h *part.Health) {
	for _, s := range t.book.Status() {
		if n := s.Differing + s.Unknown; n > 0 {
			h.Warn(fmt.Sprintf("receipts of partner %s: it says otherwise of %d exchanges, or does not know them; see swpd audit find --outcome 'receipt:*'", s.Partner, n))
		}
		if s.Unlisted > 0 {
			h.Warn(fmt.Sprintf("receipts of partner %s: it has not confirmed %d exchanges that it has opened here; see swpd audit find --outcome receipt:unlisted", s.Partner, s.Unlisted))
		}
	}
}

var (
	receiptsTotal    = prometheus.NewDesc("swpd_audit_receipts_total", "Receipts exchanged with a partner: sent and answered, received and answered, received and refused.", []string{"partner", "result"}, nil)
	receiptExchanges = prometheus.NewDesc("swpd_audit_receipt_exchanges_total", "Exchanges with a partner by what the receipts of both ends say.", []string{"partner", "result"}, nil)
	receiptWaiting   = prometheus.NewDesc("swpd_audit_receipt_waiting", "Exchanges that wait for a receipt of the partner.", []string{"partner"}, nil)
)

func (t *Trail) collectReceipts(ch chan<- prometheus.Metric) {
	for _, s := range t.book.Status() {
		for result, n := range map[string]uint64{"sent": s.Sent, "received": s.Received, "refused": s.Refused} {
			ch <- prometheus.MustNewConstMetric(receiptsTotal, prometheus.CounterValue, float64(n), s.Partner, result)
		}
		for result, n := range map[string]uint64{"confirmed": s.Confirmed, "differing": s.Differing, "unknown": s.Unknown, "skipped": s.Skipped, "unlisted": s.Unlisted} {
			ch <- prometheus.MustNewConstMetric(receiptExchanges, prometheus.CounterValue, float64(n), s.Partner, result)
		}
		ch <- prometheus.MustNewConstMetric(receiptWaiting, prometheus.GaugeValue, float64(s.Waiting), s.Partner)
	}
}
