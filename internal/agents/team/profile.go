package team

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
)

// profile is the cached description of a member.
type profile struct {
	peer     Peer
	skills   []object // of its card
	required []string // extensions that its card requires
}

// silence is the pause before a member that could not be described is asked again.
const silence = 5 * time.Second

// describe returns the description of a member. It may wait for the member.
func (t *Team) describe(ctx context.Context, m *participant) (*profile, error) {
	m.mu.Lock()
	known, err, until := m.known, m.err, m.until
	m.mu.Unlock()
	if t.opts.Now().Before(until) {
		return known, err
	}
	ask, cancel := context.WithTimeout(ctx, t.opts.Patience)
	defer cancel()
	known, err = t.learn(ask, m)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	good := t.opts.Refresh
	if err != nil {
		good = min(good, silence)
	}
	m.mu.Lock()
	m.known, m.err, m.until = known, err, t.opts.Now().Add(good)
	m.mu.Unlock()
	return known, err
}

// forget discards the cached card of a member that did not behave as its card says.
func (m *participant) forget() {
	m.mu.Lock()
	m.until = time.Time{}
	m.mu.Unlock()
}

// learn requests the description of a member.
func (t *Team) learn(ctx context.Context, m *participant) (*profile, error) {
	found := new(profile)
	if m.team != nil {
		found.peer = Peer{Name: m.team.opts.Title, Description: m.team.opts.Text}
	} else if d, err := t.opts.Agents.Describe(ctx, m.Agent); err != nil {
		if m.Routes == nil {
			return nil, err
		}
	} else if len(d.Card) > 0 {
		if found, err = readCard(d.Card); err != nil {
			return nil, err
		}
	} else {
		found.peer = Peer{Capabilities: d.Capabilities, SupportsClientRouting: slices.Contains(d.Capabilities, URI)}
	}
	p := &found.peer
	p.ID = m.id
	p.Name = clip(cmp.Or(m.Name, p.Name, m.id), maxName)
	p.Description = clip(cmp.Or(m.Text, p.Description), maxDescription)
	if m.Capabilities != nil {
		p.Capabilities = m.Capabilities
	}
	if m.Routes != nil {
		p.SupportsClientRouting = *m.Routes
	}
	tags := []string{} // not nil: JSON would show null
	for _, tag := range p.Capabilities[:min(len(p.Capabilities), maxCapabilities)] {
		tags = append(tags, clip(tag, maxCapability))
	}
	p.Capabilities = tags
	return found, nil
}

// readCard reads a card of A2A.
func readCard(octets []byte) (*profile, error) {
	var card struct {
		Name         string                  `json:"name"`
		Description  string                  `json:"description"`
		Skills       []json.RawMessage       `json:"skills"`
		Capabilities a2abinding.Capabilities `json:"capabilities"`
	}
	if !bytes.HasPrefix(bytes.TrimLeft(octets, " \t\r\n"), []byte{'{'}) || json.Unmarshal(octets, &card) != nil {
		return nil, errors.New("team: not a card of A2A")
	}
	p := &profile{peer: Peer{Name: card.Name, Description: card.Description}}
	for _, value := range card.Skills {
		skill, err := parseObject(value)
		if err != nil {
			return nil, errors.New("team: a card with a skill that is no object")
		}
		name, _ := skill.text("name")
		p.skills = append(p.skills, skill)
		p.peer.Capabilities = append(p.peer.Capabilities, name)
	}
	for _, e := range card.Capabilities.Extensions {
		if e.URI == URI {
			p.peer.SupportsClientRouting = true
		}
		if e.Required {
			p.required = append(p.required, e.URI)
		}
	}
	return p, nil
}

// peers returns the members that are described to a member: all others to which it may send and
// that have a known description, or of these only its handoffs.
func (t *Team) peers(ctx context.Context, of *participant, handoffs []string) []Peer {
	found := make([]*profile, len(t.ids))
	var asking sync.WaitGroup
	for i, id := range t.ids {
		if id == of.id || !of.sendsTo(id) || len(handoffs) > 0 && !slices.Contains(handoffs, id) {
			continue
		}
		asking.Go(func() { found[i], _ = t.describe(ctx, t.members[id]) })
	}
	asking.Wait()
	list := []Peer{} // never null
	for _, p := range found {
		if p != nil {
			list = append(list, p.peer)
		}
	}
	return list
}
