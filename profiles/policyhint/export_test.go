package policyhint

// Octets is what all hints take.
func (h *Hints) Octets() int64 { return int64(h.table.octets.Used()) }

// Connections is how many have hints.
func (h *Hints) Connections() int64 { return h.table.Count() }

// Bound sets the octets of the hints of all connections.
func (h *Hints) Bound(octets int) { h.table.octets.Bound(octets) }
