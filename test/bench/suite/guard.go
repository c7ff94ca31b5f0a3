package suite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/slimwire/swp/test/bench/proc"
)

// guardRow is a load whose processor time is guarded, for each side that runs our code.
type guardRow struct {
	name   string
	title  string
	run    func(f *fleet) (measurement, error)
	raw    Cell // load of the raw TLS that it is divided by
	server bool // only the server side is ours
}

// guardRows are the rows of the guard, in the order of its table.
func guardRows() []guardRow {
	var (
		many   = Cell{64, 64, 1}
		single = Cell{64, 1, 1}
		large  = Cell{1 << 20, 4, 1}
	)
	list := slices.Concat(Systems(), workSystems())
	of := func(id string, c Cell) func(*fleet) (measurement, error) {
		return func(f *fleet) (measurement, error) {
			s, ok := find(list, id)
			if !ok {
				return measurement{}, fmt.Errorf("suite: no system %q", id)
			}
			return f.measure(s, c)
		}
	}
	gateway := func(f *fleet) (measurement, error) {
		paths := CallPaths()
		i := slices.IndexFunc(paths, func(p CallPath) bool { return p.ID == "mcp-url-tls" })
		return f.call(paths[i])
	}
	return []guardRow{
		{"rpc", "RPC echo, TLS, " + many.String(), of("swpd-tls", many), many, false},
		{"rpc-single", "RPC echo, TLS, " + single.String(), of("swpd-tls", single), single, false},
		{"rpc-large", "RPC echo, TLS, " + large.String(), of("swpd-tls", large), large, false},
		{"rpc-quic", "RPC echo, QUIC, a stream each, " + many.String(), of("swpd-quic-each", many), many, false},
		{"mcp", "MCP call through the HTTP front and two swpd", gateway, single, true},
		{"publish", "EVT_PUBLISH and swp.sync, 64 publishers", of("swpd-publish", Cell{256, 1, 64}), many, false},
		{"replay", "stored events, replayed", replay(roomyKey), many, true},
	}
}

// replay returns a load that replays the same events each time. One publisher stores them before the
// first time, in a server that no other row uses: the log of the publish row grows with each round.
func replay(key string) func(*fleet) (measurement, error) {
	const n = 50_000
	stored := false
	return func(f *fleet) (m measurement, err error) {
		if !stored {
			if _, err := f.stream(key, streaming{op: opEvents, n: n}, "replay"); err != nil {
				return m, err
			}
			stored = true
		}
		s, err := f.stream(key, streaming{op: opReplay, n: n}, "")
		m.Total, m.ClientCPU, m.ServerCPU = n, s.clientCPU, s.serverCPU
		return m, err
	}
}

// Guard is what the guard holds its figures against: by row and side, such as "rpc client", the
// least processor time an exchange of all quiet rounds, divided by the least of both sides of raw TLS.
// A regression adds to the time of all rounds. What other programs do changes the time of a round in
// ways that the margin cannot hold, so rounds in which they took much of the processors do not count,
// and a row without enough quiet rounds is not judged.
type Guard struct {
	// Margin is how much larger a figure may be without an alarm, as a part of it.
	Margin  float64            `json:"margin"`
	Figures map[string]float64 `json:"figures"`
}

// ReadGuard reads a file that WriteGuard has written.
func ReadGuard(path string) (Guard, error) {
	var g Guard
	raw, err := os.ReadFile(path) //nolint:gosec // the path comes from the command line
	if err != nil {
		return g, err
	}
	if err := json.Unmarshal(raw, &g); err != nil {
		return g, fmt.Errorf("%s: %w", path, err)
	}
	if g.Margin <= 0 || len(g.Figures) == 0 {
		return g, fmt.Errorf("%s: want a margin above 0, and figures", path)
	}
	return g, nil
}

// WriteGuard writes the figures of a report, with the margin of before.
func WriteGuard(path string, before Guard, r *GuardReport) error {
	after := Guard{Margin: before.Margin, Figures: make(map[string]float64)}
	for _, row := range r.Rows {
		after.Figures[row.Name] = float64(int(row.Now*1000+0.5)) / 1000
	}
	raw, err := json.MarshalIndent(after, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(raw, '\n'), 0o600)
}

