package daemon

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/boundlog"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/profiles/agdisc"
)

// cards are the cards of agents that the configuration names, as their files
// have them. It implements agdisc.Source.
type cards struct {
	config  *config.AGDISC
	log     *zap.Logger
	table   atomic.Pointer[agdisc.Table]
	failure atomic.Pointer[string] // why the files cannot be used now; nil if they can

	mu    sync.Mutex
	stamp string // what the files looked like when they were read last
}

func newCards(c *config.Config, log *zap.Logger) (*cards, error) {
	k := &cards{config: &c.AGDISC, log: log}
	k.stamp = k.look()
	table, err := k.read()
	if err != nil {
		return nil, err
	}
	k.table.Store(table)
	return k, nil
}

func (k *cards) read() (*agdisc.Table, error) {
	var list []agdisc.Card
	for _, id := range slices.Sorted(maps.Keys(k.config.Cards)) {
		c := k.config.Cards[id]
		octets, err := readUpTo(c.File, agdisc.MaxCard)
		if err != nil {
			return nil, fmt.Errorf("agdisc.cards.%s.file: %w", id, err)
		}
		list = append(list, agdisc.Card{AgentID: id, Revision: c.Revision, Payload: octets, MaxAge: c.MaxAge})
	}
	table, err := agdisc.NewTable(list...)
	if err != nil {
		return nil, fmt.Errorf("agdisc.cards: %w", err)
	}
	return table, nil
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

// look describes the files without opening them.
func (k *cards) look() string {
	var files []string
	for _, id := range slices.Sorted(maps.Keys(k.config.Cards)) {
		files = append(files, k.config.Cards[id].File)
	}
	return stampOf(files...)
}

// refresh reads the files again if they have changed, or could not be used, or
// always. What was read before stays if they cannot be used.
func (k *cards) refresh(always bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	stamp := k.look()
	if !always && stamp == k.stamp && k.failure.Load() == nil {
		return nil
	}
	changed := stamp != k.stamp
	k.stamp = stamp
	table, err := k.read()
	if err != nil {
		text := boundlog.CleanLines(err.Error())
		if old := k.failure.Swap(&text); old == nil || *old != text {
			k.log.Error("agent cards not reloaded, the old ones stay", zap.Error(err))
		}
		return err
	}
	k.table.Store(table)
	if k.failure.Swap(nil) != nil || changed {
		k.log.Info("agent cards reloaded", zap.Int("cards", len(k.config.Cards)))
	}
	return nil
}

// Agents implements agdisc.Source.
func (k *cards) Agents() []agdisc.Entry { return k.table.Load().Agents() }

// Card implements agdisc.Source.
func (k *cards) Card(agentID string, found func(agdisc.Card, error)) bool {
	return k.table.Load().Card(agentID, found)
}
