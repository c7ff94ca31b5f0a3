package partners

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/internal/partner"
	"github.com/slimwire/swp/store"
)

// spacePartners is the space of the records about partners, by identity.
const spacePartners = "partners"

// rememberedTime bounds reading a record.
const rememberedTime = 5 * time.Second

// memory keeps what partners are remembered to serve over restarts. A record that cannot be read or written
// costs a partner nothing but a question, so a fault is a warning.
type memory struct {
	records store.Records
	log     *zap.Logger

	mu       sync.Mutex
	kept     map[string]partner.Remembered // of this process: a write may be under way
	versions map[string]uint64             // of the records, by identity; that of a write under way is not known yet
	next     map[string][]byte             // to be written after the write under way; nil values: nothing more
}

// load returns what a partner is remembered to serve.
func (m *memory) load(identity string) (kept partner.Remembered) {
	m.mu.Lock()
	kept, known := m.kept[identity]
	m.mu.Unlock()
	if known || m.records == nil {
		return kept
	}
	ctx, cancel := context.WithTimeout(context.Background(), rememberedTime)
	defer cancel()
	version, octets, err := m.records.Get(ctx, spacePartners, identity)
	if err == nil && version != 0 {
		err = json.Unmarshal(octets, &kept)
	}
	if err != nil {
		m.log.Warn("it is not known any more what a partner serves", zap.String("identity", identity), zap.Error(err))
		return partner.Remembered{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.versions[identity] = version
	return kept
}

// save writes what a partner serves. Writes of one partner follow each other.
func (m *memory) save(identity string, kept partner.Remembered) {
	octets, err := json.Marshal(kept)
	if err != nil {
		return // a Remembered has numbers only
	}
	m.mu.Lock()
	m.kept[identity] = kept
	if m.records == nil {
		m.mu.Unlock()
		return
	}
	_, busy := m.next[identity]
	m.next[identity] = octets
	version := m.versions[identity]
	m.mu.Unlock()
	if !busy {
		m.write(identity, version)
	}
}

// write writes the record that is to be written next.
func (m *memory) write(identity string, was uint64) {
	m.mu.Lock()
	octets := m.next[identity]
	m.next[identity] = nil
	m.mu.Unlock()
	m.records.Put(spacePartners, identity, was, "", octets, time.Time{}, func(r store.PutResult) {
		if r.Err != nil {
			m.log.Warn("what a partner serves is not stored", zap.String("identity", identity), zap.Error(r.Err))
		}
		m.mu.Lock()
		if r.Err == nil {
			m.versions[identity] = r.Version
		}
		version, more := m.versions[identity], m.next[identity] != nil
		if !more {
			delete(m.next, identity)
		}
		m.mu.Unlock()
		if more {
			m.write(identity, version)
		}
	})
}

// forget removes the record of a partner that was removed.
func (m *memory) forget(identity string) {
	m.mu.Lock()
	delete(m.versions, identity)
	delete(m.kept, identity)
	m.mu.Unlock()
	if m.records == nil {
		return
	}
	m.records.Delete(spacePartners, identity, 0, func(bool, error) {}) // a record too many is read by nobody
}
