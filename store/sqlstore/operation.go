package sqlstore

import "github.com/slimwire/swp/store/internal/gather"

// operation is a submitted write.
type operation interface {
	gather.Operation

	// apply performs the operation within the transaction of a batch. A *failed error means
	// that a statement failed and the transaction is unusable. Any other error is the
	// outcome of this operation alone, which then has written nothing. apply is called
	// again after a rollback.
	apply(w *writer) error
}
