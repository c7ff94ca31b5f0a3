package suite

// connectionCells are one exchange in flight on each of more and more connections.
func connectionCells() []Cell {
	return []Cell{{64, 1, 1}, {64, 1, 10}, {64, 1, 100}, {64, 1, 1000}}
}

// connections measures whether the distance to raw TLS grows with the number of connections.
// It compares rates under every load, the first one too.
func (r *run) connections() error {
	w := Work{Name: "echo"}
	for _, id := range []string{"swpd-tls", "raw-tls"} {
		s, _ := find(Systems(), id)
		w.Systems = append(w.Systems, s)
	}
	rounds := max(1, r.opts.Rounds/3)
	for _, cell := range connectionCells() {
		results, err := r.measureAll(w, cell, rounds)
		if err != nil {
			return err
		}
		c := cellReport(cell, rounds, w.Systems, results)
		c.Work = "connections"
		if s, ok := ratios(each(results[0], rate), each(results[1], rate)); ok {
			c.Rows[1].Ratio = &Ratio{Of: "rate", Spread: s}
		}
		r.report.Connections = append(r.report.Connections, c)
	}
	judgeConnections(r.report.Connections)
	return nil
}

// judgeConnections compares each ratio to raw TLS with the first.
func judgeConnections(cells []CellReport) {
	for _, c := range cells[1:] {
		first, this := cells[0].Rows[1].Ratio, c.Rows[1].Ratio
		if first != nil && this != nil {
			this.Promise = atLeast(this.Median, first.Median/connsBound)
		}
	}
}
