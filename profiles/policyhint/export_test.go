package policyhint

// Octets is what all hints take.
func (h *Hints) Octets() int64 { return h.table.octets.Load() }

// Connections is how many have hints.
func (h *Hints) Connections() int64 { return h.table.Count() }
