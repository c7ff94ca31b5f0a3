package trust

import (
	"container/heap"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"time"
)

// MemoryOptions bound a Memory. The zero value is usable.
type MemoryOptions struct {
	// Max is how many nonces are held, default 10,000. Each takes about 200 octets.
	Max int

	// PerAgent is how many of them one agent may use, so that it cannot exclude the others;
	// default a quarter of Max.
	PerAgent int

	Now func() time.Time // default time.Now
}

// Memory implements Nonces in memory. It forgets a nonce only after its expiry; a full
// Memory accepts no more.
type Memory struct {
	o MemoryOptions

	mu     sync.Mutex
	seen   map[digest]struct{}
	agents map[digest]int // nonces of each
	ends   byEnd
}

// digest replaces texts of any length.
type digest [sha256.Size]byte

// nonce is a stored nonce.
type nonce struct {
	end        time.Time
	key, agent digest
}

// NewMemory returns a Memory that is empty.
func NewMemory(o MemoryOptions) *Memory {
	if o.Max <= 0 {
		o.Max = 10_000
	}
	if o.PerAgent <= 0 {
		o.PerAgent = max(1, o.Max/4)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Memory{o: o, seen: make(map[digest]struct{}), agents: make(map[digest]int)}
}

// Remember implements Nonces. A repeated nonce keeps its first expiry. An expired nonce is
// not fresh.
func (m *Memory) Remember(_ context.Context, agent, text string, exp time.Time) (fresh bool, err error) {
	n := nonce{exp, keyOf(agent, text), sha256.Sum256([]byte(agent))}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.o.Now()
	for len(m.ends) > 0 && !m.ends[0].end.After(now) {
		m.forget()
	}
	if _, ok := m.seen[n.key]; ok || !exp.After(now) {
		return false, nil
	}
	if len(m.ends) >= m.o.Max || m.agents[n.agent] >= m.o.PerAgent {
		return false, ErrFull
	}
	m.seen[n.key] = struct{}{}
	m.agents[n.agent]++
	heap.Push(&m.ends, n)
	return true, nil
}

// forget removes the nonce that expires first.
func (m *Memory) forget() {
	n, ok := heap.Pop(&m.ends).(nonce)
	if !ok {
		return
	}
	delete(m.seen, n.key)
	if m.agents[n.agent]--; m.agents[n.agent] == 0 {
		delete(m.agents, n.agent)
	}
}

// keyOf returns the key for an agent and a nonce, different for each pair.
func keyOf(agent, nonce string) digest {
	octets := binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(agent)+len(nonce)), uint64(len(agent)))
	return sha256.Sum256(append(append(octets, agent...), nonce...))
}

// byEnd is a heap, the nonce that ends first on top.
type byEnd []nonce

func (h byEnd) Len() int           { return len(h) }
func (h byEnd) Less(i, j int) bool { return h[i].end.Before(h[j].end) }
func (h byEnd) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push is for package heap.
func (h *byEnd) Push(x any) {
	if n, ok := x.(nonce); ok {
		*h = append(*h, n)
	}
}

// Pop is for package heap.
func (h *byEnd) Pop() any {
	last := len(*h) - 1
	n := (*h)[last]
	*h = (*h)[:last]
	return n
}
