package obs

// Octets is what all bindings take.
func (c *Contexts) Octets() int64 { return int64(c.table.octets.Used()) }

// Connections is how many have contexts.
func (c *Contexts) Connections() int64 { return c.table.Count() }

// Bound sets the octets of the bindings of all connections.
func (c *Contexts) Bound(octets int) { c.table.octets.Bound(octets) }
