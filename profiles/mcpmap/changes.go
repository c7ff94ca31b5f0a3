package mcpmap

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/slimwire/swp/profiles"
)

// A change of access rules also changes the lists that a client sees. Clients to which the
// server announces list changes get these announcements from this side.

const (
	methodInitialized  = "notifications/initialized"
	methodAcknowledged = "notifications/subscriptions/acknowledged"
)

// RulesChanged announces changed lists to clients for which differ returns true, given
// their identity and server. It reaches clients with a session in which the server
// announces list changes, and clients with a subscriptions/listen in which it agreed to.
// Call it after the new rules are in force. It does not wait.
func (m *Mapping) RulesChanged(differ func(identity, server string) bool) {
	m.mu.Lock()
	var sessions []*serverSession
	for _, s := range m.sessions {
		sessions = append(sessions, s)
	}
	conns := slices.Collect(maps.Values(m.conns))
	m.mu.Unlock()
	for _, s := range sessions {
		if differ(s.identity, s.target) {
			s.listsChanged()
		}
	}
	for _, c := range conns {
		for _, x := range c.endless() {
			if differ(x.Peer().Identity, x.target) {
				x.listsChanged()
			}
		}
	}
}

// review ends the sessions of identities that no rule lets do anything at their servers now.
func (m *Mapping) review() {
	rules, ok := m.opts.Access.(profiles.Reacher)
	if !ok {
		return
	}
	m.mu.Lock()
	sessions := slices.Collect(maps.Values(m.sessions))
	m.mu.Unlock()
	for _, s := range sessions {
		if !rules.Reaches(s.identity, profileName, s.target) {
			s.close()
		}
	}
}

// endless returns the exchanges of a connection without an expected end.
func (c *conn) endless() (list []*Exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range c.exchanges {
		if x.long {
			list = append(list, x)
		}
	}
	return list
}

func (s *serverSession) listsChanged() {
	s.mu.Lock()
	declared := s.declared
	if !s.begun {
		declared = nil
	}
	s.mu.Unlock()
	for _, changed := range declared {
		if s.view().asks(changed) {
			s.push(message{kind: Notification, octets: []byte(`{"jsonrpc":"2.0","method":"` + changed + `"}`)})
		}
	}
}

func (x *Exchange) listsChanged() {
	if !x.pin() {
		return
	}
	defer x.unpin()
	id := string(x.Message.ID())
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, changed := range x.agreed {
		if !x.over && x.view().asks(changed) {
			_ = x.notify([]byte(`{"jsonrpc":"2.0","method":"`+changed+`","params":{"_meta":{"`+MetaSubscriptionID+`":`+id+`}}}`), profiles.EndToEnd{})
		}
	}
}

// asks reports whether the client may ask for a list that has changed.
func (v view) asks(changed string) bool {
	for i := range lists {
		if lists[i].changed == changed && v.may(lists[i].method, v.server) {
			return true
		}
	}
	return false
}

// declared returns the changes that a server announces, according to its answer to
// initialize.
func declared(response []byte) []string {
	type capability struct {
		ListChanged bool `json:"listChanged"`
	}
	var answer struct {
		Result struct {
			Capabilities struct {
				Tools     capability `json:"tools"`
				Resources capability `json:"resources"`
				Prompts   capability `json:"prompts"`
			} `json:"capabilities"`
		} `json:"result"`
	}
	if json.Unmarshal(response, &answer) != nil {
		return nil
	}
	c := &answer.Result.Capabilities
	return changesOf(c.Tools.ListChanged, c.Resources.ListChanged, c.Prompts.ListChanged)
}

// acknowledged returns the changes that a server agreed to announce, if a notification
// acknowledges a subscriptions/listen.
func acknowledged(notification []byte) []string {
	var m struct {
		Method string `json:"method"`
		Params struct {
			Notifications struct {
				Tools     bool `json:"toolsListChanged"`
				Resources bool `json:"resourcesListChanged"`
				Prompts   bool `json:"promptsListChanged"`
			} `json:"notifications"`
		} `json:"params"`
	}
	if json.Unmarshal(notification, &m) != nil || m.Method != methodAcknowledged {
		return nil
	}
	n := &m.Params.Notifications
	return changesOf(n.Tools, n.Resources, n.Prompts)
}

func changesOf(tools, resources, prompts bool) (list []string) {
	for _, c := range []struct {
		told   bool
		method string
	}{{tools, changedTools}, {resources, changedResources}, {prompts, changedPrompts}} {
		if c.told {
			list = append(list, c.method)
		}
	}
	return list
}
