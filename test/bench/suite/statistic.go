package suite

import "slices"

// Spread is what a figure was in several rounds. The median is what counts; the
// ends say how far to trust it.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// spread returns the Spread of at least one value.
func spread(values []float64) Spread {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	return Spread{Median: (v[(n-1)/2] + v[n/2]) / 2, Min: v[0], Max: v[n-1]}
}

// ratios divides round by round and leaves out rounds that one of the two lacks,
// which are zero.
func ratios(subject, peer []float64) (Spread, bool) {
	var r []float64
	for i := range min(len(subject), len(peer)) {
		if subject[i] > 0 && peer[i] > 0 {
			r = append(r, subject[i]/peer[i])
		}
	}
	if len(r) == 0 {
		return Spread{}, false
	}
	return spread(r), true
}

// differences subtracts round by round and leaves out rounds that one of the two
// lacks, which are zero. It returns nil if none is left.
func differences(subject, peer []float64) *Spread {
	var d []float64
	for i := range min(len(subject), len(peer)) {
		if subject[i] > 0 && peer[i] > 0 {
			d = append(d, subject[i]-peer[i])
		}
	}
	if len(d) == 0 {
		return nil
	}
	s := spread(d)
	return &s
}
