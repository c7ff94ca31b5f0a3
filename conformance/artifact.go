package conformance

import (
	"context"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/store/filestore"
)

// artifactProfiles are the ARTIFACT profile over a new store.
func artifactProfiles(s *stage) ([]*profiles.Profile, error) {
	db, err := s.store()
	if err != nil {
		return nil, err
	}
	blobs, err := filestore.Open(context.Background(), filestore.Options{Records: db, Space: "artifact", Now: s.clock.now})
	if err != nil {
		return nil, err
	}
	s.onClose(func() { _ = blobs.Close() })
	service, err := artifact.New(artifact.Options{Store: blobs, Chunk: artifactChunk})
	if err != nil {
		return nil, err
	}
	s.onClose(service.Close)
	return []*profiles.Profile{witnessed(s, service.Profile())}, nil
}

// artifactChunk is how many octets the endpoint sends in a chunk: so few that the
// vectors see it send several.
const artifactChunk = 16
