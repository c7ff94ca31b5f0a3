package storage

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/filestore"
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

// openFiles opens or creates the store of artifact content. Its errors name the remedy.
func openFiles(ctx context.Context, c *config.Config, records store.Records, acceptDamage bool, log *zap.Logger) (*filestore.Store, error) {
	o := fileBounds(c)
	o.Records, o.Space, o.Durability, o.AcceptDamage = records, spaceArtifacts, store.Durability(c.Durability), acceptDamage
	o.Notice = func(text string) { log.Warn("store", zap.String("notice", text)) }
	if c.Store != config.StoreMemory {
		o.Dir = filepath.Join(c.Data, dirArtifacts)
	}
	blobs, err := filestore.Open(ctx, o)
	switch {
	case errors.Is(err, store.ErrDamaged):
		return nil, fmt.Errorf("data: artifacts: %w\nnothing was changed; restore %s from a copy, or start once with --accept-damage to continue with the readable part", err, o.Dir)
	case errors.Is(err, store.ErrVersion):
		return nil, otherRelease("an artifact", o.Dir, err)
	case err != nil:
		return nil, fmt.Errorf("data: the artifacts in %s cannot be opened: %w", o.Dir, err)
	}
	return blobs, nil
}

// fileBounds returns the limits of the store of artifact content.
func fileBounds(c *config.Config) filestore.Options {
	a := &c.Artifact
	return filestore.Options{
		Quota: int64(a.Quota.Total), QuotaPerOwner: int64(a.Quota.PerIdentity), Items: a.Items, ItemsPerOwner: a.ItemsPerIdentity,
	}
}

// artifactOptions configure profile 14.
func artifactOptions(c *config.Config, blobs store.Blobs, key []byte) artifact.Options {
	a := &c.Artifact
	return artifact.Options{
		Store: blobs, MaxSize: uint64(c.ArtifactSize()), MaxMetadata: int(a.Metadata),
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
