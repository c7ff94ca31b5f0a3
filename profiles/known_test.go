package profiles_test

import (
	"testing"

	"github.com/slimwire/swp/profiles"
)

func TestWhatAPeerServesIsLearntAndNotForgotten(t *testing.T) {
	var k profiles.Known
	if k.Serves(0) || k.Serves(63) || k.Serves(1024) || k.Heeds(2, 20) {
		t.Error("something is known of a peer of which nothing was said")
	}
	k.Used(63)
	k.Used(1024)
	k.Learn(profiles.Offer{Profiles: []uint64{2, 64}, Extensions: map[uint64][]uint64{2: {16}, 0: {52}}})
	k.Learn(profiles.Offer{Extensions: map[uint64][]uint64{2: {20}}})
	for _, id := range []uint64{2, 63, 64, 1024} {
		if !k.Serves(id) {
			t.Errorf("profile %d is forgotten", id)
		}
	}
	for _, ext := range [][2]uint64{{2, 16}, {2, 20}, {0, 52}} {
		if !k.Heeds(ext[0], ext[1]) {
			t.Errorf("extension %d of profile %d is forgotten", ext[1], ext[0])
		}
	}
	if k.Serves(1) || k.Serves(65) || k.Heeds(1, 16) || k.Heeds(2, 52) {
		t.Error("more is known than was said")
	}
}

func TestAPeerCannotMakeMuchKnown(t *testing.T) {
	const most = 256
	var k profiles.Known
	var offer profiles.Offer
	offer.Extensions = make(map[uint64][]uint64)
	for i := range uint64(2 * most) {
		offer.Profiles = append(offer.Profiles, 1000+i)
		offer.Extensions[1] = append(offer.Extensions[1], i)
	}
	k.Learn(offer)
	if !k.Serves(1000+most-1) || k.Serves(1000+most) {
		t.Errorf("want %d profiles to be known", most)
	}
	if !k.Heeds(1, most-1) || k.Heeds(1, most) {
		t.Errorf("want %d extensions of a profile to be known", most)
	}
	for i := range uint64(2 * most) {
		k.Learn(profiles.Offer{Extensions: map[uint64][]uint64{2000 + i: {16}}})
	}
	if !k.Heeds(2000+most-2, 16) || k.Heeds(2000+most-1, 16) { // profile 1 is one of them
		t.Errorf("want extensions of %d profiles to be known", most)
	}
}

// plain is a Session that does not say what its peer serves.
type plain struct{ profiles.Session }

// remembering is one that does.
type remembering struct {
	profiles.Session
	known profiles.Known
}

func (r *remembering) Known() *profiles.Known { return &r.known }

func TestASessionThatRemembersNothingIsTakenToServeEverything(t *testing.T) {
	if !profiles.Serves(plain{}, 10) || !profiles.Heeds(plain{}, 2, 20) {
		t.Error("it is taken to serve less")
	}
	profiles.Learn(plain{}, profiles.Offer{Profiles: []uint64{1}}) // to no effect
	r := new(remembering)
	toward := profiles.Toward(r, "acme")
	if profiles.Serves(toward, 10) {
		t.Error("a session with a target is taken to serve more than the one below it")
	}
	profiles.Learn(toward, profiles.Offer{Profiles: []uint64{10}, Extensions: map[uint64][]uint64{2: {20}}})
	if !profiles.Serves(r, 10) || !profiles.Heeds(toward, 2, 20) {
		t.Error("what is learnt of a session with a target is not known of the one below it")
	}
}
