package gather

import (
	"fmt"

	"github.com/slimwire/swp/store"
)

// CheckSizes checks the limits of names and values.
func CheckSizes(space, name, id, owner string, value int) error {
	switch {
	case len(space) > store.MaxSpace:
		return fmt.Errorf("%w: space of %d octets, limit %d", store.ErrTooLarge, len(space), store.MaxSpace)
	case len(name) > store.MaxName || len(id) > store.MaxName:
		return fmt.Errorf("%w: name of %d octets, limit %d", store.ErrTooLarge, max(len(name), len(id)), store.MaxName)
	case len(owner) > store.MaxOwner:
		return fmt.Errorf("%w: owner of %d octets, limit %d", store.ErrTooLarge, len(owner), store.MaxOwner)
	case value > store.MaxValue:
		return fmt.Errorf("%w: value of %d octets, limit %d", store.ErrTooLarge, value, store.MaxValue)
	}
	return nil
}

// CheckItem checks the limits of names and data.
func CheckItem(space, queue, id, mark, owner string, data int) error {
	if len(mark) > store.MaxName {
		return fmt.Errorf("%w: mark of %d octets, limit %d", store.ErrTooLarge, len(mark), store.MaxName)
	}
	return CheckSizes(space, queue, id, owner, data)
}
