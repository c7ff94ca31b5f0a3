package page

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/slimwire/swp/daemon/internal/operator"
	"github.com/slimwire/swp/transport/endpoint"
)

// Snapshot is one event of /live.
type Snapshot struct {
	Time     int64               `json:"time"` // milliseconds since 1970
	Status   any                 `json:"status"`
	Sessions []Session           `json:"sessions"` // at most 500
	Metrics  map[string][]Sample `json:"metrics"`  // by name; only those of swpd
}

// Session is an open connection.
type Session struct {
	Number    uint64 `json:"number"` // of the session at its listener
	ID        string `json:"id"`     // for actions, see operator.SessionID
	Identity  string `json:"identity"`
	Transport string `json:"transport"`
	Addr      string `json:"addr"`
	NotAfter  int64  `json:"not_after,omitempty"` // end of the certificate, seconds since 1970
}

// Sample is one value of a metric. Of a histogram, Value is the number of observations.
type Sample struct {
	Labels  map[string]string `json:"labels,omitempty"`
	Value   float64           `json:"value"`
	Sum     float64           `json:"sum,omitempty"`
	Buckets [][2]float64      `json:"buckets,omitempty"` // upper bound, and how many are at most as large
}

func (p *Page) look(now time.Time) *Snapshot {
	s := &Snapshot{Time: now.UnixMilli(), Status: p.source.Status(), Sessions: []Session{}, Metrics: make(map[string][]Sample)}
	for one := range p.source.Sessions() {
		s.Sessions = append(s.Sessions, describe(one))
	}
	slices.SortFunc(s.Sessions, func(a, b Session) int {
		return cmp.Or(cmp.Compare(a.Identity, b.Identity), cmp.Compare(a.Number, b.Number))
	})
	s.Sessions = s.Sessions[:min(len(s.Sessions), maxListed)]
	families, _ := p.source.Metrics.Gather() // what could be gathered, without a metric that failed
	for _, family := range families {
		if !strings.HasPrefix(family.GetName(), "swpd_") {
			continue
		}
		for _, m := range family.GetMetric() {
			s.Metrics[family.GetName()] = append(s.Metrics[family.GetName()], sample(m))
		}
	}
	return s
}

func describe(s *endpoint.Session) Session {
	peer := s.Peer()
	d := Session{Number: s.ID(), ID: operator.SessionID(s), Identity: peer.Identity, Transport: peer.Transport, Addr: peer.Addr}
	if !peer.NotAfter.IsZero() {
		d.NotAfter = peer.NotAfter.Unix()
	}
	return d
}

func sample(m *dto.Metric) Sample {
	s := Sample{}
	for _, label := range m.GetLabel() {
		if s.Labels == nil {
			s.Labels = make(map[string]string)
		}
		s.Labels[label.GetName()] = label.GetValue()
	}
	switch {
	case m.Counter != nil:
		s.Value = m.Counter.GetValue()
	case m.Gauge != nil:
		s.Value = m.Gauge.GetValue()
	case m.Histogram != nil:
		s.Value, s.Sum = float64(m.Histogram.GetSampleCount()), m.Histogram.GetSampleSum()
		for _, b := range m.Histogram.GetBucket() {
			if !math.IsInf(b.GetUpperBound(), 1) {
				s.Buckets = append(s.Buckets, [2]float64{b.GetUpperBound(), float64(b.GetCumulativeCount())})
			}
		}
	case m.Untyped != nil:
		s.Value = m.Untyped.GetValue()
	}
	if math.IsNaN(s.Value) || math.IsInf(s.Value, 0) {
		s.Value = 0 // JSON has neither
	}
	return s
}
