// Package trail writes exchanges to the audit trail: the request of the peer, the deciding
// rule, and the outcome. It exchanges receipts with partners. Package audit defines the
// format of the files.
package trail

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/boundlog"
	"github.com/slimwire/swp/daemon/internal/health"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/daemon/internal/telemetry"
	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/audit"
	"github.com/slimwire/swp/internal/receipts"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/transport/endpoint"
)

// An exchange that lasts longer than long gets a record of its beginning too.
const (
	long      = time.Minute
	lookEvery = 10 * time.Second
)

// Trail is the audit trail of a daemon. It is the Recorder of its endpoints.
type Trail struct {
	part.Passive
	o    Options
	mode atomic.Pointer[string] // a mode of config.Audit
	file atomic.Pointer[audit.Trail]
	mu   sync.Mutex // guards opening the files

	book     *receipts.Book
	partners func() []receipts.Partner // see SetPartners

	records, lost atomic.Uint64
	merged        merger
}

// Options configure a Trail.
type Options struct {
	Config      *config.Config
	Log         *zap.Logger
	Identity    func() string
	Certificate func() *tls.Certificate

	// Rule returns the deciding access rule; empty if access was not checked.
	Rule func(identity, profile, operation, name string) string

	// Ruled reports whether a rule allows an identity anything.
	Ruled func(identity string) bool

	// PartnerOf returns the partner that an exchange was forwarded to; empty if none.
	PartnerOf func(s *profiles.Subject) string

	// RecordLong records the unfinished exchanges that began before a time.
	RecordLong func(before time.Time)

	// Roots returns the authorities of an identity.
	Roots func(identity string) *x509.CertPool
}

// New opens the trail of a configuration.
func New(o Options) (*Trail, error) {
	t := &Trail{o: o}
	t.book = receipts.New(receipts.Options{
		Self: o.Identity, Certificate: o.Certificate, Roots: o.Roots,
		Partners: func() []receipts.Partner { return t.partners() },
		Keep:     t.keep, Find: t.find, Observe: t.observe,
		Call: func(ctx context.Context, s profiles.Session, params []byte) ([]byte, error) {
			return rpc.Call(ctx, s, rpc.MethodReceipt, params)
		},
	})
	if err := t.use(o.Config); err != nil {
		return nil, err
	}
	return t, nil
}

// use opens the files if they are needed, and sets the mode.
func (t *Trail) use(c *config.Config) error {
	mode := c.AuditExchanges()
	file, err := t.open(mode, c)
	if err != nil {
		return err
	}
	if file != nil {
		file.Each(c.Audit.Sync == config.AuditSyncExchange)
		file.Bound(int64(c.Audit.Size))
	}
	t.mode.Store(&mode)
	t.book.Enable(c.Audit.Receipts)
	return nil
}

func (t *Trail) open(mode string, c *config.Config) (*audit.Trail, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if file := t.file.Load(); file != nil || mode == config.AuditOff {
		return file, nil
	}
	if c.Audit.Receipts {
		t.book.Recover(audit.Exchanged(context.Background(), t.o.Config.AuditDir(), recovered))
	}
	file, err := audit.Open(audit.Options{
		Dir: t.o.Config.AuditDir(), Size: int64(c.Audit.Size),
		Identity: t.o.Identity, Certificate: t.o.Certificate, Failed: t.failed,
	})
	if err == nil {
		t.file.Store(file)
	}
	return file, err
}

// recovered is how many octets of the trail are read at a start, for exchanges without a
// receipt. A partner may ask for those of minutes, as long as the link was down.
const recovered = 64 << 20

// Section is the reloadable part of the configuration.
func Section(prepare part.Prepare) part.Section {
	return part.Section{Name: "audit trail", Stays: "it goes on as before", Keys: []string{"audit"}, Prepare: prepare}
}

// Prepare opens the files if they are needed, so that a mode without writable files does
// not come into force.
func (t *Trail) Prepare(c *config.Config) (part.Change, error) {
	if _, err := t.open(c.AuditExchanges(), c); err != nil {
		return part.Change{}, err
	}
	return part.Change{
		Fields: []zap.Field{zap.String("exchanges", c.AuditExchanges())},
		Commit: func() bool {
			_ = t.use(c) // it is open
			return false
		},
	}, nil
}

// failed is called when writing fails or works again.
func (t *Trail) failed(err error) {
	if err == nil {
		t.o.Log.Info("audit records are written again")
		return
	}
	t.o.Log.Error("audit records cannot be written", zap.Error(err), zap.Bool("exchanges_refused", *t.mode.Load() == config.AuditAll))
}

