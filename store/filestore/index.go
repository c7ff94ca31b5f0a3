package filestore

import (
	"fmt"

	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/clock"
)

// item is a name with a part, a blob or pending operations.
//
// The mutex of the store guards the first group of fields; the records that they point to
// are immutable. The second group belongs to the goroutine of the item.
type item struct {
	name    string
	part    *record
	blob    *record
	damaged bool // the blob
	waiting []*operation

	working  bool // its goroutine runs
	telling  bool // and only calls done functions
	sweeping bool // the sweeper works on it instead

	stored [2]uint64 // versions of the records of the part and of the blob; 0: no record
	unsure bool      // a record may differ from the last acknowledged one
	digest digest    // of the part
}

// empty reports whether an item can be forgotten.
func (it *item) empty() bool {
	return it.part == nil && it.blob == nil && len(it.waiting) == 0 && it.stored == [2]uint64{}
}

// owner returns the owner of the last pending operation of an item, or else of its part or
// blob; "" without any. The caller holds mu.
func (it *item) owner() string {
	switch n := len(it.waiting); {
	case n > 0:
		return it.waiting[n-1].owner
	case it.part != nil:
		return it.part.owner
	case it.blob != nil:
		return it.blob.owner
	}
	return ""
}

// item returns the item of a name and creates it if it is missing. The caller holds mu.
func (s *Store) item(name string) *item {
	it := s.items[name]
	if it == nil {
		it = &item{name: name}
		s.items[name] = it
	}
	return it
}

// charge adds octets and items to the usage of an owner; both may be negative. The caller
// holds mu.
func (s *Store) charge(name string, octets int64, items int) {
	add := func(to *fair.Shares, n int) {
		if n < 0 {
			to.Give(name, -n)
		} else {
			to.Force(name, n)
		}
	}
	add(&s.used, int(octets))
	add(&s.count, items)
}

// SetBounds changes Quota, QuotaPerOwner, Items and ItemsPerOwner; zero means the default.
// Data above a new limit stays.
func (s *Store) SetBounds(o Options) {
	o = o.withDefaults()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.options.Quota, s.options.QuotaPerOwner = o.Quota, o.QuotaPerOwner
	s.options.Items, s.options.ItemsPerOwner = o.Items, o.ItemsPerOwner
	s.used.Bound(int(o.Quota))
	s.count.Bound(o.Items)
}

// room returns an error if the quota of an owner does not allow so much more. The caller
// holds mu.
func (s *Store) room(name string, octets uint64, items int) error {
	limit, used, count := &s.options, s.used.Of(name), s.count.Of(name)
	switch {
	case name == "" && octets > uint64(max(0, limit.Quota-int64(s.used.Used()))):
		return fmt.Errorf("%w: %d octets are kept, %d more exceed %d", store.ErrQuota, s.used.Used(), octets, limit.Quota)
	case name == "" && s.count.Used()+items > limit.Items:
		return fmt.Errorf("%w: there are %d parts and blobs, limit %d", store.ErrQuota, s.count.Used(), limit.Items)
	case name == "":
		return nil
	case octets > uint64(max(0, limit.QuotaPerOwner-int64(used))):
		return fmt.Errorf("%w: %q has %d octets, %d more exceed %d", store.ErrQuota, name, used, octets, limit.QuotaPerOwner)
	case count+items > limit.ItemsPerOwner:
		return fmt.Errorf("%w: %q has %d parts and blobs, limit %d", store.ErrQuota, name, count, limit.ItemsPerOwner)
	}
	switch max(s.used.Ask(name, int(octets)), s.count.Ask(name, items)) {
	case fair.Taken:
		return nil
	case fair.Full:
		return fmt.Errorf("%w: %d octets are kept of %d, and %d parts and blobs of %d", store.ErrShare, s.used.Used(), limit.Quota, s.count.Used(), limit.Items)
	}
	return fmt.Errorf("%w: %q has %d octets and %d parts and blobs, %d octets more exceed its share of %d octets and %d parts and blobs",
		store.ErrQuota, name, used, count, octets, limit.Quota, limit.Items)
}

// take adds octets and items to the usage of an owner, or returns an error. It removes
// expired blobs first if room is needed.
func (s *Store) take(name string, octets uint64, items int) error {
	if err := s.makeRoom(name, octets, items); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.room(name, octets, items)
	if err == nil {
		s.charge(name, int64(octets), items)
	}
	return err
}

// makeRoom removes expired blobs if room is needed, and returns an error if there is still
// too little.
func (s *Store) makeRoom(name string, octets uint64, items int) error {
	s.mu.Lock()
	err := s.room(name, octets, items)
	s.mu.Unlock()
	if err != nil {
		s.sweep()
		s.mu.Lock()
		err = s.room(name, octets, items)
		s.mu.Unlock()
	}
	return err
}

// giveBack undoes take.
func (s *Store) giveBack(name string, octets uint64, items int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.charge(name, -int64(octets), -items)
}

// live returns the part of an item, or nil if it is missing or has expired. The caller
// holds mu, or is the goroutine of the item.
func (it *item) live(now int64) *record {
	if it.part == nil || clock.Expired(it.part.expires, now) {
		return nil
	}
	return it.part
}

// intact returns the blob of an item, or nil if it is missing, has expired or is
// damaged. The caller holds mu, or is the goroutine of the item.
func (it *item) intact(now int64) *record {
	if it.blob == nil || it.damaged || clock.Expired(it.blob.expires, now) {
		return nil
	}
	return it.blob
}

// Part implements store.Blobs.
func (s *Store) Part(name string) (held, mark uint64, tag []byte, ok bool) {
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if it := s.items[name]; it != nil {
		if r := it.live(now); r != nil {
			return r.held(), r.mark, r.tag, true
		}
	}
	return 0, 0, nil, false
}

// Blob implements store.Blobs.
func (s *Store) Blob(name string) (version, size, mark uint64, tag []byte, ok bool) {
	if r := s.blob(name); r != nil {
		return r.version, r.held(), r.mark, r.tag, true
	}
	return 0, 0, 0, nil, false
}

func (s *Store) blob(name string) *record {
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if it := s.items[name]; it != nil {
		return it.intact(now)
	}
	return nil
}

// Pools returns who uses the octets and the number of artifacts, and whose writes wait.
func (s *Store) Pools() []fair.Pool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []fair.Pool{s.used.Pool("artifact octets"), s.count.Pool("artifacts"), s.waiting.Pool("artifact writes")}
}
