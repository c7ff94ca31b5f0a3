package profiles

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// Offer is what a peer serves.
type Offer struct {
	Profiles []uint64 // by profile_id

	// Extensions are the types that it acts on, by profile_id. Profile 0 stands for those
	// of any profile.
	Extensions map[uint64][]uint64

	Limits Limits
}

// Limits bound the messages that an endpoint accepts, in octets. Zero means that a limit is
// not known.
type Limits struct {
	Frame      int `json:"frame_bytes"`
	Payload    int `json:"payload_bytes"`
	Extensions int `json:"extension_bytes"`
}

// Known is what the peer of a session is known to serve: the configuration says so, the
// peer has said so (swp.info), or it has sent a message of the profile. Nothing of it is
// forgotten before the session ends. The zero value knows nothing; it is safe for
// concurrent use, reading takes no lock, and it is not to be copied.
type Known struct {
	mu  sync.Mutex // held by Learn
	now atomic.Pointer[knowledge]
}

// knowledge is not changed once it is there.
type knowledge struct {
	low        uint64 // profiles with an id below 64, one bit each
	high       []uint64
	extensions map[uint64][]uint64
	limits     Limits
}

// maxKnown bounds how many profiles are known of one peer, and how many extensions of one
// profile: a peer says itself what it serves.
const maxKnown = 256

// Serves reports whether the peer is known to serve a profile.
func (k *Known) Serves(profile uint64) bool {
	now := k.now.Load()
	switch {
	case now == nil:
		return false
	case profile < 64:
		return now.low&(1<<profile) != 0
	}
	return slices.Contains(now.high, profile)
}

// Profiles returns the ids of the profiles that the peer is known to serve, sorted.
func (k *Known) Profiles() []uint64 {
	now := k.now.Load()
	if now == nil {
		return nil
	}
	var list []uint64
	for id := range uint64(64) {
		if now.low&(1<<id) != 0 {
			list = append(list, id)
		}
	}
	return append(list, slices.Sorted(slices.Values(now.high))...)
}

// Heeds reports whether the peer is known to act on an extension of a profile.
func (k *Known) Heeds(profile, extension uint64) bool {
	now := k.now.Load()
	return now != nil && slices.Contains(now.extensions[profile], extension)
}

// Limits returns the limits of the peer, as far as it has said them.
func (k *Known) Limits() Limits {
	if now := k.now.Load(); now != nil {
		return now.limits
	}
	return Limits{}
}

// Used notes that the peer has sent a message of a profile.
func (k *Known) Used(profile uint64) {
	if !k.Serves(profile) {
		k.Learn(Offer{Profiles: []uint64{profile}})
	}
}

// Learn adds to the known offer of the peer. Its limits, if any, replace the known ones.
func (k *Known) Learn(o Offer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	next := knowledge{extensions: make(map[uint64][]uint64)}
	if now := k.now.Load(); now != nil {
		next.low, next.high, next.extensions, next.limits = now.low, slices.Clone(now.high), maps.Clone(now.extensions), now.limits
	}
	if o.Limits != (Limits{}) {
		next.limits = o.Limits
	}
	for _, id := range o.Profiles {
		if id < 64 {
			next.low |= 1 << id
		} else {
			next.high = with(next.high, id)
		}
	}
	for id, types := range o.Extensions {
		if len(next.extensions) >= maxKnown && next.extensions[id] == nil {
			continue
		}
		next.extensions[id] = slices.Clone(next.extensions[id]) // the old one is being read
		for _, typ := range types {
			next.extensions[id] = with(next.extensions[id], typ)
		}
	}
	k.now.Store(&next)
}

// with returns list with n in it, up to the bound.
func with(list []uint64, n uint64) []uint64 {
	if len(list) >= maxKnown || slices.Contains(list, n) {
		return list
	}
	return append(list, n)
}

// Knower is a Session, or a Lane of one, that remembers what the peer is known to serve.
type Knower interface {
	// Known is the same as long as the session lives.
	Known() *Known
}

// Serves reports whether the peer of a session is known to serve a profile. A Session that
// is no Knower is taken to serve everything.
func Serves(s Session, profile uint64) bool {
	k := knownOf(s)
	return k == nil || k.Serves(profile)
}

// Heeds reports whether the peer of a session is known to act on an extension of a profile,
// 0 for one of any profile. A Session that is no Knower is taken to act on everything.
func Heeds(s Session, profile, extension uint64) bool {
	k := knownOf(s)
	return k == nil || k.Heeds(profile, extension)
}

// HeedsOn is Heeds for the peer at the other end of a lane.
func HeedsOn(lane Lane, profile, extension uint64) bool {
	k, ok := Near(lane).(Knower)
	return !ok || k.Known().Heeds(profile, extension)
}

// Learn notes what the peer of a session serves. It does nothing for a Session that is no
// Knower.
func Learn(s Session, o Offer) {
	if k := knownOf(s); k != nil {
		k.Learn(o)
	}
}

func knownOf(s Session) *Known {
	if m, ok := s.(*marked); ok {
		return knownOf(m.Session)
	}
	if k, ok := s.(Knower); ok {
		return k.Known()
	}
	return nil
}

// Unserved returns the *Error for a message that is not sent, because the peer is not known
// to serve its profile: a message of an unknown profile could end the connection. name is
// the name of the profile.
func Unserved(name string) *Error {
	return &Error{
		Code: Internal, Detail: detailUnserved, Domain: true, Text: "the next endpoint is not known to serve profile " + name,
	}
}

// IsUnserved reports whether err is one of Unserved.
func IsUnserved(err error) bool {
	fault, ok := errors.AsType[*Error](err)
	return ok && fault.Detail == detailUnserved
}

const detailUnserved = "unserved"

type probeKey struct{}

// Probing returns ctx for messages that are sent to find out whether the peer serves their
// profile: they go out although it is not known to.
func Probing(ctx context.Context) context.Context { return context.WithValue(ctx, probeKey{}, true) }

// IsProbe reports whether ctx is one of Probing.
func IsProbe(ctx context.Context) bool { return ctx.Value(probeKey{}) != nil }

// Offer returns what the profiles of a registry offer to a peer, as swp.info says it.
func (r *Registry) Offer() Offer {
	o := Offer{Extensions: make(map[uint64][]uint64)}
	for _, p := range r.list {
		o.Profiles = append(o.Profiles, p.ID)
		if len(p.Extensions) > 0 {
			o.Extensions[p.ID] = p.Extensions
		}
	}
	return o
}
