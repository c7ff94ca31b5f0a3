package team

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
)

// Card returns the configured card of the team, or one with the skills of all members that
// can be described now; each skill id is prefixed with the member id and a slash. It may
// wait for the members.
func (t *Team) Card(ctx context.Context) ([]byte, error) {
	if t.opts.Card != nil {
		return t.opts.Card, nil
	}
	type reach struct {
		URL             string `json:"url"`
		ProtocolBinding string `json:"protocolBinding"`
		ProtocolVersion string `json:"protocolVersion"`
	}
	return json.Marshal(struct {
		Name        string            `json:"name"`
		Description string            `json:"description"`
		Version     string            `json:"version"`
		Interfaces  []reach           `json:"supportedInterfaces"`
		Can         map[string]bool   `json:"capabilities"`
		In          []string          `json:"defaultInputModes"`
		Out         []string          `json:"defaultOutputModes"`
		Skills      []json.RawMessage `json:"skills"`
	}{
		t.opts.Title, t.opts.Text, "1",
		[]reach{{"swp:///" + t.opts.Name, a2abinding.URI, a2abinding.Version}},
		map[string]bool{"streaming": true, "pushNotifications": false},
		[]string{"text/plain"}, []string{"text/plain"}, t.skills(ctx),
	})
}

// maxSkills limits the skills in the card of a team, in octets.
const maxSkills = 512 << 10

// skills returns the skills of all members, in the order of member ids.
func (t *Team) skills(ctx context.Context) []json.RawMessage {
	found := make([][]object, len(t.ids))
	var asking sync.WaitGroup
	for i, id := range t.ids {
		asking.Go(func() {
			m := t.members[id]
			if m.team != nil {
				for _, octets := range m.team.skills(ctx) {
					if skill, err := parseObject(octets); err == nil {
						found[i] = append(found[i], skill)
					}
				}
				return
			}
			p, err := t.describe(ctx, m)
			if err != nil {
				return
			}
			if found[i] = p.skills; len(p.skills) == 0 || m.Capabilities != nil {
				found[i] = p.made()
			}
		})
	}
	asking.Wait()
	list, size := []json.RawMessage{}, 0
	for i, skills := range found {
		for _, skill := range skills {
			id, err := skill.text("id")
			if err != nil {
				continue
			}
			octets := skill.with("id", quote(t.ids[i]+"/"+id)).octets()
			if size += len(octets); size > maxSkills {
				return list
			}
			list = append(list, octets)
		}
	}
	return list
}

// made returns skills made from the capabilities of a member without skills.
func (p *profile) made() (list []object) {
	for _, tag := range p.peer.Capabilities {
		if tag == URI {
			continue
		}
		list = append(list, object{
			{Name: "id", Value: quote(tag)}, {Name: "name", Value: quote(tag)},
			{Name: "description", Value: quote(p.peer.Description)},
			{Name: "tags", Value: array([]json.RawMessage{quote(tag)})},
		})
	}
	return list
}
