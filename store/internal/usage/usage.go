// Package usage counts the octets and the number of blobs of each owner against quotas.
package usage

import (
	"fmt"

	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/store"
)

// Usage is what owners use. Owners share the bounds of all; the owner "" may use all that is
// left. It is not safe for concurrent use.
type Usage struct {
	bounds store.BlobLimits
	Octets fair.Shares
	Items  fair.Shares // parts and blobs
}

// Bound changes the bounds. Data above a new limit stays.
func (u *Usage) Bound(b store.BlobLimits) {
	u.bounds = b
	u.Octets.Bound(int(b.Quota))
	u.Items.Bound(b.Items)
}

// Charge adds octets and items to the usage of an owner; both may be negative.
func (u *Usage) Charge(owner string, octets int64, items int) {
	add := func(to *fair.Shares, n int) {
		if n < 0 {
			to.Give(owner, -n)
		} else {
			to.Force(owner, n)
		}
	}
	add(&u.Octets, int(octets))
	add(&u.Items, items)
}

// Room returns an error if the bounds do not allow an owner so much more. short is the name by which the
// owner is charged.
func (u *Usage) Room(owner, short string, octets uint64, items int) error {
	limit, used, count := &u.bounds, u.Octets.OfPeer(short), u.Items.OfPeer(short)
	if (octets > uint64(max(0, limit.QuotaPerOwner-int64(used))) || count+items > limit.ItemsPerOwner) && fair.Apart(owner, limit.Apart) {
		used, count = u.Octets.Of(short), u.Items.Of(short)
	}
	switch {
	case owner == "" && octets > uint64(max(0, limit.Quota-int64(u.Octets.Used()))):
		return fmt.Errorf("%w: %d octets are kept, %d more exceed %d", store.ErrQuota, u.Octets.Used(), octets, limit.Quota)
	case owner == "" && u.Items.Used()+items > limit.Items:
		return fmt.Errorf("%w: there are %d parts and blobs, limit %d", store.ErrQuota, u.Items.Used(), limit.Items)
	case owner == "":
		return nil
	case octets > uint64(max(0, limit.QuotaPerOwner-int64(used))):
		return fmt.Errorf("%w: %q has %d octets, %d more exceed %d", store.ErrQuota, owner, used, octets, limit.QuotaPerOwner)
	case count+items > limit.ItemsPerOwner:
		return fmt.Errorf("%w: %q has %d parts and blobs, limit %d", store.ErrQuota, owner, count, limit.ItemsPerOwner)
	}
	switch max(u.Octets.Ask(short, int(octets)), u.Items.Ask(short, items)) {
	case fair.Taken:
		return nil
	case fair.Full:
		return fmt.Errorf("%w: %d octets are kept of %d, and %d parts and blobs of %d", store.ErrShare, u.Octets.Used(), limit.Quota, u.Items.Used(), limit.Items)
	}
	return fmt.Errorf("%w: %q has %d octets and %d parts and blobs, %d octets more exceed its share of %d octets and %d parts and blobs",
		store.ErrQuota, owner, used, count, octets, limit.Quota, limit.Items)
}
