package store

import (
	"errors"
	"fmt"
	"syscall"
)

// Error is why a store refused or failed. Kinds are compared with errors.Is
// against the values below; an engine wraps them with the cause.
//
// Its methods are what profiles, which do not know this package, ask an error
// of a store for.
type Error struct {
	text      string
	detail    string
	retryable bool
	kind      error // that this is one of; may be nil
}

// The kinds of failure.
var (
	// ErrBusy: too much is waiting to be written.
	ErrBusy = &Error{"store: too much is waiting to be written", "store_busy", true, nil}

	// ErrQuota: the owner, or the store, holds as much as it may. Accepted data
	// is kept.
	ErrQuota = &Error{"store: quota is used up", "store_quota", true, nil}

	// ErrUnavailable: the medium failed or is full. The store tries again by
	// itself with each operation.
	ErrUnavailable = &Error{"store: cannot be written", "store_unavailable", true, nil}

	// ErrFull: the medium is full. It is an ErrUnavailable.
	ErrFull = &Error{"store: cannot be written: the volume is full", "store_full", true, ErrUnavailable}

	// ErrDamaged: a checksum, or the structure of a file, does not fit what was read. It
	// is never served.
	ErrDamaged = &Error{"store: damaged", "store_damaged", false, nil}

	// ErrTooLarge: a name or a value is above its limit.
	ErrTooLarge = &Error{"store: a name or value is too large", "store_too_large", false, nil}

	// ErrClosed: the store was closed.
	ErrClosed = &Error{"store: closed", "store_closed", true, nil}

	// ErrLocked: another process has the store open.
	ErrLocked = &Error{"store: in use by another process", "store_locked", false, nil}

	// ErrVersion: the store was written by a release that this one cannot read.
	ErrVersion = &Error{"store: written by another release", "store_version", false, nil}
)

func (e *Error) Error() string { return e.text }

// Unwrap returns the kind of this error, or nil.
func (e *Error) Unwrap() error { return e.kind }

// Unavailable returns an error of the file system as ErrFull if there is no space left,
// or else as ErrUnavailable. Nil stays nil.
func Unavailable(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// StoreDetail is a word of a fixed set for logs and metrics.
func (e *Error) StoreDetail() string { return e.detail }

// Retryable reports whether the same operation may succeed later.
func (e *Error) Retryable() bool { return e.retryable }
