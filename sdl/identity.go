package sdl

import "github.com/slimwire/swp/sdl/canonical"

// UnknownAgent is the agent_id used in place of an invalid identity.
const UnknownAgent = "did:key:unknown"

// unknown is used in place of an invalid identity (§9).
var unknown = Identity{UnknownAgent, "unknown", "unknown", "unknown"}

// Identity is the sender or receiver of an envelope. No member is empty.
type Identity struct{ AgentID, Name, Instance, Role string }

// Value returns i as a member of an envelope.
func (i Identity) Value() canonical.Value {
	return object(
		member("agent_id", canonical.String(i.AgentID)),
		member("name", canonical.String(i.Name)),
		member("instance", canonical.String(i.Instance)),
		member("role", canonical.String(i.Role)),
	)
}

func identity(what string, v canonical.Value) (i Identity, refused *Error) {
	for _, m := range []struct {
		name string
		to   *string
	}{{"agent_id", &i.AgentID}, {"name", &i.Name}, {"instance", &i.Instance}, {"role", &i.Role}} {
		var ok bool
		if *m.to, ok = filled(v.Get(m.name)); !ok {
			return Identity{}, bad(what+"."+m.name, "is no text or empty")
		}
	}
	return i, nil
}

// filled returns a string that is not empty.
func filled(v canonical.Value) (string, bool) {
	s, _ := v.Text()
	return s, s != ""
}
