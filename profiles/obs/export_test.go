package obs

// Octets is what all bindings take.
func (c *Contexts) Octets() int64 { return c.table.octets.Load() }

// Connections is how many have contexts.
func (c *Contexts) Connections() int64 { return c.table.Count() }
