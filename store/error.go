package store

import (
	"errors"
	"fmt"
	"syscall"
)

// Error is a refusal or failure of a store. Compare kinds with errors.Is against the values
// below; an engine wraps them with the cause.
//
// Package profiles does not import this package: it finds the methods of Error by an interface.
type Error struct {
	text      string
	detail    string
	retryable bool
	kind      error // the more general kind; may be nil
}

// Kinds of failure.
var (
	// ErrBusy: too many operations wait to be written.
	ErrBusy = &Error{"store: too much is waiting to be written", "store_busy", true, nil}

	// ErrQuota: the owner or the store has reached its quota. Accepted data stays.
	ErrQuota = &Error{"store: quota is used up", "store_quota", true, nil}

	// ErrShare: others use the room that the owner shares with them, and the owner does not
	// have more than its share.
	ErrShare = &Error{"store: others use the share of this owner", "store_share", true, nil}

	// ErrUnavailable: the medium failed or is full. The store retries with each operation.
	ErrUnavailable = &Error{"store: cannot be written", "store_unavailable", true, nil}

	// ErrFull: the medium is full. It is an ErrUnavailable.
	ErrFull = &Error{"store: cannot be written: the volume is full", "store_full", true, ErrUnavailable}

	// ErrDamaged: a checksum or the structure of a file is wrong. Damaged data is never
	// served.
	ErrDamaged = &Error{"store: damaged", "store_damaged", false, nil}

	// ErrTooLarge: a name or a value exceeds its limit.
	ErrTooLarge = &Error{"store: a name or value is too large", "store_too_large", false, nil}

	// ErrClosed: the store was closed.
	ErrClosed = &Error{"store: closed", "store_closed", true, nil}

	// ErrFenced: another process has taken over this node. The store stays closed to writes.
	ErrFenced = &Error{"store: another process has taken over this node", "store_fenced", true, nil}

	// ErrLocked: another process has the store open.
	ErrLocked = &Error{"store: in use by another process", "store_locked", false, nil}

	// ErrVersion: the store has the format of a release that this release cannot read.
	ErrVersion = &Error{"store: written by another release", "store_version", false, nil}

	// ErrNewer: that release is a later one. It is an ErrVersion.
	ErrNewer = &Error{"store: written by a later release", "store_newer", false, ErrVersion}

	// ErrOlder: that release is an earlier one, and the store can be migrated. It is an ErrVersion.
	ErrOlder = &Error{"store: written by an earlier release, and not migrated", "store_older", false, ErrVersion}
)

func (e *Error) Error() string { return e.text }

func (e *Error) Unwrap() error { return e.kind }

// Unavailable wraps an error of the file system: as ErrFull if no space is left, otherwise
// as ErrUnavailable. Nil stays nil.
func Unavailable(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// StoreDetail returns a word from a fixed set, for logs and metrics.
func (e *Error) StoreDetail() string { return e.detail }

// Retryable reports whether the same operation may succeed later.
func (e *Error) Retryable() bool { return e.retryable }

// Retryable reports whether an operation that ended with err may succeed later.
func Retryable(err error) bool {
	kind, ok := errors.AsType[*Error](err)
	return ok && kind.retryable
}
