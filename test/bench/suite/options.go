package suite

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/slimwire/swp/test/bench/swpd"
)

// The parts of a run.
const (
	PartEcho     = "echo"
	PartCodec    = "codec"
	PartIdle     = "idle"
	PartStart    = "start"
	PartConns    = "connections"
	PartDurable  = "durable"
	PartStream   = "streams"
	PartArtifact = "artifact"
	PartGateway  = "gateway"
	PartLanguage = "languages"

	PartFederation = "federation"
	PartAudit      = "audit"
	PartCluster    = "cluster"
)

// parts are all parts, in the order in which they run. A Quick run leaves out those that are
// slow: there are no promises about them.
var parts = []struct {
	name string
	slow bool
	run  func(*run) error
}{
	{PartCodec, false, (*run).codec},
	{PartLanguage, false, (*run).languages},
	{PartStart, false, (*run).start},
	{PartEcho, false, (*run).echo},
	{PartConns, false, (*run).connections},
	{PartDurable, false, (*run).durable},
	{PartStream, false, (*run).stream},
	{PartArtifact, false, (*run).artifact},
	{PartGateway, false, (*run).gateway},
	{PartFederation, true, (*run).federation},
	{PartAudit, true, (*run).audit},
	{PartCluster, true, (*run).cluster},
	{PartIdle, false, (*run).idle},
}

// Parts returns the names of all parts, or those of a Quick run.
func Parts(quick bool) []string {
	var names []string
	for _, part := range parts {
		if !quick || !part.slow {
			names = append(names, part.name)
		}
	}
	return names
}

// Options say what to run. Zero fields mean their default.
type Options struct {
	// Parts is which parts to run, default the result of Parts.
	Parts []string

	// Systems and Cells restrict the echoes to these ids; default all. A system includes
	// the one that it is compared with.
	Systems, Cells []string

	// Quick runs only the cells with a promise, with fewer rounds and fewer
	// idle connections.
	Quick bool

	Rounds   int           // of cells with a promise, default 5; others have a third
	Warmup   time.Duration // before each window, default 250 ms
	Duration time.Duration // of each window, default 500 ms
	Idle     int           // connections held, default 10,000
	Silence  time.Duration // before idle connections are weighed, default 10 s
	Artifact int           // octets of the file that is moved, default 256 MiB, or 64 MiB with Quick

	// SWPD is the path of the server under test. Empty means that a process of
	// this program is the server, built from the same packages.
	SWPD string

	// CPUProfile is a folder for profiles of the client of swpd and, where
	// SWPD is empty, of the server. Empty means none.
	CPUProfile string

	// Progress is told what is going on. It may be nil.
	Progress io.Writer
}

func (o Options) withDefaults() Options {
	rounds, idle, size := 5, 10_000, 256<<20
	if o.Quick {
		rounds, idle, size = 3, 2000, 64<<20
	}
	if len(o.Parts) == 0 {
		o.Parts = Parts(o.Quick)
	}
	if o.Rounds == 0 {
		o.Rounds = rounds
	}
	if o.Idle == 0 {
		o.Idle = idle
	}
	if o.Artifact == 0 {
		o.Artifact = size
	}
	if o.Warmup == 0 {
		o.Warmup = 250 * time.Millisecond
	}
	if o.Duration == 0 {
		o.Duration = 500 * time.Millisecond
	}
	if o.Silence == 0 {
		o.Silence = 10 * time.Second
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	return o
}

func (o *Options) validate() error {
	for _, part := range o.Parts {
		if all := Parts(false); !slices.Contains(all, part) {
			return fmt.Errorf("suite: unknown part %q, want one of %s", part, strings.Join(all, ", "))
		}
	}
	var ids []string
	for _, s := range Systems() {
		ids = append(ids, s.ID)
	}
	for _, id := range o.Systems {
		if !slices.Contains(ids, id) {
			return fmt.Errorf("suite: unknown system %q, want one of %s", id, strings.Join(ids, ", "))
		}
	}
	var names []string
	for _, c := range Cells() {
		names = append(names, c.String())
	}
	for _, name := range o.Cells {
		if !slices.Contains(names, name) {
			return fmt.Errorf("suite: unknown cell %q, want one of %s", name, strings.Join(names, ", "))
		}
	}
	if o.Rounds < 1 || o.Warmup < 0 || o.Duration < 0 || o.Idle < 1 || o.Silence < 0 || o.Artifact < 1 {
		return fmt.Errorf("suite: rounds, windows, connections and sizes must be positive")
	}
	return nil
}

// systems returns the systems to run.
func (o *Options) systems() []System {
	if len(o.Systems) == 0 {
		return Systems()
	}
	wanted := slices.Clone(o.Systems)
	for _, id := range o.Systems {
		if s, ok := find(Systems(), id); ok && s.Subject != "" {
			wanted = append(wanted, s.Subject)
		}
	}
	return slices.DeleteFunc(Systems(), func(s System) bool { return !slices.Contains(wanted, s.ID) })
}

// cells returns the cells to run and how often.
func (o *Options) cells() (cells []Cell, rounds []int) {
	for _, c := range Cells() {
		n := o.Rounds
		switch {
		case len(o.Cells) > 0:
			if !slices.Contains(o.Cells, c.String()) {
				continue
			}
		case !promised(c):
			if o.Quick {
				continue
			}
			n = max(1, n/3)
		}
		cells, rounds = append(cells, c), append(rounds, n)
	}
	return cells, rounds
}

// What swpd was, for the report.
const (
	serverProgram = "the program swpd"
	serverBuilt   = "a process of swp-bench, built from the same packages as swpd"
	swpdSettings  = swpd.Settings
)

func (o *Options) server() string {
	if o.SWPD == "" {
		return serverBuilt
	}
	return serverProgram
}
