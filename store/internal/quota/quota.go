// Package quota has the decisions of an engine that limits what owners store.
package quota

import (
	"fmt"
	"math"

	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/store"
)

// Overhead is the number of octets that a record, an entry, an item or a log counts against a quota
// in addition to its names and value.
const Overhead = 64

// Cost returns what counts against a quota.
func Cost(names, value int) int64 { return int64(names) + int64(value) + Overhead }

// Bounds decide about the limits of an engine.
type Bounds store.Limits

// Open returns up to which use of most an owner may take more without knowing the shares of others.
// The endpoint itself, owner "", may use all.
func Open(owner string, most int64) int64 {
	if owner == "" {
		return most
	}
	return int64(fair.OpenTo(int(most)))
}

// Use is how many octets a store holds.
type Use struct {
	Owner int64 // of the owner
	Peer  int64 // of the peer of the owner and all its callers
	All   int64
}

// Fits reports whether an owner may use so much more without knowing the shares of others, and whether
// the callers of its peer have a quota each.
func (b Bounds) Fits(owner string, now Use, more int64) bool {
	return more <= 0 || (owner == "" || now.Peer+more <= b.QuotaPerOwner) && now.All+more <= Open(owner, b.Quota)
}

// Refuse returns the error of so much more, nil if the owner can have it. It calls shares if it needs
// the use of all owners.
func (b Bounds) Refuse(owner string, now Use, more int64, shares func() (*fair.Shares, error)) (refused, err error) {
	if b.Fits(owner, now, more) {
		return nil, nil
	}
	used, total := now.Peer, now.All
	if used+more > b.QuotaPerOwner && fair.Apart(owner, b.Apart) {
		used = now.Owner
	}
	switch {
	case owner == "":
		return fmt.Errorf("%w: the store holds %d octets, %d more exceed %d", store.ErrQuota, total, more, b.Quota), nil
	case used+more > b.QuotaPerOwner:
		return fmt.Errorf("%w: %q holds %d octets, %d more exceed %d", store.ErrQuota, owner, used, more, b.QuotaPerOwner), nil
	}
	all, err := shares()
	if err != nil {
		return nil, err
	}
	all.Bound(int(b.Quota))
	switch all.Ask(owner, int(more)) {
	case fair.Taken:
		return nil, nil
	case fair.Full:
		return fmt.Errorf("%w: the store holds %d octets of %d", store.ErrShare, total, b.Quota), nil
	}
	return fmt.Errorf("%w: %q holds %d octets, %d more exceed its share of %d", store.ErrQuota, owner, used, more, b.Quota), nil
}

// RoomOf returns the limit of a queue without its own one.
func (b Bounds) RoomOf() store.Room {
	return store.Room{Items: int64(b.Waiting), Octets: math.MaxInt64}
}

// Crowded returns the error of an item of so many octets in a queue, nil if its owner can add it. items
// and octets are the shares of the owners of all items.
func Crowded(queue, owner string, most, now store.Room, more int64, items, octets *fair.Shares) error {
	items.Bound(int(most.Items))
	octets.Bound(int(most.Octets))
	switch n, size := items.Ask(owner, 1), octets.Ask(owner, int(more)); {
	case n == fair.Taken && size == fair.Taken:
		return nil
	case owner == "", n == fair.Above, size == fair.Above:
		return fmt.Errorf("%w: queue %q has %d items of %d octets, %d items of %q", store.ErrQuota, queue, now.Items, now.Octets, items.Of(owner), owner)
	}
	return fmt.Errorf("%w: queue %q has %d items of %d octets", store.ErrShare, queue, now.Items, now.Octets)
}

// Exceeds returns the error of an item of so many octets that exceeds the limit of a queue, or nil.
func Exceeds(queue string, most, now store.Room, more int64) error {
	switch {
	case now.Items >= most.Items:
		return fmt.Errorf("%w: queue %q has %d items", store.ErrQuota, queue, now.Items)
	case now.Octets+more > most.Octets:
		return fmt.Errorf("%w: queue %q has %d octets, %d more exceed %d", store.ErrQuota, queue, now.Octets, more, most.Octets)
	}
	return nil
}

// Forgetful returns the error of one more item in a space of total ones, nil if its owner can add it.
// kept are the shares of the owners of all items; nil if they are not known.
func (b Bounds) Forgetful(space, owner string, total int64, kept *fair.Shares) error {
	if kept == nil {
		if total < int64(b.Remembered) {
			return nil
		}
		return fmt.Errorf("%w: space %q remembers %d items", store.ErrQuota, space, total)
	}
	kept.Bound(b.Remembered)
	switch answer := kept.Ask(owner, 1); {
	case answer == fair.Taken:
		return nil
	case answer == fair.Full && owner != "":
		return fmt.Errorf("%w: space %q remembers %d items", store.ErrShare, space, total)
	}
	return fmt.Errorf("%w: space %q remembers %d items, %d of %q", store.ErrQuota, space, total, kept.Of(owner), owner)
}
