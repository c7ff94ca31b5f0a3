package suite

import (
	"context"
	"errors"
	"fmt"
	"image/color"
	"io"
	"path/filepath"
	"text/tabwriter"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/slimwire/swp/test/bench/proc"
)

// roomyKey is the key of a swpd whose quotas have room for the largest backlog.
const roomyKey = "swpd-roomy"

// roomy are the quotas of that swpd, which the report prints.
const roomy = `quota: {total: 200GiB, per_identity: 200GiB}
relay: {waiting: 20000000, remembered: 100000000}
`

// flatness is the part by which a rate or memory may differ from that at the first backlog.
const flatness = 0.2

// GrowthReport is what becomes of rates and memory as a backlog grows.
type GrowthReport struct {
	Machine Machine       `json:"machine"`
	Quotas  string        `json:"quotas"` // of swpd
	Events  []GrowthPoint `json:"events"`
	Relay   []GrowthPoint `json:"relay"`
}

// GrowthPoint is one backlog.
type GrowthPoint struct {
	Backlog  uint64  `json:"backlog"`
	Publish  float64 `json:"publish_per_second"`
	Receive  float64 `json:"receive_per_second"` // replayed, or consumed with 16 in flight
	Resident float64 `json:"resident_mib"`       // of swpd, afterwards
}

// RunGrowth publishes events and then deliveries, each up to a backlog of most, and measures at
// each power of ten from 1,000 on. It takes no other options of Options than SWPD and Progress.
func RunGrowth(ctx context.Context, opts Options, most uint64) (report *GrowthReport, err error) {
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
	report = &GrowthReport{Machine: machine(), Quotas: roomy}
	if report.Events, err = r.grow("events", opEvents, streaming{op: opReplay}, most); err != nil {
		return nil, err
	}
	report.Relay, err = r.grow("relay", opDeliveries, streaming{op: opConsume, inFlight: 16}, most)
	return report, err
}

// grow measures at each backlog the rates of publishing and receiving. Deliveries leave the
// backlog when they are received.
func (r *run) grow(what, publish string, receive streaming, most uint64) (points []GrowthPoint, err error) {
	var backlog uint64
	for target := uint64(1000); target <= most; target *= 10 {
		r.say("%s: backlog of %d", what, target)
		if target > backlog {
			s := streaming{op: publish, n: target - backlog}
			if _, err := r.fleet.stream(roomyKey, s, fmt.Sprintf("fill-%d", target)); err != nil {
				return nil, err
			}
			backlog = target
		}
		n := min(max(target/10, 1000), 50_000)
		published, err := r.fleet.stream(roomyKey, streaming{op: publish, n: n}, fmt.Sprintf("probe-%d", target))
		if err != nil {
			return nil, err
		}
		backlog += n
		receive.n = n
		received, err := r.fleet.stream(roomyKey, receive, "")
		if err != nil {
			return nil, err
		}
		if receive.op == opConsume {
			backlog -= n
		}
		srv, err := r.fleet.server(roomyKey)
		if err != nil {
			return nil, err
		}
		resident, err := proc.Resident(srv.PID())
		if err != nil {
			return nil, err
		}
		points = append(points, GrowthPoint{Backlog: target, Publish: published.rate(), Receive: received.rate(), Resident: float64(resident) / (1 << 20)})
	}
	return points, nil
}

// WriteTable prints the report for people.
func (g *GrowthReport) WriteTable(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintf(w, "Backlogs of messages of %s, TLS; %s\n%s", sizeName(streamSize), g.Machine.CPU, g.Quotas)
	g.writePoints(w, "Events", "replayed /s", g.Events)
	g.writePoints(w, "Relay", "consumed /s, 16 in flight", g.Relay)
	return w.Flush()
}

func (g *GrowthReport) writePoints(w io.Writer, title, receive string, points []GrowthPoint) {
	section(w, title, "backlog", "published /s", "÷ first", receive, "÷ first", "resident MiB", "÷ first", "within 20 %")
	for _, p := range points {
		first := points[0]
		rates := []float64{p.Publish / first.Publish, p.Receive / first.Receive, p.Resident / first.Resident}
		flat := "yes"
		if rates[0] < 1-flatness || rates[1] < 1-flatness || rates[2] > 1+flatness {
			flat = "NO"
		}
		row(w, fmt.Sprint(p.Backlog), fmt.Sprintf("%.0f", p.Publish), fmt.Sprintf("%.2f", rates[0]), fmt.Sprintf("%.0f", p.Receive), fmt.Sprintf("%.2f", rates[1]),
			fmt.Sprintf("%.0f", p.Resident), fmt.Sprintf("%.2f", rates[2]), flat)
	}
}

// curve is a line of a plot.
type curve struct {
	name   string
	points []GrowthPoint
	of     func(GrowthPoint) float64
	color  color.Color
	dashed bool
}

// WritePlots draws the rates and the memory into growth-rates.svg and growth-memory.svg in dir.
func (g *GrowthReport) WritePlots(dir string) error {
	published := func(p GrowthPoint) float64 { return p.Publish }
	received := func(p GrowthPoint) float64 { return p.Receive }
	resident := func(p GrowthPoint) float64 { return p.Resident }
	blue, red := color.RGBA{R: 0x1f, G: 0x5f, B: 0xa8, A: 0xff}, color.RGBA{R: 0xb0, G: 0x30, B: 0x30, A: 0xff}
	return errors.Join(
		draw(filepath.Join(dir, "growth-rates.svg"), "messages a second", plot.LogScale{}, []curve{
			{"events published", g.Events, published, blue, false}, {"events replayed", g.Events, received, blue, true},
			{"deliveries published", g.Relay, published, red, false}, {"deliveries consumed, 16 in flight", g.Relay, received, red, true},
		}),
		draw(filepath.Join(dir, "growth-memory.svg"), "resident memory of swpd, MiB", plot.LinearScale{}, []curve{
			{"events", g.Events, resident, blue, false}, {"relay", g.Relay, resident, red, false},
		}),
	)
}

func draw(path, axis string, scale plot.Normalizer, curves []curve) error {
	p := plot.New()
	p.X.Label.Text, p.Y.Label.Text = "messages stored", axis
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.Y.Scale = scale
	if _, log := scale.(plot.LogScale); log {
		p.Y.Tick.Marker = plot.LogTicks{Prec: -1}
	} else {
		p.Y.Min = 0
	}
	p.Add(plotter.NewGrid())
	for _, c := range curves {
		var xy plotter.XYs
		for _, q := range c.points {
			xy = append(xy, plotter.XY{X: float64(q.Backlog), Y: c.of(q)})
		}
		line, dots, err := plotter.NewLinePoints(xy)
		if err != nil {
			return err
		}
		line.Color, dots.Color, line.Width = c.color, c.color, vg.Points(1.5)
		if c.dashed {
			line.Dashes = []vg.Length{vg.Points(5), vg.Points(3)}
		}
		p.Add(line, dots)
		p.Legend.Add(c.name, line, dots)
	}
	p.Legend.Top = true
	return p.Save(vg.Points(520), vg.Points(300), path)
}
