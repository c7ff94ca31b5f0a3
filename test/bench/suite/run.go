package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// RoleCommand is the command by which a process of this program is told to play
// a role: its main passes the arguments that follow to Role.
const RoleCommand = "role"

// Run executes the selected measurements. A failed measurement is recorded in the report;
// the error means that there is no report.
func Run(ctx context.Context, opts Options) (*Report, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	if opts.CPUProfile != "" {
		if err := os.MkdirAll(opts.CPUProfile, 0o750); err != nil {
			return nil, err
		}
	}
	f, err := newFleet(ctx, &opts)
	if err != nil {
		return nil, err
	}
	r := &run{ctx: ctx, opts: &opts, fleet: f, disk: disk{dir: f.dir}, report: &Report{
		When:    time.Now().UTC().Truncate(time.Second),
		Machine: machine(),
		Method: Method{
			Server: opts.server(), Settings: swpdSettings,
			Rounds: opts.Rounds, Warmup: opts.Warmup, Duration: opts.Duration,
		},
	}}
	for _, part := range parts {
		if !slices.Contains(opts.Parts, part.name) {
			continue
		}
		if err := part.run(r); err != nil {
			r.fail(part.name, err)
		}
		if ctx.Err() != nil {
			return nil, errors.Join(context.Cause(ctx), f.Close())
		}
	}
	if err := f.Close(); err != nil {
		r.fail("closing", err)
	}
	return r.report, nil
}

type run struct {
	ctx    context.Context
	opts   *Options
	fleet  *fleet
	disk   disk
	report *Report
}

func (r *run) fail(what string, err error) {
	r.report.Failures = append(r.report.Failures, what+": "+err.Error())
	r.say("%s: %v", what, err)
}

func (r *run) say(format string, args ...any) {
	_, _ = fmt.Fprintf(r.opts.Progress, format+"\n", args...)
}

// echo measures all systems under all loads. The outermost loop is over rounds, so that the
// rounds of one load are spread over the whole run. The innermost loop is over systems, so
// that compared figures are measured within seconds of each other.
func (r *run) echo() error {
	systems := r.opts.systems()
	cells, rounds := r.opts.cells()
	broken := make(map[string]bool) // by system and cell: failed once, left out
	results := make([][][]measurement, len(cells))
	for i := range cells {
		results[i] = make([][]measurement, len(systems))
	}
	for round := range slices.Max(append(rounds, 0)) {
		r.say("round %d of %d", round+1, r.opts.Rounds)
		for i, cell := range cells {
			if round >= rounds[i] {
				continue
			}
			for j := range systems {
				k := (round + j) % len(systems)
				key := systems[k].ID + " " + cell.String()
				var result measurement
				if !broken[key] {
					var err error
					if result, err = r.fleet.measure(systems[k], cell); err != nil {
						r.fail(key, err)
						broken[key] = true
					}
				}
				results[i][k] = append(results[i][k], result)
				if r.ctx.Err() != nil {
					return context.Cause(r.ctx)
				}
			}
		}
	}
	for i, cell := range cells {
		r.report.Echo = append(r.report.Echo, cellReport(cell, rounds[i], systems, results[i]))
	}
	return nil
}

// cellReport compares the results of one load, by system and round. A result
// without exchanges is a round that failed.
func cellReport(cell Cell, rounds int, systems []System, results [][]measurement) CellReport {
	c := CellReport{Cell: cell, Rounds: rounds}
	for i, s := range systems {
		row := RowReport{System: s.ID, Name: s.Name, Subject: s.Subject}
		row.PerSecond = figures(results[i], rate)
		row.P50 = figures(results[i], p50)
		row.P99 = figures(results[i], p99)
		row.ClientCPU = figures(results[i], clientCPU)
		row.ServerCPU = figures(results[i], serverCPU)
		if j := slices.IndexFunc(systems, func(o System) bool { return o.ID == s.Subject }); j >= 0 {
			row.Ratio = compare(cell, s, results[j], results[i])
		}
		c.Rows = append(c.Rows, row)
	}
	return c
}

func compare(cell Cell, peer System, subject, other []measurement) *Ratio {
	of, figure := "rate", rate
	if cell.single() {
		of, figure = "p50", p50
	}
	s, ok := ratios(each(subject, figure), each(other, figure))
	if !ok {
		return nil
	}
	ratio := &Ratio{Of: of, Spread: s}
	if p, ok := promiseFor(cell, peer.Subject, peer.ID); ok {
		if ratio.Promise = atLeast(s.Median, p.Bound); cell.single() {
			ratio.Promise = atMost(s.Median, p.Bound)
		}
	}
	return ratio
}

func rate(r measurement) float64 {
	if r.Exchanges == 0 {
		return 0
	}
	return r.PerSecond()
}

func p50(r measurement) float64 { return float64(r.P50) / float64(time.Microsecond) }
func p99(r measurement) float64 { return float64(r.P99) / float64(time.Microsecond) }

func clientCPU(r measurement) float64 { return perExchange(r.ClientCPU, r.Total) }
func serverCPU(r measurement) float64 { return perExchange(r.ServerCPU, r.Total) }

func perExchange(cpu time.Duration, n int64) float64 {
	if n == 0 {
		return 0
	}
	return float64(cpu) / float64(time.Microsecond) / float64(n)
}

func each[M any](results []M, figure func(M) float64) []float64 {
	var v []float64
	for _, r := range results {
		v = append(v, figure(r))
	}
	return v
}

// figures returns the spread of a figure over the rounds that have it, or nil.
func figures[M any](results []M, figure func(M) float64) *Spread {
	v := slices.DeleteFunc(each(results, figure), func(x float64) bool { return x == 0 })
	if len(v) == 0 {
		return nil
	}
	s := spread(v)
	return &s
}
