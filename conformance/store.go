package conformance

import (
	"context"

	"github.com/slimwire/swp/store/sqlstore"
)

// store makes the durable state of an endpoint: in memory, for one play.
func (s *stage) store() (*sqlstore.Store, error) {
	db, err := sqlstore.Open(context.Background(), sqlstore.Options{Now: s.clock.now})
	if err != nil {
		return nil, err
	}
	s.onClose(func() { _ = db.Close() })
	return db, nil
}
