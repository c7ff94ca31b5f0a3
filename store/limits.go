package store

import "cmp"

// Limits limit the content of a Store. Owners share the octets: one alone has at most seven eighths of
// Quota. The owner "" is the node itself: it may use all that is left of Quota. Zero means the default.
type Limits struct {
	// Quota limits the octets of all owners, QuotaPerOwner the octets of one owner; default 10
	// GiB and 1 GiB. A record counts the octets of its names and value, an entry those of id and
	// data, a log the octets of its names, an item the octets of its names, mark and data; each
	// counts 64 octets in addition.
	Quota, QuotaPerOwner int64

	// Apart reports whether the callers of a peer have QuotaPerOwner each. Otherwise a peer and its
	// callers, the owners "PEER for CALLER" (profiles.OnBehalf), have it together. Nil: no callers have.
	Apart func(peer string) bool

	// Waiting limits the unfinished items of one work queue, Remembered the items of a space,
	// including done ones; default 100,000 and 1,000,000.
	Waiting, Remembered int
}

// WithDefaults returns the limits with their defaults.
func (l Limits) WithDefaults() Limits {
	return Limits{
		Quota: cmp.Or(l.Quota, 10<<30), QuotaPerOwner: cmp.Or(l.QuotaPerOwner, 1<<30),
		Waiting: cmp.Or(l.Waiting, 100_000), Remembered: cmp.Or(l.Remembered, 1_000_000), Apart: l.Apart,
	}
}

// BlobLimits limit the content of Blobs. Owners share them: one alone has at most seven eighths. The owner ""
// may use all that is left. Zero means the default.
type BlobLimits struct {
	// Quota limits the octets of all owners, QuotaPerOwner the octets of one owner; default 10
	// GiB and 1 GiB. Notes count as well.
	Quota, QuotaPerOwner int64

	// Items limits the number of parts and blobs, ItemsPerOwner the number of one owner; default
	// 65,536 and 16,384.
	Items, ItemsPerOwner int

	// Apart is that of Limits, for QuotaPerOwner and ItemsPerOwner.
	Apart func(peer string) bool
}

// WithDefaults returns the limits with their defaults.
func (l BlobLimits) WithDefaults() BlobLimits {
	return BlobLimits{
		Quota: cmp.Or(l.Quota, 10<<30), QuotaPerOwner: cmp.Or(l.QuotaPerOwner, 1<<30),
		Items: cmp.Or(l.Items, 65_536), ItemsPerOwner: cmp.Or(l.ItemsPerOwner, 16_384), Apart: l.Apart,
	}
}
