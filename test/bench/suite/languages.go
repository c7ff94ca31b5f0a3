package suite

import (
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/slimwire/swp/test/bench/codec"
	"github.com/slimwire/swp/test/bench/language"
)

// LanguageReport is one way to read a message.
type LanguageReport struct {
	Name        string  `json:"name"`
	PerSecond   Spread  `json:"per_second"` // on one core
	Nanos       Spread  `json:"ns"`
	Allocations float64 `json:"allocations"`
	Subject     string  `json:"compared_to,omitempty"` // ours, which this one's time is divided by
	Ratio       *Ratio  `json:"ratio,omitempty"`
}

// languages times reading messages of the languages, on one core.
func (r *run) languages() error {
	const rounds, window = 25, 10 * time.Millisecond
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	cases, err := language.Cases()
	if err != nil {
		return err
	}
	plain := make([]codec.Case, len(cases))
	for i, c := range cases {
		plain[i] = c.Case
	}
	times, err := codec.Measure(plain, rounds, window)
	if err != nil {
		return err
	}
	by := make(map[string][]float64)
	for i, c := range cases {
		by[c.Name] = times[i]
		rates := make([]float64, rounds)
		for j, ns := range times[i] {
			rates[j] = 1e9 / ns
		}
		row := LanguageReport{Name: c.Name, PerSecond: spread(rates), Nanos: spread(times[i]), Subject: c.Subject}
		if row.Allocations, err = c.Allocations(); err != nil {
			return err
		}
		if c.Subject != "" {
			s, _ := ratios(times[i], by[c.Subject])
			row.Ratio = &Ratio{Of: "time", Spread: s}
		}
		r.report.Languages = append(r.report.Languages, row)
	}
	return nil
}

func (r *Report) writeLanguages(w io.Writer) {
	for i, l := range r.Languages {
		if i == 0 {
			section(w, "Reading one message of a language, one core",
				"", "messages/s", "ns", "min", "max", "allocations", "it ÷ ours", "min–max")
		}
		cells := []string{
			fmt.Sprintf("%.0f", l.PerSecond.Median), fmt.Sprintf("%.0f", l.Nanos.Median),
			fmt.Sprintf("%.0f", l.Nanos.Min), fmt.Sprintf("%.0f", l.Nanos.Max), fmt.Sprintf("%.0f", l.Allocations), "", "",
		}
		if l.Ratio != nil {
			copy(cells[5:], l.Ratio.cells()[:2])
		}
		row(w, l.Name, cells...)
	}
}
