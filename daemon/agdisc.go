package daemon

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/profiles/agdisc"
)

// cards are the cards of agents that the configuration names, as their files
// have them. It implements agdisc.Source.
type cards struct{ table atomic.Pointer[agdisc.Table] }

func newCards(c *config.Config) (*cards, error) {
	table, err := readCards(c)
	if err != nil {
		return nil, err
	}
	k := new(cards)
	k.table.Store(table)
	return k, nil
}

// prepareCards reads the cards of a configuration.
func (d *daemon) prepareCards(c *config.Config) (change, error) {
	table, err := readCards(c)
	return change{
		fields: []zap.Field{zap.Int("cards", len(c.AGDISC.Cards))},
		commit: func() bool {
			d.cards.table.Store(table)
			return false
		},
	}, err
}

func readCards(c *config.Config) (*agdisc.Table, error) {
	var list []agdisc.Card
	for _, id := range slices.Sorted(maps.Keys(c.AGDISC.Cards)) {
		conf := c.AGDISC.Cards[id]
		octets, err := readUpTo(conf.File, agdisc.MaxCard)
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

// cardFiles are those that section agent cards reads again.
func cardFiles(c *config.Config) (files []string) {
	for _, id := range slices.Sorted(maps.Keys(c.AGDISC.Cards)) {
		files = append(files, c.AGDISC.Cards[id].File)
	}
	return files
}

// readUpTo reads a file of at most limit octets.
func readUpTo(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	octets, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if int64(len(octets)) > limit {
		return nil, fmt.Errorf("%s has more than %d octets", name, limit)
	}
	return octets, nil
}

// Agents implements agdisc.Source.
func (k *cards) Agents() []agdisc.Entry { return k.table.Load().Agents() }

// Card implements agdisc.Source.
func (k *cards) Card(agentID string, found func(agdisc.Card, error)) bool {
	return k.table.Load().Card(agentID, found)
}
