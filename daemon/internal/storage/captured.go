package storage

import (
	"context"

	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/relay"
)

// mostNames bounds the names that are looked up at once.
const mostNames = 100

// Named returns stored names that begin with a prefix, by their kind, and at most
// mostNames of each: topics with deliveries, artifact_ids, and agent_ids that were
// declared.
func (s *Storage) Named(ctx context.Context, prefix string) (map[string][]string, error) {
	found := make(map[string][]string)
	space, queue := relay.TopicQueue(prefix)
	queues, err := s.engine.QueueNames(ctx, space, queue, mostNames)
	if err != nil {
		return nil, err
	}
	for _, name := range queues {
		found["relay topic"] = append(found["relay topic"], relay.TopicOf(name))
	}
	if found["artifact_id"], err = artifact.IDs(ctx, s.blobs, prefix, mostNames); err != nil {
		return nil, err
	}
	found["agent_id of a connected agent"], err = a2a.DeclaredIDs(ctx, s, prefix, mostNames)
	return found, err
}