// Serve implements part.Part: it records long exchanges, and exchanges receipts.
func (t *Trail) Serve(ctx context.Context) {
	var exchanging sync.WaitGroup
	defer exchanging.Wait()
	exchanging.Go(func() { t.book.Run(ctx) })
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			t.o.RecordLong(now.Add(-long))
			t.appendMerged(now, false)
		}
	}
}

// Look implements part.Part.
func (t *Trail) Look(h *part.Health) {
	file := t.file.Load()
	if file == nil {
		return
	}
	t.lookReceipts(h)
	switch err := file.Err(); {
	case err == nil:
	case *t.mode.Load() == config.AuditAll:
		h.Reasons = append(h.Reasons, "exchanges are refused because audit records cannot be written: "+err.Error())
	default:
		h.WarnWith("audit records cannot be written", ": "+err.Error())
	}
}

// Health returns the state of the audit trail, if one is written.
func (t *Trail) Health() []health.Seen {
	file := t.file.Load()
	if file == nil {
		return nil
	}
	one := health.Seen{Name: "audit trail", State: health.OK}
	if err := file.Err(); err != nil {
		one.State, one.Fault, one.Why = health.Failing, health.TrailWrite, err.Error()
	}
	return []health.Seen{one}
}

// Close implements part.Part.
func (t *Trail) Close() error {
	t.appendMerged(time.Now(), true)
	if file := t.file.Load(); file != nil {
		return file.Close()
	}
	return nil
}

// unrecorded are methods without records: they only show that the other end responds, or
// are about records.
var unrecorded = []string{rpc.MethodPing, rpc.MethodEcho, rpc.MethodSync, rpc.MethodInfo, rpc.MethodReceipt}

// Keeps implements endpoint.Recorder.
func (t *Trail) Keeps(env *e1.Envelope) bool {
	return *t.mode.Load() != config.AuditOff && !withoutRecord(env)
}

// Admit implements endpoint.Recorder.
func (t *Trail) Admit() error {
	file := t.file.Load()
	if file == nil || *t.mode.Load() != config.AuditAll || file.Err() == nil {
		return nil
	}
	text := "the audit trail of this endpoint cannot be written; try again later"
	if errors.Is(file.Err(), syscall.ENOSPC) {
		text = "the volume of this endpoint's audit trail is full; nothing is done until its operator has made room on the disk"
	}
	return &profiles.Error{Code: profiles.Internal, Detail: "audit", Retryable: true, Text: text}
}

// withoutRecord reports whether a message calls a method without records.
func withoutRecord(env *e1.Envelope) bool {
	if env.ProfileID != rpc.ProfileID || env.MsgType != rpc.TypeReq {
		return false
	}
	var call rpc.Req
	return call.Decode(env.Joined().Payload) == nil && slices.Contains(unrecorded, string(call.Method))
}

// wants returns the trail for an exchange; nil if it is not recorded.
func (t *Trail) wants(r *endpoint.Report, crossing *receipts.Ledger) *audit.Trail {
	file, mode := t.file.Load(), *t.mode.Load()
	switch {
	case file == nil, mode == config.AuditOff, mode == config.AuditDenials && r.Outcome != profiles.OutcomeDenied:
		return nil
	case r.Subject.Part && r.Outcome == profiles.OutcomeOK && crossing == nil, r.Verdict.Detail == "audit":
		return nil
	}
	return file
}

// Begin implements endpoint.Recorder.
func (t *Trail) Begin(r endpoint.Report) uint64 { return t.write(&r, true) }

// Record implements endpoint.Recorder.
func (t *Trail) Record(r endpoint.Report) uint64 { return t.write(&r, false) }

// Commit implements endpoint.Recorder.
func (t *Trail) Commit() {
	if file := t.file.Load(); file != nil {
		file.Commit()
	}
}

