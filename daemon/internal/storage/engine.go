package storage

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/operator"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/filestore"
	"github.com/slimwire/swp/store/sqlstore"
)

// engine is an engine of the store.
type engine interface {
	store.Store
	carrier
	reading
	operator.Engine
	Stats() store.Stats
	Pools(ctx context.Context) []part.Pool

	SetBounds(l store.Limits)
}

// blobs is an engine of the octets of artifacts.
type blobs interface {
	store.Blobs
	carrier
	Pools() []part.Pool
	SetBounds(l store.BlobLimits)
}

// enginesOf returns the functions that open the engines of a configuration.
func enginesOf(c *config.Config) (
	func(context.Context, *Options, prometheus.Observer) (engine, error), func(context.Context, *Options, store.Records) (blobs, error),
) {
	if c.Clustered() {
		return openShared, openSharedFiles
	}
	return openEmbedded, openFiles
}

// limitsOf returns the limits of the database.
func limitsOf(c *config.Config, asserts func(peer string) bool) store.Limits {
	return store.Limits{
		Quota: int64(c.Quota.Total), QuotaPerOwner: int64(c.Quota.PerIdentity), Waiting: c.Relay.Waiting, Remembered: c.Relay.Remembered, Apart: asserts,
	}
}

// artifactLimitsOf returns the limits of the octets of artifacts.
func artifactLimitsOf(c *config.Config, asserts func(peer string) bool) store.BlobLimits {
	a := &c.Artifact
	return store.BlobLimits{
		Quota: int64(a.Quota.Total), QuotaPerOwner: int64(a.Quota.PerIdentity), Items: a.Items, ItemsPerOwner: a.ItemsPerIdentity, Apart: asserts,
	}
}

// openEmbedded opens or creates the database of a data directory, or one in memory.
func openEmbedded(ctx context.Context, opts *Options, commits prometheus.Observer) (engine, error) {
	c := opts.Config
	o := sqlstore.Options{Limits: limitsOf(c, opts.Asserts)}
	o.Durability, o.AcceptDamage, o.Migrate = store.Durability(c.Durability), opts.AcceptDamage, opts.Migrate
	o.Committed = committed(commits)
	o.Later, o.Now = opts.later, opts.now
	o.Admit = func(get func(space, key string) ([]byte, error)) error {
		return admit(get(spaceData, nameVersion))
	}
	o.Notice = notice(opts.Log)
	if c.Store != config.StoreMemory {
		if err := unfinished(c.Data); err != nil {
			return nil, err
		}
		o.Dir = filepath.Join(c.Data, dirStore)
	}
	e, err := sqlstore.Open(ctx, o)
	switch {
	case errors.Is(err, store.ErrLocked):
		return nil, fmt.Errorf("data: the store in %s is in use by another process, perhaps another swpd; stop that one or name another directory: %w", o.Dir, err)
	case errors.Is(err, store.ErrVersion):
		return nil, otherRelease("the store", o.Dir, err)
	case errors.Is(err, store.ErrDamaged):
		return nil, fmt.Errorf("data: %w\nnothing was changed; restore %s from a copy, or start once with --accept-damage to continue with the readable part", err, o.Dir)
	case errors.Is(err, store.ErrFull):
		return nil, fmt.Errorf("data: the volume of %s is full; make room on it, or name another directory: %w", o.Dir, err)
	case err != nil:
		return nil, fmt.Errorf("data: the store in %s cannot be opened: %w", o.Dir, err)
	}
	return e, nil
}

// openFiles opens or creates the store of artifact content. Its errors name the remedy.
func openFiles(ctx context.Context, opts *Options, records store.Records) (blobs, error) {
	c := opts.Config
	o := filestore.Options{BlobLimits: artifactLimitsOf(c, opts.Asserts)}
	o.Records, o.Space, o.Durability, o.AcceptDamage = records, spaceArtifacts, store.Durability(c.Durability), opts.AcceptDamage
	o.Notice, o.Now = notice(opts.Log), opts.now
	if c.Store != config.StoreMemory {
		o.Dir = filepath.Join(c.Data, dirArtifacts)
	}
	f, err := filestore.Open(ctx, o)
	switch {
	case errors.Is(err, store.ErrDamaged):
		return nil, fmt.Errorf("data: artifacts: %w\nnothing was changed; restore %s from a copy, or start once with --accept-damage to continue with the readable part", err, o.Dir)
	case errors.Is(err, store.ErrVersion):
		return nil, otherRelease("an artifact", o.Dir, err)
	case err != nil:
		return nil, fmt.Errorf("data: the artifacts in %s cannot be opened: %w", o.Dir, err)
	}
	return f, nil
}

func notice(log *zap.Logger) func(string) {
	return func(text string) { log.Warn("store", zap.String("notice", text)) }
}
