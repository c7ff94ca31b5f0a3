package history

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"
)

// View is what there is of the last 24 hours, or of a part of them.
type View struct {
	Begin  time.Time   `json:"begin"` // of the minute of the first points
	Step   int         `json:"step"`  // seconds from one point to the next
	Charts []ChartView `json:"charts"`
}

// ChartView has the series of a chart, the largest first and Other last.
type ChartView struct {
	Chart
	Series []SeriesView `json:"series"`
}

// SeriesView is a series. A minute without a point is null.
type SeriesView struct {
	Label  string  `json:"label"`
	Points []Point `json:"points"`
}

// Point is a point of a series. Without a value it is not a number.
type Point float32

// MarshalJSON implements json.Marshaler.
func (p Point) MarshalJSON() ([]byte, error) {
	if v := float64(p); !math.IsNaN(v) && !math.IsInf(v, 0) {
		return strconv.AppendFloat(nil, v, 'g', 4, 32), nil
	}
	return []byte("null"), nil
}

// View returns the points from a minute on, of at most most series of each chart: of others the sum, where one can
// be made.
func (r *Recorder) View(since time.Time, most int) *View {
	r.mu.Lock()
	defer r.mu.Unlock()
	from := min(max(minute(since), r.last-points+1), r.last+1)
	v := &View{Begin: time.Unix(from*int64(step/time.Second), 0).UTC(), Step: int(step / time.Second), Charts: make([]ChartView, 0, len(r.charts))}
	for _, c := range r.charts {
		one := ChartView{Chart: c.Chart, Series: []SeriesView{}}
		for _, s := range c.shown(most) {
			drawn := make([]Point, 0, r.last-from+1)
			for m := from; m <= r.last; m++ {
				drawn = append(drawn, Point(s.ring[m%points]))
			}
			one.Series = append(one.Series, SeriesView{s.label, drawn})
		}
		v.Charts = append(v.Charts, one)
	}
	return v
}

// labelled is a series and its label.
type labelled struct {
	label string
	*series
	mean float64
}

// shown returns the largest series, and the sum of the others, where one can be made. The caller holds mu.
func (c *chart) shown(most int) []labelled {
	var all []labelled
	for label, s := range c.series {
		if label != Other {
			all = append(all, labelled{label, s, s.mean()})
		}
	}
	slices.SortFunc(all, func(a, b labelled) int { return cmp.Or(cmp.Compare(b.mean, a.mean), cmp.Compare(a.label, b.label)) })
	kept := min(len(all), most)
	rest := newSeries()
	if s := c.series[Other]; s != nil {
		rest.add(s)
	}
	if c.sums() {
		for _, s := range all[kept:] {
			rest.add(s.series)
		}
	}
	if rest.mean() < 0 {
		return all[:kept]
	}
	return append(all[:kept:kept], labelled{label: Other, series: rest})
}
