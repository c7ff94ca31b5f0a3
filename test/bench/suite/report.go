package suite

import (
	"bufio"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// Report is everything that a run has found.
type Report struct {
	When    time.Time `json:"when"`
	Machine Machine   `json:"machine"`
	Method  Method    `json:"method"`

	Echo        []CellReport     `json:"echo,omitempty"`
	Connections []CellReport     `json:"connections,omitempty"`
	Codec       []CodecReport    `json:"codec,omitempty"`
	Streams     []StreamReport   `json:"streams,omitempty"`
	Durable     []CellReport     `json:"durable,omitempty"`
	Languages   []LanguageReport `json:"languages,omitempty"`
	Artifact    []MoveReport     `json:"artifact,omitempty"`
	Gateway     *CallReport      `json:"gateway,omitempty"`

	Federation *FederationReport `json:"federation,omitempty"`

	Audit   []CellReport `json:"audit,omitempty"`
	Cluster []CellReport `json:"cluster,omitempty"`

	Idle  *IdleReport  `json:"idle,omitempty"`
	Start *StartReport `json:"start,omitempty"`

	// Slow is how many windows of what is stored began with a disk that was slower than before
	// and did not recover in time.
	Slow int `json:"slow_disk_windows,omitempty"`

	// Failures are what could not be measured, and why.
	Failures []string `json:"failures,omitempty"`
}

// Machine is where it ran.
type Machine struct {
	CPU     string            `json:"cpu"`
	Cores   int               `json:"cores"`
	Go      string            `json:"go"`
	System  string            `json:"system"`
	Modules map[string]string `json:"modules"` // versions of the compared modules
}

// Method is how it was measured.
type Method struct {
	Server   string        `json:"server"`   // what swpd was
	Settings string        `json:"settings"` // of swpd, where not the default
	Rounds   int           `json:"rounds"`   // of cells with a promise
	Warmup   time.Duration `json:"warmup_ns"`
	Duration time.Duration `json:"duration_ns"`
}

// CellReport is one load.
type CellReport struct {
	Cell
	Work    string      `json:"work,omitempty"` // what an exchange is, if not an echo
	Rounds  int         `json:"rounds"`
	Divided string      `json:"divided,omitempty"` // what the ratios divide, if not swpd
	Rows    []RowReport `json:"rows"`
}

// RowReport is one system under one load.
type RowReport struct {
	System     string   `json:"system"`
	Name       string   `json:"name"`
	PerSecond  *Spread  `json:"per_second,omitempty"`    // exchanges; nil if it was not measured
	P50        *Spread  `json:"p50_us,omitempty"`        // where one is in flight
	P99        *Spread  `json:"p99_us,omitempty"`        // where one is in flight
	ClientCPU  *Spread  `json:"client_cpu_us,omitempty"` // processor time an exchange
	ServerCPU  *Spread  `json:"server_cpu_us,omitempty"`
	Promise    *Verdict `json:"promise,omitempty"`     // on PerSecond
	CPUPromise *Verdict `json:"cpu_promise,omitempty"` // on ServerCPU
	Subject    string   `json:"compared_to,omitempty"` // ours, which is divided by this one
	Ratio      *Ratio   `json:"ratio,omitempty"`
}

// MoveReport is a file that is moved one way.
type MoveReport struct {
	Direction string    `json:"direction"`
	Size      int       `json:"size"` // octets
	Rounds    int       `json:"rounds"`
	Divided   string    `json:"divided,omitempty"` // what the ratios divide, if not swpd
	Rows      []MoveRow `json:"rows"`
}

// MoveRow is one system that moves it.
type MoveRow struct {
	System      string   `json:"system"`
	Name        string   `json:"name"`
	Rate        *Spread  `json:"mb_per_second,omitempty"` // nil if it was not measured
	ClientCPU   *Spread  `json:"client_cpu_s,omitempty"`  // total processor time
	ServerCPU   *Spread  `json:"server_cpu_s,omitempty"`
	ClientPeak  *Spread  `json:"client_peak_mib,omitempty"` // resident memory
	ServerPeak  *Spread  `json:"server_peak_mib,omitempty"`
	PeakPromise *Verdict `json:"peak_promise,omitempty"` // on ServerPeak
	Ratio       *Ratio   `json:"ratio,omitempty"`        // ours divided by this one
}

// CallReport is an MCP call, made directly and through a gateway and two swpd.
type CallReport struct {
	Cell
	Rounds int       `json:"rounds"`
	Rows   []CallRow `json:"rows"`
}

// CallRow is one way for the call.
type CallRow struct {
	System    string  `json:"system"`
	Name      string  `json:"name"`
	PerSecond *Spread `json:"per_second,omitempty"` // nil if it was not measured
	P50       *Spread `json:"p50_us,omitempty"`
	P99       *Spread `json:"p99_us,omitempty"`
	ClientCPU *Spread `json:"client_cpu_us,omitempty"` // processor time a call
	SWPDCPU   *Spread `json:"swpd_cpu_us,omitempty"`   // of both swpd or proxies together
	Direct    string  `json:"added_to,omitempty"`      // the same call made directly
	Added     *Spread `json:"added_p50_us,omitempty"`
	AddedP99  *Spread `json:"added_p99_us,omitempty"`

	// Against is the path whose added p50 and processor time the two ratios divide by.
	Against    string `json:"compared_to,omitempty"`
	AddedRatio *Ratio `json:"added_ratio,omitempty"`
	CPURatio   *Ratio `json:"cpu_ratio,omitempty"`
}

// FederationReport is work that crosses a link from one swpd to another, and the same work
// at one.
type FederationReport struct {
	Work     []CellReport `json:"work"`
	Artifact []MoveReport `json:"artifact"`
}

// Ratio is ours divided by another.
type Ratio struct {
	Of string `json:"of"` // the compared figure, such as "rate" or "p50"
	Spread
	Promise *Verdict `json:"promise,omitempty"`
}

// promise returns the promise on a ratio; nil without one, and for a nil ratio.
func (r *Ratio) promise() *Verdict {
	if r == nil {
		return nil
	}
	return r.Promise
}

// Verdict is a promise and whether it was kept.
type Verdict struct {
	Bound  float64 `json:"bound"`
	AtMost bool    `json:"at_most"` // otherwise at least
	Met    bool    `json:"met"`
}

func atLeast(value, bound float64) *Verdict { return &Verdict{bound, false, value >= bound} }
func atMost(value, bound float64) *Verdict  { return &Verdict{bound, true, value <= bound} }

// CodecReport is one way to read a message.
type CodecReport struct {
	Name    string `json:"name"`
	Payload int    `json:"payload"`
	Nanos   Spread `json:"ns"`
	Ratio   *Ratio `json:"ratio,omitempty"` // this divided by our way to read the same
}

// IdleReport is what idle connections weigh on the server.
type IdleReport struct {
	Conns   int           `json:"conns"`
	Silence time.Duration `json:"silence_ns"`
	Server  string        `json:"server"` // what swpd was
	Rows    []IdleRow     `json:"rows"`
}

// IdleRow is one server with idle connections.
type IdleRow struct {
	Name      string   `json:"name"`
	Baseline  int64    `json:"baseline_bytes"` // resident, before the first connection
	Held      int64    `json:"held_bytes"`     // resident, after silence, before the collection
	Collected int64    `json:"collected_bytes"`
	PerConn   float64  `json:"bytes_per_connection"`           // after the collection
	Before    float64  `json:"bytes_per_connection_uncollect"` // before it
	Promise   *Verdict `json:"promise,omitempty"`
}

// StartReport is how long swpd takes to serve.
type StartReport struct {
	Millis  Spread   `json:"ms"`
	Starts  int      `json:"starts"`
	Promise *Verdict `json:"promise"`
}

// Promises counts the promises that were measured and those that were not kept.
func (r *Report) Promises() (measured, missed int) {
	count := func(v *Verdict) {
		if v != nil {
			measured++
			if !v.Met {
				missed++
			}
		}
	}
	for _, c := range slices.Concat(r.Echo, r.Connections, r.Durable) {
		for _, row := range c.Rows {
			count(row.Promise)
			count(row.CPUPromise)
			count(row.Ratio.promise())
		}
	}
	for _, s := range r.Streams {
		count(s.Promise)
	}
	for _, m := range r.Artifact {
		for _, row := range m.Rows {
			count(row.PeakPromise)
			count(row.Ratio.promise())
		}
	}
	for _, c := range r.Codec {
		count(c.Ratio.promise())
	}
	if r.Gateway != nil {
		for _, row := range r.Gateway.Rows {
			count(row.AddedRatio.promise())
			count(row.CPURatio.promise())
		}
	}
	if r.Idle != nil {
		for _, row := range r.Idle.Rows {
			count(row.Promise)
		}
	}
	if r.Start != nil {
		count(r.Start.Promise)
	}
	return measured, missed
}

func machine() Machine {
	m := Machine{
		CPU: cpuName(), Cores: runtime.NumCPU(), Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH,
		Modules: make(map[string]string),
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return m
	}
	for _, dep := range info.Deps {
		switch dep.Path {
		case "google.golang.org/grpc", "google.golang.org/protobuf", "github.com/quic-go/quic-go",
			"github.com/nats-io/nats-server/v2", "github.com/nats-io/nats.go":
			m.Modules[dep.Path] = dep.Version
		}
	}
	return m
}

func cpuName() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	defer f.Close() //nolint:errcheck // only read
	for s := bufio.NewScanner(f); s.Scan(); {
		if key, value, ok := strings.Cut(s.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}
