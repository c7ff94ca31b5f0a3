package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/slimwire/swp/test/bench/suite"
)

func TestHelpNamesEveryPartAndThoseThatAQuickRunLeavesOut(t *testing.T) {
	all, left, _ := strings.Cut(partsHelp(), "with -quick all but ")
	quick := suite.Parts(true)
	for _, part := range suite.Parts(false) {
		if !strings.Contains(all, part) {
			t.Errorf("the help does not name %s: %s", part, partsHelp())
		}
		if slow := !slices.Contains(quick, part); strings.Contains(left, part) != slow {
			t.Errorf("the help says of %s that a quick run leaves it out: %v", part, !slow)
		}
	}
}
