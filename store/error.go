package store

// Error is why a store refused or failed. Kinds are compared with errors.Is
// against the values below; an engine wraps them with the cause.
//
// Its methods are what profiles, which do not know this package, ask an error
// of a store for.
type Error struct {
	text      string
	detail    string
	retryable bool
}

// The kinds of failure.
var (
	// ErrBusy: too much is waiting to be written.
	ErrBusy = &Error{"store: too much is waiting to be written", "store_busy", true}

	// ErrQuota: the owner, or the store, holds as much as it may. What was
	// accepted before is kept.
	ErrQuota = &Error{"store: quota is used up", "store_quota", true}

	// ErrUnavailable: the medium failed or is full. The store tries again by
	// itself with each operation.
	ErrUnavailable = &Error{"store: can not be written", "store_unavailable", true}

	// ErrDamaged: a checksum does not fit what was read. It is never served.
	ErrDamaged = &Error{"store: an item is damaged", "store_damaged", false}

	// ErrTooLarge: a name or a value is above its limit.
	ErrTooLarge = &Error{"store: a name or value is too large", "store_too_large", false}

	// ErrClosed: the store was closed.
	ErrClosed = &Error{"store: closed", "store_closed", true}

	// ErrLocked: another process has the store open.
	ErrLocked = &Error{"store: in use by another process", "store_locked", false}

	// ErrVersion: the store was written by a release that this one can not read.
	ErrVersion = &Error{"store: written by another release", "store_version", false}
)

func (e *Error) Error() string { return e.text }

// StoreDetail is a word of a fixed set for logs and metrics.
func (e *Error) StoreDetail() string { return e.detail }

// Retryable reports whether the same operation may succeed later.
func (e *Error) Retryable() bool { return e.retryable }
