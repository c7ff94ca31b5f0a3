package conformance

import (
	"context"

	"github.com/slimwire/swp/store/sqlstore"
)

// store makes the durable state of an endpoint: in memory, for one play.
func (s *stage) store() (*sqlstore.Store, error) { return s.storeWith(sqlstore.Options{}) }

// storeWith makes one with other bounds.
func (s *stage) storeWith(opts sqlstore.Options) (*sqlstore.Store, error) {
	opts.Now = s.clock.now
	db, err := sqlstore.Open(context.Background(), opts)
	if err != nil {
		return nil, err
	}
	s.onClose(func() { _ = db.Close() })
	return db, nil
}