// GuardReport is what the guard has found.
type GuardReport struct {
	Rows []GuardFigure `json:"rows"`
}

// GuardFigure is one side of one row.
type GuardFigure struct {
	Name   string  `json:"name"` // in Guard.Figures
	Title  string  `json:"title"`
	Side   string  `json:"side"` // client or server
	Now    float64 `json:"now"`
	Rounds Spread  `json:"rounds"` // of the ratios of single rounds
	Figure float64 `json:"figure"` // of Guard; zero if it has none
	Most   float64 `json:"most"`
	Slower bool    `json:"slower"` // Now is above Most, also with the rounds that were added

	Quiet  int     `json:"quiet_rounds"`
	Others float64 `json:"others"` // the least part of the processors that others took in a round
}

// judged reports whether enough rounds were quiet.
func (f *GuardFigure) judged() bool { return f.Quiet >= guardQuiet }

const (
	guardRounds = 9
	guardAgain  = 2                 // how often rows that were slower or not judged are measured once more
	guardQuiet  = 3                 // rounds that judge a row
	guardTime   = 100 * time.Second // no more rounds begin after it
	guardOthers = 0.1               // the part of the processors that others may take in a quiet round

	sideClient = "client"
	sideServer = "server"
)

// RunGuard measures the rows of the guard. A row that is slower than its figure or cannot be judged
// gets up to twice as many rounds in addition. It takes no other options of Options than
// SWPD, Warmup, Duration and Progress.
func RunGuard(ctx context.Context, opts Options, guard Guard) (report *GuardReport, err error) {
	opts = opts.withDefaults()
	if opts.SWPD == "" {
		return nil, errNeedsProgram
	}
	f, err := newFleet(ctx, &opts)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r := &run{ctx: ctx, opts: &opts, fleet: f}
	report = new(GuardReport)
	rows := guardRows()
	of := make(map[string]*guarded)
	start := time.Now()
	for more, n := rows, 0; ; n++ {
		if err := r.guard(more, of); err != nil {
			return nil, err
		}
		report.Rows = guardFigures(rows, of, guard)
		more = slices.DeleteFunc(slices.Clone(rows), func(row guardRow) bool { return !report.again(row) })
		if len(more) == 0 || n == guardAgain || time.Since(start) > guardTime {
			return report, nil
		}
		r.say("slower than before or disturbed, measured once more: %s", strings.Join(names(more), ", "))
	}
}

func names(rows []guardRow) (list []string) {
	for _, row := range rows {
		list = append(list, row.name)
	}
	return list
}

// guarded is the result of the rounds for a side: its processor time an exchange, the time of the raw
// TLS of its row, and the part of the processors that others took.
type guarded struct{ side, raw, others []float64 }

// quiet returns the times of the rounds that count, all if none does.
func (g *guarded) quiet() (side, raw []float64, n int) {
	for i, others := range g.others {
		if others <= guardOthers {
			side, raw = append(side, g.side[i]), append(raw, g.raw[i])
		}
	}
	if len(side) == 0 {
		return g.side, g.raw, 0
	}
	return side, raw, len(side)
}

// disturbed calls f and returns the part of the processors that other programs took during it.
func disturbed(f func() error) (float64, error) {
	start := time.Now()
	before, err := proc.Now()
	if err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	after, err := proc.Now()
	return after.Others(before, time.Since(start)), err
}

// guard measures rows, and the raw TLS that each is divided by, for all rounds, and adds the results
// by name.
func (r *run) guard(rows []guardRow, of map[string]*guarded) error {
	raw, _ := find(Systems(), "raw-tls")
	for round := range guardRounds {
		r.say("guard, round %d of %d", round+1, guardRounds)
		type yard struct{ cpu, others float64 }
		yards := make(map[Cell]yard)
		for j := range rows {
			row := rows[(round+j)%len(rows)]
			var m measurement
			others, err := disturbed(func() (err error) {
				m, err = row.run(r.fleet)
				return err
			})
			if _, ok := yards[row.raw]; err == nil && !ok {
				var y yard
				y.others, err = disturbed(func() error {
					m, err := r.fleet.measure(raw, row.raw)
					y.cpu = clientCPU(m) + serverCPU(m)
					return err
				})
				yards[row.raw] = y
			}
			if r.ctx.Err() != nil {
				return context.Cause(r.ctx)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", row.name, err)
			}
			for side, cpu := range row.sides(m) {
				name := row.name + " " + side
				if of[name] == nil {
					of[name] = new(guarded)
				}
				of[name].side = append(of[name].side, cpu)
				of[name].raw = append(of[name].raw, yards[row.raw].cpu)
				of[name].others = append(of[name].others, max(others, yards[row.raw].others))
			}
		}
	}
	return nil
}

