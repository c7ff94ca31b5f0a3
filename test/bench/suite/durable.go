package suite

import (
	"slices"

	"github.com/slimwire/swp/test/bench/natsecho"
	"github.com/slimwire/swp/test/bench/rawtls"
	"github.com/slimwire/swp/test/bench/swpecho"
)

// Work is something that outlives the server: each exchange has reached the disk
// when it is over.
type Work struct {
	Name    string
	Systems []System
	Cells   []Cell

	// Promised is the rate of ours, exchanges a second at least, and CPU the processor time of
	// its server, microseconds an exchange at most, by load. Further promises are in Promises.
	Promised, CPU map[Cell]float64
}

// Works returns all durable work in the order of the table.
func Works() []Work {
	one, many := Cell{256, 1, 1}, Cell{256, 1, 64}
	return []Work{
		{
			Name: "durable publish",
			Systems: []System{
				{"swpd-publish", "swpd: EVT_PUBLISH, swp.sync", swpdKey, swpecho.DialPublish, ""},
				{"nats-publish", "NATS JetStream, synchronous", natsDurableKey, natsecho.DialPublish, "swpd-publish"},
				{"raw-synced", "raw TLS, write and fdatasync", rawSyncedKey, rawtls.DialSynced, "swpd-publish"},
			},
			Cells: []Cell{one, many},
			CPU:   map[Cell]float64{many: 30},
		},
		{
			Name: "task, ten Events, Result",
			Systems: []System{
				{"swpd-tasks", "swpd: to an agent and back", swpdKey, swpecho.DialTasks, ""},
				{"bare-synced", "one bare write and fdatasync", "", rawtls.DialFile, "swpd-tasks"},
			},
			Cells:    []Cell{{256, 1, 1}, {256, 16, 4}},
			Promised: map[Cell]float64{{256, 16, 4}: 5_000},
		},
	}
}

// The keys of the servers that store: NATS, and a file for each connection.
const (
	natsDurableKey = "nats-durable"
	rawSyncedKey   = "raw-synced"
)

// workSystems are the systems of all works, those that cross a link, those with an audit
// trail and those on PostgreSQL included.
func workSystems() []System {
	var list []System
	for _, w := range slices.Concat(Works(), Crossings(), Audits(), Clusters()) {
		list = append(list, w.Systems...)
	}
	return list
}

// durable measures all durable operations. Ratios use measurements of the same round.
func (r *run) durable() error {
	for _, w := range Works() {
		for _, cell := range w.Cells {
			report, err := r.measureWork(w, cell, r.opts.Rounds)
			if err != nil {
				return err
			}
			r.report.Durable = append(r.report.Durable, report)
		}
	}
	return nil
}

// measureAll has each system of a work exchange for one window a round. The results are by
// system and round; one that failed is zero.
func (r *run) measureAll(w Work, cell Cell, rounds int) ([][]measurement, error) {
	results := make([][]measurement, len(w.Systems))
	for round := range rounds {
		r.say("%s, %s, round %d of %d", w.Name, cell, round+1, rounds)
		for j := range w.Systems {
			k := (round + j) % len(w.Systems)
			if err := r.disk.settle(r.ctx); err != nil {
				r.report.Slow++
				r.say("%v", err)
			}
			m, err := r.fleet.measure(w.Systems[k], cell)
			if r.ctx.Err() != nil {
				return nil, r.ctx.Err()
			}
			if err != nil {
				r.fail(w.Systems[k].ID+" "+cell.String(), err)
			}
			results[k] = append(results[k], m)
		}
	}
	return results, nil
}

func (r *run) measureWork(w Work, cell Cell, rounds int) (CellReport, error) {
	results, err := r.measureAll(w, cell, rounds)
	if err != nil {
		return CellReport{}, err
	}
	c := cellReport(cell, rounds, w.Systems, results)
	c.Work = w.Name
	ours := &c.Rows[0]
	if bound := w.Promised[cell]; bound > 0 && ours.PerSecond != nil {
		ours.Promise = atLeast(ours.PerSecond.Median, bound)
	}
	if bound := w.CPU[cell]; bound > 0 && ours.ServerCPU != nil {
		ours.CPUPromise = atMost(ours.ServerCPU.Median, bound)
	}
	return c, nil
}
