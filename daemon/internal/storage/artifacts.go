package storage

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/store"
)

// Places of artifacts in the store: metadata are records, content is in files in a
// directory of the data.
const (
	spaceArtifacts = "artifact"
	dirArtifacts   = "artifacts"
	dirStore       = "store" // of the database

	spaceKeys = "artifact.keys"
	nameToken = "resume_token"
)

// artifactOptions configure profile 14.
func artifactOptions(c *config.Config, octets store.Blobs, key []byte) artifact.Options {
	a := &c.Artifact
	return artifact.Options{
		Store: octets, MaxSize: uint64(c.ArtifactSize()), MaxMetadata: int(a.Metadata),
		Window: a.Window, Chunk: int(c.ArtifactChunk()), Downloads: a.Downloads, DownloadsPerIdentity: a.DownloadsPerIdentity,
		Abandoned: a.Abandoned, Retention: a.Retention, TokenKey: key,
	}
}

// keyTime limits the wait for the store at the start.
const keyTime = 10 * time.Second

// keptKey returns a secret that is created once and stored, so that data made with it
// stays valid after a restart.
func keptKey(records store.Records, space, name string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), keyTime)
	defer cancel()
	version, key, err := records.Get(ctx, space, name)
	if err != nil || version != 0 {
		return key, err
	}
	key = make([]byte, 32)
	_, _ = rand.Read(key) // never returns an error
	told := make(chan error, 1)
	records.Put(space, name, 0, "", key, time.Time{}, func(r store.PutResult) { told <- r.Err })
	select {
	case err = <-told:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("data: the key %s cannot be stored: %w", name, err)
	}
	return key, nil
}
