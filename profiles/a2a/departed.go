package a2a

// maxDeparted is how many tasks of ours are remembered after they are over, so
// that what their executors still send is told from what they must not send.
// What is older is as unknown as if it had never been.
const maxDeparted = 8192

// departed is a table of tasks of ours that are over, which forgets the oldest.
// The mu of the Service guards it.
type departed struct {
	list map[address]*left
	ring []address
	next int
}

// left is what counts of such a task.
type left struct {
	sum *digest // of the executor's Result; nil if it has sent none
}

func newDeparted() departed { return departed{list: make(map[address]*left)} }

func (d *departed) get(at address) *left { return d.list[at] }

func (d *departed) add(at address, l *left) {
	if d.list[at] == nil {
		if len(d.ring) < maxDeparted {
			d.ring = append(d.ring, at)
		} else {
			delete(d.list, d.ring[d.next])
			d.ring[d.next] = at
			d.next = (d.next + 1) % maxDeparted
		}
	}
	d.list[at] = l
}

// afterwards takes an Event, or with sum a Result, of an executor whose task is
// over. After its own Result there must be no Event and no other Result; what
// crosses ours is dropped.
func (s *Service) afterwards(l *left, sum *digest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case sum == nil && l.sum != nil:
		return errAfterResult
	case sum == nil:
		return nil
	case l.sum == nil:
		l.sum = sum
		return nil
	case *l.sum != *sum:
		return errSecond
	}
	return nil
}