func (t *Trail) write(r *endpoint.Report, begins bool) uint64 {
	v := &r.Verdict
	peer := r.Peer
	var ledger *receipts.Ledger
	if !r.Aside { // else the peer lists no such exchange
		ledger = t.book.Answers(v.Session.Peer().Identity)
	}
	file := t.wants(r, ledger)
	if file == nil {
		return 0
	}
	rec := audit.Record{
		Time: r.Began.Add(r.Took), Took: r.Took, Begins: begins, Begun: r.Begun, Identity: bounded(profiles.Link(peer.Identity)), For: bounded(profiles.For(peer.Identity)),
		Profile: r.Subject.Profile, Operation: bounded(r.Subject.Operation), Name: bounded(r.Subject.Name),
		Partner: t.o.PartnerOf(&r.Subject),
		Outcome: telemetry.OutcomeOf(r), OK: r.Outcome == profiles.OutcomeOK,
		In: uint64(v.Bytes) + r.Subject.Before, Out: uint64(r.Sent), Request: r.Request, Answer: r.Answer,
		Transport: telemetry.TransportOf(peer), Session: v.Session.ID(), Trace: telemetry.TraceID(profiles.TraceOf(r.Context)),
	}
	rec.Rule = t.o.Rule(peer.Identity, r.Subject.Profile, r.Subject.Operation, r.Subject.Name)
	if r.Outcome == profiles.OutcomeDenied && strings.HasPrefix(rec.Rule, "access.rules") {
		rec.Rule, rec.Reason = "", cmp.Or(r.Subject.Why, v.Detail) // the rule allows it
	}
	if d := profiles.DelegationOf(r.Context); d != nil {
		rec.Chain = hex.EncodeToString([]byte(d.ChainID))
	}
	rec.Hints = profiles.FormatHints(profiles.AllHints(r.Context))
	if ledger == nil || begins {
		small := r.Outcome == profiles.OutcomeDenied || rec.Rule == "" && !t.o.Ruled(peer.Identity)
		if small && !begins && r.Begun == 0 {
			return t.appendShared(file, &rec)
		}
		return t.append(file, &rec)
	}
	rec.Crossing = audit.Crossing{
		MsgID: v.MsgID, ProfileID: v.ProfileID, MsgType: v.MsgType, AnswerType: r.AnswerType, Caller: r.Caller, Target: r.Target,
		Complete: r.Outcome != profiles.OutcomeLost,
	}
	sequence := t.append(file, &rec)
	if sequence > 0 {
		x := rec.Exchange()
		ledger.Answered(&x, sequence)
	}
	return sequence
}

// Deny records the denial of a request before its exchange, as one over HTTP whose body was not
// read.
func (t *Trail) Deny(identity, profile, operation, name string) {
	file, mode := t.file.Load(), *t.mode.Load()
	if file == nil || mode == config.AuditOff {
		return
	}
	t.appendShared(file, &audit.Record{
		Time: time.Now(), Identity: bounded(profiles.Link(identity)), For: bounded(profiles.For(identity)),
		Profile: profile, Operation: bounded(operation), Name: bounded(name), Rule: t.o.Rule(identity, profile, operation, name),
		Outcome: profiles.OutcomeDenied.With(profiles.SecurityPolicy), Transport: telemetry.TransportOf(&profiles.Peer{Identity: identity}),
	})
}

// appendShared adds the record of a denial, or of an identity without rules, or counts it in
// that of others.
func (t *Trail) appendShared(file *audit.Trail, rec *audit.Record) uint64 {
	if t.merged.merges(rec, t.records.Load(), file.Size()) {
		return 0
	}
	return t.append(file, rec)
}

// appendMerged adds the merged records that are due, or all.
func (t *Trail) appendMerged(now time.Time, all bool) {
	file := t.file.Load()
	if file == nil {
		return
	}
	for _, rec := range t.merged.take(now, all, t.records.Load(), file.Size()) {
		t.append(file, rec)
	}
}

// append adds a record, and counts it.
func (t *Trail) append(file *audit.Trail, rec *audit.Record) uint64 {
	sequence := file.Append(rec)
	if sequence == 0 {
		t.lost.Add(1)
		return 0
	}
	t.records.Add(1)
	return sequence
}

// most limits a text of a peer in a record, in octets.
const most = 512

// bounded truncates a text of a peer. The record escapes it.
func bounded(s string) string {
	if len(s) <= most {
		return s
	}
	return boundlog.Clean(s)
}

var (
	recordsTotal = prometheus.NewDesc("swpd_audit_records_total", "Records of exchanges in the audit trail.", nil, nil)
	recordsLost  = prometheus.NewDesc("swpd_audit_records_lost_total", "Records that are missing because the disk failed for too long.", nil, nil)
	failing      = prometheus.NewDesc("swpd_audit_failing", "1 while audit records cannot be written.", nil, nil)
)

// Collectors implements part.Part.
func (t *Trail) Collectors() []prometheus.Collector { return []prometheus.Collector{t} }

// Describe implements prometheus.Collector.
func (t *Trail) Describe(ch chan<- *prometheus.Desc) {
	ch <- recordsTotal
	ch <- recordsLost
	ch <- failing
	ch <- receiptsTotal
	ch <- receiptExchanges
	ch <- receiptWaiting
}

// Collect implements prometheus.Collector.
func (t *Trail) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(recordsTotal, prometheus.CounterValue, float64(t.records.Load()))
	ch <- prometheus.MustNewConstMetric(recordsLost, prometheus.CounterValue, float64(t.lost.Load()))
	down := 0.0
	if file := t.file.Load(); file != nil && file.Err() != nil {
		down = 1
	}
	ch <- prometheus.MustNewConstMetric(failing, prometheus.GaugeValue, down)
	t.collectReceipts(ch)
}
