// Package language times reading the message languages that SWP carries, as an
// endpoint reads what came from a peer, beside reading the same content by other
// means.
package language

import (
	"fmt"
	"testing"

	"github.com/slimwire/swp/test/bench/codec"
)

// Case is a way to read a message.
type Case struct {
	codec.Case
	Subject string // our way, which this one is compared with; empty for ours
}

// Cases returns the ways to read a message. They may not be used at once.
func Cases() ([]Case, error) {
	var all []Case
	for _, some := range []func() ([]Case, error){sdlCases, slipCases} {
		cases, err := some()
		if err != nil {
			return nil, err
		}
		all = append(all, cases...)
	}
	return all, nil
}

// Allocations returns how many allocations a message takes.
func (c Case) Allocations() (float64, error) {
	var fault error
	n := testing.AllocsPerRun(100, func() {
		if err := c.Run(1); err != nil {
			fault = err
		}
	})
	return n, fault
}

// slow is how many messages of tens of microseconds are read between two looks at
// the clock.
const slow = 10

// each returns a case that reads one message again and again.
func each(name, subject string, batch int, read func() error) Case {
	return Case{codec.Case{Name: name, Batch: batch, Run: func(n int) error {
		for range n {
			if err := read(); err != nil {
				return fmt.Errorf("language: %s: %w", name, err)
			}
		}
		return nil
	}}, subject}
}
