// Package history keeps the last 24 hours of some metrics, a point a minute, over restarts: the page draws
// them, and nobody needs a server of metrics for that.
package history

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/internal/part"
)

const (
	// step is the time between two points.
	step = time.Minute

	// points is the number of points of a series.
	points = int64(24 * time.Hour / step)

	// MaxSeries bounds the series of all charts.
	MaxSeries = 500

	// Other is the label of the series that sums up the smaller ones.
	Other = "other"
)

// A point is taken at the end of its minute. absent is the point of a minute without one.
var absent = float32(math.NaN())

// Recorder takes a point of each series every minute. It is safe for concurrent use.
type Recorder struct {
	part.Passive

	source prometheus.Gatherer
	file   string
	log    *zap.Logger

	unsaved part.Fault

	mu     sync.Mutex
	opened bool
	charts []*chart
	last   int64 // minute of the newest point, since 1970
	read   time.Time
}

// chart is the series of a Chart.
type chart struct {
	Chart
	most   int // series, the one of the rest included
	series map[string]*series
	before map[string]reading // of counters and histograms, by their labels
}

// series has the point of minute m at m % points.
type series struct {
	ring []float32
}

func newSeries() *series {
	s := &series{ring: make([]float32, points)}
	for i := range s.ring {
		s.ring[i] = absent
	}
	return s
}

// mean returns the mean of the points that there are. Of none it is negative.
func (s *series) mean() float64 {
	sum, n := 0.0, 0
	for _, v := range s.ring {
		if v == v {
			sum, n = sum+float64(v), n+1
		}
	}
	if n == 0 {
		return -1
	}
	return sum / float64(n)
}

// add adds the points of another series.
func (s *series) add(other *series) {
	for i, v := range other.ring {
		switch {
		case v != v:
		case s.ring[i] != s.ring[i]:
			s.ring[i] = v
		default:
			s.ring[i] += v
		}
	}
}

// New returns a Recorder of charts that takes its points from source. The file keeps them over restarts;
// without a name they are not kept.
func New(source prometheus.Gatherer, charts []Chart, file string, log *zap.Logger) *Recorder {
	r := &Recorder{source: source, file: file, log: log}
	for _, c := range charts {
		r.charts = append(r.charts, &chart{Chart: c, most: MaxSeries / len(charts), series: make(map[string]*series)})
	}
	return r
}

// Open implements part.Part: it reads the file.
func (r *Recorder) Open() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := minute(time.Now())
	r.load(now)
	r.look(now, false)
	r.opened = true
	return nil
}

// Serve implements part.Part: it takes a point at the end of each minute.
func (r *Recorder) Serve(ctx context.Context) {
	for taken := 1; ; taken++ {
		now := time.Now()
		select {
		case <-time.After(now.Truncate(step).Add(step).Sub(now)):
		case <-ctx.Done():
			return
		}
		r.mu.Lock()
		r.look(minute(time.Now())-1, true)
		r.mu.Unlock()
		if taken%saveEvery == 0 {
			r.save()
		}
	}
}

// Close implements part.Part: it writes the file.
func (r *Recorder) Close() error {
	r.mu.Lock()
	opened := r.opened
	r.mu.Unlock()
	if opened {
		r.save()
	}
	return nil
}

func minute(t time.Time) int64 { return t.Unix() / int64(step/time.Second) }

// saveEvery is the number of minutes after which the file is written.
const saveEvery = 5

// look reads the metrics, and enters them as the points of a minute if they are taken. The caller holds mu.
func (r *Recorder) look(at int64, take bool) {
	families, err := r.source.Gather() // with an error it returns what could be read
	if err != nil && len(families) == 0 {
		r.log.Warn("the metrics of this minute cannot be read, and the page has no point for it", zap.Error(err))
		return
	}
	if take {
		r.forward(at)
	}
	named := make(map[string]*dto.MetricFamily, len(families))
	for _, f := range families {
		named[f.GetName()] = f
	}
	now := time.Now()
	seconds := now.Sub(r.read).Seconds()
	r.read = now
	for _, c := range r.charts {
		values := c.read(named[c.Metric], seconds)
		if take {
			c.enter(at, values)
		}
	}
}

// forward empties the points of the minutes up to one. A clock that goes back writes over points. The caller
// holds mu.
func (r *Recorder) forward(to int64) {
	for m := max(r.last+1, to-points+1); m < to; m++ {
		r.empty(m)
	}
	r.empty(to)
	r.last = to
}

func (r *Recorder) empty(m int64) {
	for _, c := range r.charts {
		for _, s := range c.series {
			s.ring[m%points] = absent
		}
	}
}

// enter enters the values of a minute, by label. While there is room each label has a series. Then one that
// has more than the weakest series has on average takes its place, and the rest is summed up.
func (c *chart) enter(at int64, values map[string]float64) {
	labels := make([]string, 0, len(values))
	for label := range values {
		labels = append(labels, label)
	}
	slices.SortFunc(labels, func(a, b string) int {
		return cmp.Or(cmp.Compare(values[b], values[a]), cmp.Compare(a, b))
	})
	for _, label := range labels {
		s := c.place(label, values[label])
		if s == nil {
			continue
		}
		if i := at % points; s.ring[i] == s.ring[i] {
			s.ring[i] += float32(values[label])
		} else {
			s.ring[i] = float32(values[label])
		}
	}
}

// place returns the series for a label that has a value now, and nil for one that is not drawn.
func (c *chart) place(label string, value float64) *series {
	if s := c.series[label]; s != nil {
		return s
	}
	if len(c.series) < c.most-1 || label == Other {
		return c.begin(label)
	}
	var weakest string
	least := math.Inf(1)
	for name, s := range c.series {
		if mean := s.mean(); name != Other && (mean < least || mean == least && name < weakest) {
			weakest, least = name, mean
		}
	}
	if value > least {
		if c.sums() && least > 0 {
			c.rest().add(c.series[weakest])
		}
		delete(c.series, weakest)
		return c.begin(label)
	}
	if !c.sums() {
		return nil
	}
	return c.rest()
}

func (c *chart) begin(label string) *series {
	s := newSeries()
	c.series[label] = s
	return s
}

func (c *chart) rest() *series {
	if s := c.series[Other]; s != nil {
		return s
	}
	return c.begin(Other)
}
