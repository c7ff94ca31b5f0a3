package filestore

import (
	"context"
	"time"

	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/blocks"
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

	stored [2]uint64     // versions of the records of the part and of the blob; 0: no record
	unsure bool          // a record may differ from the last acknowledged one
	digest blocks.Digest // of the part
}

// empty reports whether an item can be forgotten.
func (it *item) empty() bool {
	return it.part == nil && it.blob == nil && it.stored == [2]uint64{}
}

// owner returns the owner of the part or the blob of a name; "" without any.
func (s *Store) owner(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch it := s.items[name]; {
	case it == nil:
	case it.part != nil:
		return it.part.owner
	case it.blob != nil:
		return it.blob.owner
	}
	return ""
}

// forget forgets the item of a name if it is empty.
func (s *Store) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if it := s.items[name]; it != nil && it.empty() {
		delete(s.items, name)
	}
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

// SetBounds changes the limits. Data above a new limit stays.
func (s *Store) SetBounds(l store.BlobLimits) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used.Bound(l.WithDefaults())
}

// take adds octets and items to the usage of an owner, or returns an error. It removes
// expired blobs first if room is needed.
func (s *Store) take(name string, octets uint64, items int) error {
	if err := s.makeRoom(name, octets, items); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.used.Room(name, name, octets, items)
	if err == nil {
		s.used.Charge(name, int64(octets), items)
	}
	return err
}

// makeRoom removes expired blobs if room is needed, and returns an error if there is still
// too little.
func (s *Store) makeRoom(name string, octets uint64, items int) error {
	s.mu.Lock()
	err := s.used.Room(name, name, octets, items)
	s.mu.Unlock()
	if err != nil {
		s.sweep()
		s.mu.Lock()
		err = s.used.Room(name, name, octets, items)
		s.mu.Unlock()
	}
	return err
}

// giveBack undoes take.
func (s *Store) giveBack(name string, octets uint64, items int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used.Charge(name, -int64(octets), -items)
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
func (s *Store) Part(_ context.Context, name string) (p store.PartInfo, found bool, err error) {
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if it := s.items[name]; it != nil {
		if r := it.live(now); r != nil {
			return store.PartInfo{Held: r.held(), Mark: r.mark, Tag: r.tag}, true, nil
		}
	}
	return p, false, nil
}

// Blob implements store.Blobs.
func (s *Store) Blob(_ context.Context, name string) (b store.BlobInfo, found bool, err error) {
	if r := s.blob(name); r != nil {
		return r.info(name), true, nil
	}
	return b, false, nil
}

func (r *record) info(name string) store.BlobInfo {
	return store.BlobInfo{Name: name, Version: r.version, Size: r.held(), Mark: r.mark, Sealed: time.Unix(0, r.written), Tag: r.tag}
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
	writes := s.lines.Pool("artifact writes")
	s.mu.Lock()
	defer s.mu.Unlock()
	return []fair.Pool{s.used.Octets.Pool("artifact octets"), s.used.Items.Pool("artifacts"), writes}
}
