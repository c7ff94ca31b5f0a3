package storage

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/internal/disk"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/pgstore"
	"github.com/slimwire/swp/store/sharedblobs"
)

// writerName is the name, in the database, of the one node that writes. All nodes open the store under
// it; its address is the name of the node.
const writerName = "swpd"

// standbyPace is the pause between two attempts of a node that stands by.
const standbyPace = 500 * time.Millisecond

// dataLock is the file that keeps a second process out of a data directory whose store is elsewhere.
const dataLock = "lock"

// shared is the engine on PostgreSQL. One node at a time uses it.
type shared struct {
	*pgstore.Store
	data *disk.Lock // of the data directory
}

// Close implements store.Store.
func (s shared) Close() error { return errors.Join(s.Store.Close(), s.data.Close()) }

// openShared opens or creates the store in a PostgreSQL database. While another node uses it, it waits
// until that one ends or has been silent for pgstore.Silence, or returns store.ErrLocked if the options
// have no Standby.
func openShared(ctx context.Context, opts *Options, commits prometheus.Observer) (engine, error) {
	c := opts.Config
	if opts.AcceptDamage {
		return nil, errors.New("--accept-damage is for the embedded store: restore a damaged database with the tools of PostgreSQL")
	}
	node, err := c.NodeName()
	if err != nil {
		return nil, err
	}
	o := pgstore.Options{Limits: limitsOf(c, opts.Asserts)}
	o.DSN, o.Node, o.Address = c.Store, writerName, node
	o.Durability, o.Migrate = store.Durability(c.Durability), opts.Migrate
	o.Committed, o.Notice, o.Fenced = committed(commits), notice(opts.Log), opts.Ousted
	o.Fill, o.Now = opts.fill, opts.now
	if err := placeIsThere(c); err != nil { // before it stands by, and not when it has to take the store over
		return nil, err
	}
	if err := os.MkdirAll(c.Data, 0o700); err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	lock, err := disk.Acquire(filepath.Join(c.Data, dataLock))
	if err != nil {
		return nil, fmt.Errorf("data: %s is in use by another process, perhaps another node; each node has a directory for itself: %w", c.Data, err)
	}
	s, err := turn(ctx, opts, o)
	if err == nil {
		opts.Log.Info("shared store", zap.String("node", node), zap.String("database", s.Name()), zap.String("found", s.Found()))
		_, version, failed := s.Get(ctx, spaceData, nameVersion)
		if err = admit(version, failed); err != nil {
			_ = s.Close()
		}
	}
	if err != nil {
		_ = lock.Close()
		return nil, sharedFault(c, err)
	}
	return shared{s, lock}, nil
}

// Members returns the list of the nodes that share the store of a configuration.
func Members(c *config.Config) (*pgstore.Members, error) {
	return pgstore.NewMembers(pgstore.Options{DSN: c.Store, Node: writerName})
}

// turn opens the store as soon as no other node uses it.
func turn(ctx context.Context, opts *Options, o pgstore.Options) (*pgstore.Store, error) {
	active := ""
	for {
		s, err := pgstore.Open(ctx, o)
		held, locked := errors.AsType[*pgstore.Held](err)
		switch {
		case locked && opts.Standby != nil:
			if held.Address != active {
				active = held.Address
				opts.Standby(active)
			}
		case active != "" && errors.Is(err, store.ErrUnavailable):
			// The database may be restarted, or fail over, while this node stands by.
		default:
			return s, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(standbyPace):
		}
	}
}

// refill says what to do about a shared store that is not complete.
const refill = "remove the schema of the database (DROP SCHEMA swp CASCADE) and everything in cluster.artifacts, and repeat the import or the copy"

// sharedFault adds to an error of Open what to do.
func sharedFault(c *config.Config, err error) error {
	switch {
	case errors.Is(err, store.ErrVersion):
		return otherRelease("the store", c.Store, err)
	case errors.Is(err, store.ErrLocked):
		return fmt.Errorf("store: another node uses the database; stop it first: %w", err)
	case errors.Is(err, store.ErrUnfinished):
		return fmt.Errorf("store: an import or a copy was interrupted; %s: %w", refill, err)
	case errors.Is(err, store.ErrUsed):
		return fmt.Errorf("store: an import and a copy need a database without a store: %w", err)
	case errors.Is(err, store.ErrFull):
		return fmt.Errorf("store: the volume of the database is full; make room on it: %w", err)
	case errors.Is(err, store.ErrUnavailable):
		return fmt.Errorf("store: the database cannot be used; see that it runs, that store has its address, and that its role may create a schema: %w", err)
	}
	return fmt.Errorf("store: %w", err)
}

// openSharedFiles opens or creates the store of artifact content in the place that the nodes share. Its
// errors name the remedy.
func openSharedFiles(ctx context.Context, opts *Options, records store.Records) (blobs, error) {
	c := opts.Config
	o := sharedblobs.Options{BlobLimits: artifactLimitsOf(c, opts.Asserts)}
	o.Records, o.Space, o.Notice, o.Now = records, spaceArtifacts, notice(opts.Log), opts.now
	var err error
	if o.Objects, err = openPlace(c.Cluster.Artifacts); err != nil {
		return nil, fmt.Errorf("cluster.artifacts: %w", err)
	}
	f, err := sharedblobs.Open(ctx, o)
	if err != nil {
		_ = o.Objects.Close()
		return nil, fmt.Errorf("cluster.artifacts: the artifacts in %s cannot be opened: %w", o.Objects, err)
	}
	return f, nil
}

// placeIsThere returns an error if the place that cluster.artifacts names is a directory that does not exist.
func placeIsThere(c *config.Config) error {
	place, err := openPlace(c.Cluster.Artifacts)
	if err != nil {
		return fmt.Errorf("cluster.artifacts: %w", err)
	}
	return place.Close()
}

// placeIsEmpty returns an error unless the place that cluster.artifacts names holds nothing of a store.
func placeIsEmpty(ctx context.Context, c *config.Config) error {
	place, err := openPlace(c.Cluster.Artifacts)
	if err == nil {
		err = errors.Join(sharedblobs.Unused(ctx, place), place.Close())
	}
	if err != nil {
		return fmt.Errorf("cluster.artifacts: %w", err)
	}
	return nil
}

// openPlace returns the place that cluster.artifacts names.
func openPlace(place string) (sharedblobs.Objects, error) {
	if !strings.HasPrefix(place, "s3://") {
		return sharedblobs.NewDirectory(place)
	}
	u, err := url.Parse(place)
	if err != nil {
		return nil, err
	}
	prefix := strings.Trim(u.Path, "/")
	if prefix != "" {
		prefix += "/"
	}
	q := u.Query()
	return sharedblobs.NewBucket(sharedblobs.BucketOptions{
		Endpoint: q.Get("endpoint"), Name: u.Host, Prefix: prefix, Region: q.Get("region"),
		CredentialsFile: q.Get("credentials"), Profile: q.Get("profile"),
	})
}
