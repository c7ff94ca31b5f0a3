package fair

import (
	"cmp"
	"slices"

	"github.com/slimwire/swp/profiles"
)

// Shares divides a capacity, such as the places of a pool or the octets of a budget, among
// the identities that use it.
//
// An eighth of the capacity stays free for newcomers. The rest is divided by demand:
// one identity alone may use all of the rest, and of several, each may use as much as the one
// with the most, unless it wants less (max–min fairness). A share is not reserved for an
// identity that does not use it, and nothing is taken from an identity: as it gives back what
// is above its share, the others come into theirs, for which they may use the eighth.
//
// The share of a peer is divided among its callers in the same way.
//
// An identity without use is always within its share. A capacity below 8 has no free eighth.
type Shares struct {
	capacity int
	used     int
	sole     bool // of NewOwn; used is that of the owner
	peers    map[string]*party

	spare []*party // used again, so that an identity that comes and goes does not allocate
}

// party is the use of a peer: by itself, and by its callers. It exists while it is above 0.
type party struct {
	used    int
	own     int
	callers map[string]int // by identity; those above 0
}

// Answer is the answer of Shares to a request.
type Answer uint8

// Answers of Shares. Full excuses the identity: it is within its share, but others use it.
// Above does not.
const (
	Taken Answer = iota
	Full
	Above
)

// Refuse returns the error of a refused request: fault, which is not charged to its sender
// after Full. It returns nil after Taken.
func (a Answer) Refuse(fault *profiles.Error) *profiles.Error {
	switch a {
	case Taken:
		return nil
	case Full:
		excused := *fault
		excused.Excused = true
		return &excused
	}
	return fault
}

// NewShares returns the Shares of a capacity.
func NewShares(capacity int) Shares { return Shares{capacity: capacity} }

// NewOwn returns the Shares of a capacity with an owner, which is the identity "". The owner may
// use all of it until another identity asks for the first time.
func NewOwn(capacity int) Shares { return Shares{capacity: capacity, sole: true} }

// Shared reports whether an identity besides the owner has asked; true without an owner.
func (s *Shares) Shared() bool { return !s.sole }

// Bound sets the capacity. Nothing is taken back that is in use above a lower capacity.
func (s *Shares) Bound(capacity int) { s.capacity = capacity }

// Capacity returns the capacity.
func (s *Shares) Capacity() int { return s.capacity }

// Used returns how much all identities use.
func (s *Shares) Used() int { return s.used }

// Of returns the use of an identity, without its callers.
func (s *Shares) Of(identity string) int {
	if s.sole && identity == "" {
		return s.used
	}
	p := s.peers[profiles.Link(identity)]
	if p == nil {
		return 0
	}
	return p.of(identity, profiles.For(identity) != "")
}

// Exceeds reports whether n more of an identity exceed a bound of one identity. A peer and all its
// callers have the bound together, so that a peer gains nothing by the callers that it asserts. Only
// the callers of a peer for which apart returns true have it each. apart may be nil.
func (s *Shares) Exceeds(identity string, n, bound int, apart func(peer string) bool) bool {
	if s.OfPeer(identity)+n <= bound {
		return false
	}
	return !Apart(identity, apart) || s.Of(identity)+n > bound
}

// OfPeer returns the use of the peer of an identity and all its callers.
func (s *Shares) OfPeer(identity string) int {
	if s.sole && identity == "" {
		return s.used
	}
	if p := s.peers[profiles.Link(identity)]; p != nil {
		return p.used
	}
	return 0
}

// Take takes n for an identity, or nothing.
func (s *Shares) Take(identity string, n int) Answer {
	answer := s.Ask(identity, n)
	if answer == Taken {
		s.add(identity, n)
	}
	return answer
}

// Ask returns the answer that Take would return.
func (s *Shares) Ask(identity string, n int) Answer {
	if s.sole && identity == "" {
		if s.used+n > s.capacity {
			return Above
		}
		return Taken
	}
	s.share()
	p := s.peers[profiles.Link(identity)]
	if p == nil {
		p = &nobody
	}
	usable := rest(s.capacity)
	// The share of the peer is at least what the others leave, so most requests end here.
	ofPeer := p.used+n <= rest(usable-s.used+p.used)
	ofCaller := ofPeer
	if !ofPeer {
		ofPeer = p.used == 0 || s.fits(p, p.used+n, usable)
		ofCaller = s.fitsCaller(p, identity, n, usable, ofPeer)
	}
	switch {
	case !ofCaller:
		return Above
	case !ofPeer, s.used+n > s.capacity:
		return Full
	}
	return Taken
}

var nobody party

// Force takes n for an identity although its share may not allow it.
func (s *Shares) Force(identity string, n int) { s.add(identity, n) }

func (s *Shares) add(identity string, n int) {
	if n == 0 {
		return
	}
	if s.sole && identity == "" {
		s.used += n
		return
	}
	s.share()
	peer := profiles.Link(identity)
	p := s.peers[peer]
	if p == nil {
		if s.peers == nil {
			s.peers = make(map[string]*party)
		}
		p = reuse(&s.spare)
		s.peers[peer] = p
	}
	s.used += n
	p.used += n
	if len(peer) == len(identity) {
		p.own += n
		return
	}
	if p.callers == nil {
		p.callers = make(map[string]int)
	}
	p.callers[identity] += n
}

