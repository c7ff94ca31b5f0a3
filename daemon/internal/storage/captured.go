package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/sqlstore"
)

// Bounds of the stored names that are looked up at once: names of each kind, and the last
// events whose types are.
const (
	mostNames  = 100
	mostEvents = 10_000
)

// reading is what the names are read from: an open store, or a view of one.
type reading interface {
	store.Scanner
	store.Reader
	QueueNames(ctx context.Context, space, prefix string, most int) ([]string, error)
	Owners(ctx context.Context, after string, yield func(name string, used int64) bool) error
}

// Named returns stored names that begin with a prefix, by their kind, and at most
// mostNames of each: topics with deliveries, types of the last events, artifact_ids, and
// agent_ids that were declared.
func (s *Storage) Named(ctx context.Context, prefix string) (map[string][]string, error) {
	return named(ctx, s.engine, prefix)
}

// NamedIn is Named for each of several prefixes, of the store of a configuration that no
// process has open. It changes nothing, and returns nothing if there is no store in the data directory.
func NamedIn(ctx context.Context, c *config.Config, prefixes []string) (byPrefix map[string]map[string][]string, err error) {
	if c.Clustered() {
		return nil, nil
	}
	view, err := openView(c)
	switch {
	case errors.Is(err, store.ErrLocked):
		return nil, fmt.Errorf("%w; while it runs, its log and swpd status report them", err)
	case view == nil:
		return nil, err
	}
	defer func() { _ = view.Close() }()
	byPrefix = make(map[string]map[string][]string, len(prefixes))
	for _, prefix := range prefixes {
		if byPrefix[prefix], err = named(ctx, view, prefix); err != nil {
			return nil, err
		}
	}
	return byPrefix, nil
}

// openView opens the store of a configuration for reading. It is nil if there is no store in the data directory.
func openView(c *config.Config) (*sqlstore.View, error) {
	if c.Store == config.StoreMemory {
		return nil, nil
	}
	view, err := sqlstore.OpenView(filepath.Join(c.Data, dirStore))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, store.ErrLocked):
		return nil, fmt.Errorf("swpd uses %s, or was killed: %w", c.Data, err)
	}
	return view, err
}

func named(ctx context.Context, in reading, prefix string) (map[string][]string, error) {
	found := make(map[string][]string)
	space, queue := relay.TopicQueue(prefix)
	queues, err := in.QueueNames(ctx, space, queue, mostNames)
	if err != nil {
		return nil, err
	}
	for _, name := range queues {
		found["relay topic"] = append(found["relay topic"], relay.TopicOf(name))
	}
	found["artifact_id"], err = artifact.IDs(func(prefix string, yield func(string) bool) error {
		return in.Scan(ctx, spaceArtifacts, prefix, "", func(name string, _ uint64, _ []byte) bool { return yield(name) })
	}, prefix, mostNames)
	if err != nil {
		return nil, err
	}
	types, err := events.Types(ctx, in, prefix, mostEvents)
	if err != nil {
		return nil, err
	}
	found["event_type of a stored event"] = types[:min(len(types), mostNames)]
	found["agent_id of a connected agent"], err = a2a.DeclaredIDs(ctx, in, prefix, mostNames)
	return found, err
}