// sides returns the processor time an exchange of the sides that are ours.
func (g guardRow) sides(m measurement) map[string]float64 {
	sides := map[string]float64{sideServer: serverCPU(m)}
	if !g.server {
		sides[sideClient] = clientCPU(m)
	}
	return sides
}

// guardFigures compares what was measured with the figures of a guard.
func guardFigures(rows []guardRow, measured map[string]*guarded, guard Guard) (list []GuardFigure) {
	for _, row := range rows {
		for _, side := range slices.Sorted(maps.Keys(row.sides(measurement{}))) {
			name := row.name + " " + side
			m := measured[name]
			times, raw, quiet := m.quiet()
			f := GuardFigure{
				Name: name, Title: row.title, Side: side, Now: slices.Min(times) / slices.Min(raw), Figure: guard.Figures[name],
				Quiet: quiet, Others: slices.Min(m.others),
			}
			f.Rounds, _ = ratios(times, raw)
			f.Most = f.Figure * (1 + guard.Margin)
			f.Slower = f.judged() && f.Figure > 0 && f.Now > f.Most
			list = append(list, f)
		}
	}
	return list
}

// again reports whether a side of a row was slower or cannot be judged.
func (r *GuardReport) again(row guardRow) bool {
	return slices.ContainsFunc(r.Rows, func(f GuardFigure) bool {
		return (f.Slower || !f.judged()) && strings.HasPrefix(f.Name, row.name+" ")
	})
}

// ErrDisturbed says that rows were not judged, and none of the others was slower.
var ErrDisturbed = errors.New("other programs took too much of the processors: run it again while the machine is idle")

// Check returns an error that names what is slower, or has no figure to be compared with; ErrDisturbed
// if there is no such row, and some could not be judged.
func (r *GuardReport) Check() error {
	var errs []error
	var disturbed []string
	for _, f := range r.Rows {
		switch {
		case f.Figure == 0:
			errs = append(errs, fmt.Errorf("%s: no figure to compare with; write one with -guard-update", f.Name))
		case f.Slower:
			errs = append(errs, fmt.Errorf("%s: %.2f times the processor time of raw TLS, was %.2f, at most %.2f: find out why with -cpuprofile, or write the new figure with -guard-update and say why",
				f.Name, f.Now, f.Figure, f.Most))
		case !f.judged():
			disturbed = append(disturbed, fmt.Sprintf("%s (at least %.0f %%)", f.Name, 100*f.Others))
		}
	}
	if len(errs) == 0 && len(disturbed) > 0 {
		return fmt.Errorf("not judged: %s: %w", strings.Join(disturbed, ", "), ErrDisturbed)
	}
	return errors.Join(errs...)
}

// WriteTable prints the report for people.
func (r *GuardReport) WriteTable(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintf(w, "Processor time an exchange ÷ that of raw TLS, the least of the quiet ones of %d rounds or more (%s)\n", guardRounds, time.Now().UTC().Format(time.RFC3339))
	row(w, "", "side", "now", "rounds", "was", "at most", "")
	for _, f := range r.Rows {
		mark := "ok"
		switch {
		case f.Figure == 0:
			mark = "new"
		case !f.judged():
			mark = "not judged"
		case f.Slower:
			mark = "SLOWER"
		case f.Now < 2*f.Figure-f.Most:
			mark = "faster"
		}
		row(w, f.Title, f.Side, fmt.Sprintf("%.2f", f.Now), fmt.Sprintf("%.2f–%.2f", f.Rounds.Min, f.Rounds.Max),
			fmt.Sprintf("%.2f", f.Figure), fmt.Sprintf("%.2f", f.Most), mark)
	}
	return w.Flush()
}
