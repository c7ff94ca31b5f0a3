package mcpstdio

import "time"

// Impatient returns a Config with other times for an answer after a cancellation, and after a question of
// this side.
func Impatient(c Config, abandoned, silent time.Duration) Config {
	c.abandoned, c.silent = abandoned, silent
	return c
}
