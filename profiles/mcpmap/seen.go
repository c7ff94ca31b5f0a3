package mcpmap

import (
	"maps"
	"sync"
	"time"
)

// Tasks are the tasks under way of one session, as the messages to its client tell of them.
// The zero value is ready. It is safe for concurrent use.
type Tasks struct {
	mu sync.Mutex
	of map[string]*task // by id
}

// maxSeen bounds the tasks of one session. Further ones are not counted.
const maxSeen = 1024

// See notes the task that a message of the server names.
func (t *Tasks) See(octets []byte) {
	if !namesTask(octets) {
		return
	}
	var m Message
	if m.Scan(octets) != nil || m.Task() == nil {
		return
	}
	id, now := string(m.Task()), time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.of[id]
	switch {
	case one == nil && (!m.makesTask() || len(t.of) >= maxSeen && !t.tidy(now)):
		return
	case one == nil:
		if t.of == nil {
			t.of = make(map[string]*task)
		}
		one = &task{began: now, ttl: -1}
		t.of[id] = one
	}
	one.used = now
	if one.learn(&m); one.ended {
		delete(t.of, id)
	}
}

// Working reports whether a task is under way.
func (t *Tasks) Working() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tidy(time.Now())
	return len(t.of) > 0
}

// tidy forgets the tasks that are not under way, and reports whether there is room for more.
// The caller holds mu.
func (t *Tasks) tidy(now time.Time) bool {
	maps.DeleteFunc(t.of, func(_ string, one *task) bool { return one.rests(now) })
	return len(t.of) < maxSeen
}
