package check

import (
	"maps"
	"slices"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/slip"
	"github.com/slimwire/swp/slip/ucr"
)

// PlanSLIP is nSLIP and SLIP v1 in a Plan.
type PlanSLIP struct {
	Numbers map[string]string `json:"agents"`  // agent_ids by their numbers in nSLIP
	Kept    []string          `json:"kept"`    // patterns of agents whose messages are kept
	Anchors int               `json:"anchors"` // of this installation
	A2A     []string          `json:"a2a"`     // agents on sessions and of partners that have SLIP-A2A here
}

func (p *Plan) slip(c *config.Config) error {
	p.SLIP = PlanSLIP{Numbers: make(map[string]string), Kept: append([]string{}, c.SLIP.Relay...), A2A: slices.AppendSeq([]string{}, maps.Keys(c.SLIP.A2A))}
	slices.Sort(p.SLIP.A2A)
	maps.Copy(p.SLIP.Numbers, c.SLIP.Agents)
	table, err := slip.ReadAnchors(c.SLIP.UCR)
	if err == nil && table != nil {
		p.SLIP.Anchors = len(table.Anchors()) - len(ucr.Core())
	}
	return err
}
