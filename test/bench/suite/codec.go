package suite

import (
	"time"

	"github.com/slimwire/swp/test/bench/codec"
)

// codec times the two codecs on the same envelope.
func (r *run) codec() error {
	const rounds, window = 99, 5 * time.Millisecond // most windows are not interrupted
	for _, payload := range []int{64, 4 << 10} {
		cases, err := codec.Cases(payload)
		if err != nil {
			return err
		}
		times, err := codec.Measure(cases, rounds, window)
		if err != nil {
			return err
		}
		by := make(map[string][]float64)
		for i, c := range cases {
			by[c.Name] = times[i]
		}
		for _, c := range cases {
			row := CodecReport{Name: c.Name, Payload: payload, Nanos: spread(by[c.Name])}
			if c.Name == codec.PBFresh || c.Name == codec.PBReused {
				s, _ := ratios(by[c.Name], by[codec.E1])
				row.Ratio = &Ratio{Of: "time", Spread: s}
				if payload == 64 {
					row.Ratio.Promise = atLeast(s.Median, codecBound)
				}
			}
			r.report.Codec = append(r.report.Codec, row)
		}
	}
	return nil
}
