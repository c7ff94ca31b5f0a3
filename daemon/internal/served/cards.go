package served

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/all"
)

// Cards serves the agent cards from the files that the configuration names. It implements
// agdisc.Source.
type Cards struct {
	part.Passive
	table atomic.Pointer[agdisc.Table]
}

// NewCards reads the card files.
func NewCards(c *config.Config) (*Cards, error) {
	table, err := readCards(c)
	if err != nil {
		return nil, err
	}
	k := new(Cards)
	k.table.Store(table)
	return k, nil
}

// Offer implements part.Part.
func (k *Cards) Offer(o *all.Options) error {
	o.AGDISC.Sources = append(o.AGDISC.Sources, k)
	return nil
}

// CardsSection is the reloadable part of the configuration.
func CardsSection(prepare part.Prepare) part.Section {
	return part.Section{Name: "agent cards", Stays: "the old ones stay", Keys: []string{"agdisc.cards"}, Files: cardFiles, Prepare: prepare}
}

// Prepare reads the card files.
func (k *Cards) Prepare(c *config.Config) (part.Change, error) {
	table, err := readCards(c)
	return part.Change{
		Fields: []zap.Field{zap.Int("cards", len(c.AGDISC.Cards))},
		Commit: func() bool {
			k.table.Store(table)
			return false
		},
	}, err
}

func readCards(c *config.Config) (*agdisc.Table, error) {
	var list []agdisc.Card
	for _, id := range slices.Sorted(maps.Keys(c.AGDISC.Cards)) {
		conf := c.AGDISC.Cards[id]
		octets, err := part.ReadUpTo(conf.File, agdisc.MaxCard)
		if err != nil {
			return nil, fmt.Errorf("agdisc.cards.%s.file: %w", id, err)
		}
		list = append(list, agdisc.Card{AgentID: id, Revision: conf.Revision, Payload: octets, MaxAge: conf.MaxAge})
	}
	table, err := agdisc.NewTable(list...)
	if err != nil {
		return nil, fmt.Errorf("agdisc.cards: %w", err)
	}
	return table, nil
}

// cardFiles lists the files that the section watches.
func cardFiles(c *config.Config) (files []string) {
	for _, id := range slices.Sorted(maps.Keys(c.AGDISC.Cards)) {
		files = append(files, c.AGDISC.Cards[id].File)
	}
	return files
}

// Agents implements agdisc.Source.
func (k *Cards) Agents() []agdisc.Entry { return k.table.Load().Agents() }

// Card implements agdisc.Source.
func (k *Cards) Card(agentID string, found func(agdisc.Card, error)) bool {
	return k.table.Load().Card(agentID, found)
}
