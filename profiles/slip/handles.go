package slip

import (
	"bytes"
	"container/list"
	"sync"
	"unicode/utf8"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/slip/nslip"
)

// Handle is a GOAL, TASK or RESULT id, which is valid within one conversation of two
// agents.
type Handle struct {
	A, B string // the agents, sorted
	Conv uint64
	Code nslip.Code // GoalID, TaskID or ResultID; a PARENT_TASK_ID is a TaskID
	ID   uint64
}

// Reference is the meaning of a handle.
type Reference struct {
	Kind string // "task", "artifact" or "state"
	ID   string // task_id, artifact_id or state_id, as text; 1 to MaxReference octets
}

// MaxReference limits Reference.ID, in octets.
const MaxReference = 256

// maxMeanings limits the meanings in a message: at most one for each slot.
const maxMeanings = 4

// Meaning is a Reference for a slot of a message.
type Meaning struct {
	Code nslip.Code
	Reference
}

// ParseMeaning parses a Meaning in the form of String.
func ParseMeaning(text string) (m Meaning, ok bool) { return parseMeaning([]byte(text)) }

// String returns the value of an extension 17, such as "k=task:0011"; empty for a slot
// without a handle.
func (m Meaning) String() string {
	for _, slot := range handleSlots {
		if slot.code == m.Code {
			return string(slot.letter) + "=" + m.Kind + ":" + m.ID
		}
	}
	return ""
}

// HandlesOptions configure a Handles.
type HandlesOptions struct {
	Total       int // most handles, default 16,384
	PerIdentity int // most handles bound by one identity, default 1,024
}

// Handles stores the meanings of handles. Above the total limit it forgets the oldest
// handle, above the limit of an identity its oldest one. A peer and its callers have the limit of one
// identity.
type Handles struct {
	opts HandlesOptions

	mu    sync.Mutex
	bound map[Handle]*binding
	all   list.List             // *binding, oldest first
	of    map[string]*list.List // *binding by peer, oldest first
}

type binding struct {
	handle   Handle
	to       Reference
	identity string
	inAll    *list.Element
	inOf     *list.Element
}

// NewHandles returns an empty Handles.
func NewHandles(o HandlesOptions) *Handles {
	if o.Total <= 0 {
		o.Total = 16 << 10
	}
	if o.PerIdentity <= 0 {
		o.PerIdentity = 1 << 10
	}
	return &Handles{opts: o, bound: make(map[Handle]*binding), of: make(map[string]*list.List)}
}

// Bind stores the meaning of a handle, as stated by an identity. It returns false if
// another identity has bound the handle to something else. The identity that has bound it
// first may change it.
func (t *Handles) Bind(identity string, h Handle, r Reference) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if b := t.bound[h]; b != nil {
		if b.identity == identity {
			b.to = r
		}
		return b.to == r
	}
	peer := profiles.Link(identity)
	mine := t.of[peer]
	if mine != nil && mine.Len() >= t.opts.PerIdentity {
		t.forget(mine.Front().Value.(*binding)) //nolint:errcheck // the list holds nothing else
	} else if t.all.Len() >= t.opts.Total {
		t.forget(t.all.Front().Value.(*binding)) //nolint:errcheck // the list holds nothing else
	}
	if mine = t.of[peer]; mine == nil {
		mine = list.New()
		t.of[peer] = mine
	}
	b := &binding{handle: h, to: r, identity: identity}
	b.inAll, b.inOf = t.all.PushBack(b), mine.PushBack(b)
	t.bound[h] = b
	return true
}

// forget removes a binding. The caller holds mu.
func (t *Handles) forget(b *binding) {
	delete(t.bound, b.handle)
	t.all.Remove(b.inAll)
	peer := profiles.Link(b.identity)
	mine := t.of[peer]
	if mine.Remove(b.inOf); mine.Len() == 0 {
		delete(t.of, peer)
	}
}

// Resolve returns the meaning of a handle; false if unknown.
func (t *Handles) Resolve(h Handle) (Reference, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if b := t.bound[h]; b != nil {
		return b.to, true
	}
	return Reference{}, false
}

// Len returns the number of handles.
func (t *Handles) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all.Len()
}

// handleSlots are the slots with handles, and their letters.
var handleSlots = [...]struct {
	code   nslip.Code
	letter byte
}{{nslip.GoalID, 'g'}, {nslip.TaskID, 'k'}, {nslip.ParentTaskID, 'p'}, {nslip.ResultID, 'r'}}

// handleOf returns the handle in a slot of a message between two agents.
func handleOf(m *nslip.Message, src, dst string, code nslip.Code) (Handle, bool) {
	s, ok := m.Slot(code)
	if code == nslip.ParentTaskID {
		code = nslip.TaskID
	}
	return Handle{min(src, dst), max(src, dst), m.ConvID, code, s.Int}, ok
}

// parseMeaning parses the value of an extension 17, such as "k=task:0011".
func parseMeaning(value []byte) (Meaning, bool) {
	if len(value) < 2 || value[1] != '=' || !utf8.Valid(value) {
		return Meaning{}, false
	}
	kind, id, ok := bytes.Cut(value[2:], []byte(":"))
	switch {
	case !ok, len(id) == 0, len(id) > MaxReference, bytes.ContainsFunc(id, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return Meaning{}, false
	case string(kind) != "task" && string(kind) != "artifact" && string(kind) != "state":
		return Meaning{}, false
	}
	for _, slot := range handleSlots {
		if slot.letter == value[0] {
			return Meaning{slot.code, Reference{string(kind), string(id)}}, true
		}
	}
	return Meaning{}, false
}

// appendMeaning appends a Meaning as an extension.
func appendMeaning(ext e1.Extensions, m Meaning) e1.Extensions {
	if value := m.String(); value != "" {
		ext = e1.AppendExtension(ext, ExtHandle, []byte(value))
	}
	return ext
}

// meanings reads the meanings of handles from the extensions of a message.
func (m *Message) meanings(ext e1.Extensions) error {
	for typ, value := range ext.All() {
		if typ != ExtHandle {
			continue
		}
		one, ok := parseMeaning(value)
		if ok && m.Type != TypeSLIP && len(m.Handles) < maxMeanings {
			_, ok = m.NSLIP.Slot(one.Code)
		} else {
			ok = false
		}
		if !ok {
			return fault(profiles.InvalidProfilePayload, CodeBadHandle, "extension %d: %.100q", ExtHandle, value)
		}
		m.Handles = append(m.Handles, one)
	}
	return nil
}

// resolve stores the meanings in a message, and adds the known meanings of its other
// handles.
func (s *Service) resolve(m *Message, identity, src, dst string) error {
	if m.Type == TypeSLIP {
		return nil
	}
	for _, one := range m.Handles {
		if h, _ := handleOf(&m.NSLIP, src, dst, one.Code); !s.opts.Handles.Bind(identity, h, one.Reference) {
			return fault(profiles.InvalidProfilePayload, CodeBadHandle, "%v %d stands for something else", one.Code, h.ID)
		}
	}
	m.Handles = m.Handles[:0] // stored above
	for _, slot := range handleSlots {
		h, ok := handleOf(&m.NSLIP, src, dst, slot.code)
		if !ok {
			continue
		}
		if r, ok := s.opts.Handles.Resolve(h); ok {
			m.Handles = append(m.Handles, Meaning{slot.code, r})
		}
	}
	return nil
}