// share makes the owner one of several identities.
func (s *Shares) share() {
	if s.sole {
		n := s.used
		s.sole, s.used = false, 0
		s.add("", n)
	}
}

// Give returns n that an identity has taken.
func (s *Shares) Give(identity string, n int) {
	if n == 0 {
		return
	}
	if s.sole {
		s.used -= n
		return
	}
	peer := profiles.Link(identity)
	p := s.peers[peer]
	s.used -= n
	p.used -= n
	if len(peer) == len(identity) {
		p.own -= n
	} else if p.callers[identity] -= n; p.callers[identity] == 0 {
		delete(p.callers, identity)
	}
	if p.used == 0 {
		delete(s.peers, peer)
		keep(&s.spare, p)
	}
}

func (p *party) of(identity string, asserted bool) int {
	if asserted {
		return p.callers[identity]
	}
	return p.own
}

// fits reports whether a peer may use want of a capacity: whether that fits if no other peer
// has more.
func (s *Shares) fits(p *party, want, capacity int) bool {
	total := want
	for _, other := range s.peers {
		if other != p {
			total += min(other.used, want)
		}
	}
	return total <= capacity
}

// fitsCaller is fits for an identity in the share of its peer. For a peer without callers it
// is peerFits.
func (s *Shares) fitsCaller(p *party, identity string, n, usable int, peerFits bool) bool {
	asserted := len(profiles.Link(identity)) != len(identity)
	own := p.of(identity, asserted)
	switch {
	case !asserted && own == p.used:
		return peerFits
	case own == 0:
		return true
	}
	share := s.level(p, usable)
	if asserted {
		share = rest(share)
	}
	want := own + n
	total := want
	if asserted {
		total += min(p.own, want)
	}
	for caller, used := range p.callers {
		if caller != identity {
			total += min(used, want)
		}
	}
	return total <= share
}

// Pass gives a place in use from one identity to another, or to the same one for something else. Nobody is
// asked for its share: an identity that ends one thing for another uses no more than before. For two
// identities, see Yields.
func (s *Shares) Pass(from, to string) {
	s.Give(from, 1)
	s.add(to, 1)
}

// Yields reports whether the shares of two identities become more even if one gives a place
// to the other. An identity gives even its last place to one of another peer that has none.
func (s *Shares) Yields(from, to string) bool {
	if p, q := s.peers[profiles.Link(from)], s.peers[profiles.Link(to)]; p != q {
		return p != nil && (q == nil || p.used > q.used+1)
	}
	return s.Of(from) > s.Of(to)+1
}

// rest is a capacity without its eighth.
func rest(capacity int) int { return capacity - capacity/8 }

// Open reports whether any identity without callers may take n of a capacity of which used is
// taken, so that its Shares need not be known.
func Open(capacity, used, n int) bool { return used+n <= OpenTo(capacity) }

// OpenTo returns the use of a capacity up to which Open is true.
func OpenTo(capacity int) int { return rest(capacity) }

// level returns the share of a peer that wants everything: as much as each other that does
// not want less.
func (s *Shares) level(p *party, usable int) int {
	for share := 0; ; {
		below, above := 0, 1
		for _, other := range s.peers {
			switch {
			case other == p:
			case other.used <= share:
				below += other.used
			default:
				above++
			}
		}
		next := (usable - below) / above
		if next <= share {
			return share
		}
		share = next
	}
}

// Use is how much an identity uses.
type Use struct {
	Identity string `json:"identity"`
	Used     int    `json:"used"`
}

// Pool is the present use of Shares, for people.
type Pool struct {
	Name     string `json:"name"`
	Used     int    `json:"used"`
	Capacity int    `json:"capacity"`
	Most     []Use  `json:"most"` // the identities that use most
}

// most is how many identities a Pool has.
const most = 5

// Pool returns the use of the Shares under a name, with five identities at most.
func (s *Shares) Pool(name string) Pool {
	return Pool{Name: name, Used: s.used, Capacity: s.capacity, Most: s.Top(most)}
}

// Top returns the identities that use most, at most n, in falling order.
func (s *Shares) Top(n int) []Use {
	var list []Use
	if s.sole && s.used > 0 {
		list = append(list, Use{"", s.used})
	}
	for peer, p := range s.peers {
		if p.own > 0 {
			list = append(list, Use{peer, p.own})
		}
		for caller, used := range p.callers {
			list = append(list, Use{caller, used})
		}
	}
	slices.SortFunc(list, func(a, b Use) int {
		return cmp.Or(cmp.Compare(b.Used, a.Used), cmp.Compare(a.Identity, b.Identity))
	})
	return list[:min(n, len(list))]
}

// Join returns pools of one kind as one.
func Join(name string, pools ...Pool) Pool {
	all := Pool{Name: name}
	var used Shares
	for _, p := range pools {
		all.Used += p.Used
		all.Capacity += p.Capacity
		for _, use := range p.Most {
			used.Force(use.Identity, use.Used)
		}
	}
	all.Most = used.Top(most)
	return all
}
