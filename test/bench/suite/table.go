package suite

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// WriteTable prints the report for people.
func (r *Report) WriteTable(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	r.writeHead(w)
	for _, c := range slices.Concat(r.Echo, r.Connections, r.Durable) {
		c.write(w)
	}
	r.writeStreams(w)
	for _, m := range r.Artifact {
		m.write(w)
	}
	if r.Gateway != nil {
		r.Gateway.write(w)
	}
	if r.Federation != nil {
		r.Federation.write(w)
	}
	for _, c := range slices.Concat(r.Audit, r.Cluster) {
		c.write(w)
	}
	r.writeCodec(w)
	r.writeLanguages(w)
	if r.Idle != nil {
		r.Idle.write(w)
	}
	if r.Start != nil {
		section(w, "Start of swpd to its first answer, TLS", "", "median", "min", "max", "promise", "")
		s := r.Start
		row(w, fmt.Sprintf("%d starts", s.Starts), ms(s.Millis.Median), ms(s.Millis.Min), ms(s.Millis.Max), s.Promise.text("ms"), s.Promise.mark())
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return r.writeFoot(out)
}

func (r *Report) writeHead(w io.Writer) {
	var modules []string
	for path, version := range r.Machine.Modules {
		modules = append(modules, path[strings.Index(path, "/")+1:]+" "+version)
	}
	slices.Sort(modules)
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format+"\n", args...) }
	line("swp-bench · %s", r.When.Format(time.RFC3339))
	line("machine: %d cores, %s, %s, %s", r.Machine.Cores, r.Machine.CPU, r.Machine.System, r.Machine.Go)
	line("peers: %s", strings.Join(modules, ", "))
	line("swpd: %s; %s; echo is swp.echo", r.Method.Server, r.Method.Settings)
	line("all: mutual TLS 1.3, ECDSA P-256, loopback, one process for the server and one for the client")
	if len(r.Echo)+len(r.Connections)+len(r.Durable)+len(r.Audit)+len(r.Cluster) > 0 || r.Gateway != nil || r.Federation != nil {
		line("windows of %v after %v; figures are medians over rounds, ratios medians (min–max) of the ratio within a round",
			r.Method.Duration, r.Method.Warmup)
		line("CPU: processor time of the process, µs an exchange; others on the machine disturb it less than rates")
		line("swpd ÷ it: rates, or p50 where one exchange is in flight in all")
	}
}

// columns is how many a row of a cell has, after the name.
const columns = 10

func (c CellReport) write(w io.Writer) {
	title := c.title()
	if c.Work != "" {
		title = c.Work + " · " + title
	}
	section(w, fmt.Sprintf("%s (%d rounds)", title, c.Rounds),
		"", "exchanges/s", "MB/s", "p50 µs", "p99 µs", "client CPU", "server CPU", divided(c.Divided), "min–max", "promise", "")
	for _, r := range c.Rows {
		if r.PerSecond == nil {
			row(w, r.Name, append([]string{"not measured"}, make([]string, columns-1)...)...)
			continue
		}
		cells := make([]string, columns)
		cells[0] = fmt.Sprintf("%.0f", r.PerSecond.Median)
		cells[1] = fmt.Sprintf("%.1f", r.PerSecond.Median*float64(c.Payload)/1e6)
		cells[2], cells[3] = micros(r.P50), micros(r.P99)
		cells[4], cells[5] = micros(r.ClientCPU), micros(r.ServerCPU)
		copy(cells[6:], r.Ratio.cells())
		if r.Promise != nil {
			cells[8], cells[9] = r.Promise.text("/s"), r.Promise.mark()
		}
		row(w, r.Name, cells...)
		if r.CPUPromise != nil {
			cells := make([]string, columns)
			cells[5], cells[8], cells[9] = micros(r.ServerCPU), r.CPUPromise.text("µs"), r.CPUPromise.mark()
			row(w, "  its server CPU", cells...)
		}
	}
}

// divided is the head of a column of ratios.
func divided(what string) string { return cmp.Or(what, "swpd") + " ÷ it" }

// cells are ratio, range, promise and verdict, all empty for nil.
func (r *Ratio) cells() []string {
	if r == nil {
		return make([]string, 4)
	}
	return []string{
		fmt.Sprintf("%.2f", r.Median), fmt.Sprintf("%.2f–%.2f", r.Min, r.Max),
		r.Promise.text(""), r.Promise.mark(),
	}
}

func (r *Report) writeCodec(w io.Writer) {
	for i, c := range r.Codec {
		if i == 0 || r.Codec[i-1].Payload != c.Payload {
			section(w, "Reading one envelope, payload "+sizeName(c.Payload), "", "ns", "min", "max", "it ÷ E1 decode", "min–max", "promise", "")
		}
		cells := []string{
			fmt.Sprintf("%.0f", c.Nanos.Median), fmt.Sprintf("%.0f", c.Nanos.Min), fmt.Sprintf("%.0f", c.Nanos.Max),
			"", "", "", "",
		}
		copy(cells[3:], c.Ratio.cells())
		row(w, c.Name, cells...)
	}
}

func (r *IdleReport) write(w io.Writer) {
	section(w, fmt.Sprintf("%d idle connections after one 64-octet echo each and %v of silence (swpd: %s)", r.Conns, r.Silence, r.Server),
		"", "KiB each", "before collection", "baseline MiB", "promise", "")
	for _, x := range r.Rows {
		row(w, x.Name, fmt.Sprintf("%.1f", x.PerConn/1024), fmt.Sprintf("%.1f", x.Before/1024),
			fmt.Sprintf("%.1f", float64(x.Baseline)/(1<<20)), x.Promise.kib(), x.Promise.mark())
	}
}

func (r *Report) writeFoot(w io.Writer) error {
	measured, missed := r.Promises()
	_, err := fmt.Fprintf(w, "\n%d promises measured, %d met, %d missed\n", measured, measured-missed, missed)
	if r.Slow > 0 {
		_, _ = fmt.Fprintf(w, "%d windows of what is stored began with a slow disk\n", r.Slow)
	}
	for _, f := range r.Failures {
		_, _ = fmt.Fprintln(w, "not measured:", f)
	}
	return err
}

func section(w io.Writer, title string, head ...string) {
	_, _ = fmt.Fprintf(w, "\n%s\n", title)
	row(w, head[0], head[1:]...)
}

func row(w io.Writer, name string, cells ...string) {
	_, _ = fmt.Fprintf(w, "%-31s\t%s\t\n", name, strings.Join(cells, "\t"))
}

func (v *Verdict) sign() string {
	if v.AtMost {
		return "≤"
	}
	return "≥"
}

func (v *Verdict) text(unit string) string {
	if v == nil {
		return ""
	}
	return strings.TrimSpace(fmt.Sprintf("%s %g %s", v.sign(), v.Bound, unit))
}

func (v *Verdict) kib() string {
	if v == nil {
		return ""
	}
	return fmt.Sprintf("%s %g KiB", v.sign(), v.Bound/1024)
}

func (v *Verdict) mark() string {
	switch {
	case v == nil:
		return ""
	case v.Met:
		return "met"
	}
	return "MISSED"
}

func micros(s *Spread) string {
	if s == nil {
		return ""
	}
	return fmt.Sprintf("%.1f", s.Median)
}

func ms(v float64) string { return fmt.Sprintf("%.1f ms", v) }
