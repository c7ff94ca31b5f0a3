package suite

import (
	"slices"

	"github.com/slimwire/swp/test/bench/natsecho"
	"github.com/slimwire/swp/test/bench/swpecho"
)

// Work is something that outlives the server: each exchange has reached the disk
// when it is over.
type Work struct {
	Name    string
	Systems []System
	Cells   []Cell

	// Promised is the rate of ours, exchanges a second at least, by load.
	Promised map[Cell]float64
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
			},
			Cells:    []Cell{one, many},
			Promised: map[Cell]float64{one: 8_000, many: 40_000},
		},
		{
			Name:    "task, ten Events, Result",
			Systems: []System{{"swpd-tasks", "swpd: to an agent and back", swpdKey, swpecho.DialTasks, ""}},
			Cells:   []Cell{{256, 1, 1}, {256, 16, 4}},
		},
	}
}

// natsDurableKey is the key of the NATS server that stores.
const natsDurableKey = "nats-durable"

// workSystems are the systems of all works, those that cross a link and those with an audit
// trail included.
func workSystems() []System {
	var list []System
	for _, w := range slices.Concat(Works(), Crossings(), Audits()) {
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

func (r *run) measureWork(w Work, cell Cell, rounds int) (CellReport, error) {
	results := make([][]measurement, len(w.Systems))
	for round := range rounds {
		r.say("%s, %s, round %d of %d", w.Name, cell, round+1, rounds)
		for j := range w.Systems {
			k := (round + j) % len(w.Systems)
			m, err := r.fleet.measure(w.Systems[k], cell)
			if r.ctx.Err() != nil {
				return CellReport{}, r.ctx.Err()
			}
			if err != nil {
				r.fail(w.Systems[k].ID+" "+cell.String(), err)
			}
			results[k] = append(results[k], m)
		}
	}
	c := cellReport(cell, rounds, w.Systems, results)
	c.Work = w.Name
	if bound := w.Promised[cell]; bound > 0 && c.Rows[0].PerSecond != nil {
		c.Rows[0].Promise = atLeast(c.Rows[0].PerSecond.Median, bound)
	}
	return c, nil
}
