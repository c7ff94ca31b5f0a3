package mcpmap

import (
	"bytes"

	"github.com/slimwire/swp/profiles"
)

// A caller is shown what it may use: of an answer that lists tools, resources or
// prompts only the elements that the access rules let it use leave this endpoint.

// list is a method whose result is a list, and how the rules judge its elements.
type list struct {
	method  string
	member  string // of the result
	use     string // the operation that uses an element
	named   bool   // and is asked about by the name of the element, below that of the server
	changed string // what a server sends when the list has changed
}

var lists = [...]list{
	{method: "tools/list", member: "tools", use: MethodToolsCall, named: true, changed: changedTools},
	{method: "resources/list", member: "resources", use: methodRead, changed: changedResources},
	{method: "resources/templates/list", member: "resourceTemplates", use: methodRead, changed: changedResources},
	{method: "prompts/list", member: "prompts", use: "prompts/get", changed: changedPrompts},
}

const (
	methodRead       = "resources/read"
	changedTools     = "notifications/tools/list_changed"
	changedResources = "notifications/resources/list_changed"
	changedPrompts   = "notifications/prompts/list_changed"
	updatedResource  = "notifications/resources/updated"
)

// listOf returns the list that a request asks for, or nil.
func listOf(msg *Message) *list {
	method := msg.Method()
	for i := range lists {
		if string(method) == lists[i].method {
			return &lists[i]
		}
	}
	return nil
}

// view is what one identity may see of one server.
type view struct {
	access           profiles.Access
	identity, server string
}

func (v view) may(operation, name string) bool {
	return profiles.Would(v.access, v.identity, profileName, operation, name)
}

// open says whether no rules are asked at all.
func (v view) open() bool { return v.access == profiles.Everyone }

// cut returns an answer to the request for a list without what may not be seen.
// If the peer may see all of it, that is the answer itself.
func (v view) cut(l *list, response []byte) ([]byte, *profiles.Error) {
	if v.open() {
		return response, nil
	}
	if !l.named {
		all := v.may(l.use, v.server)
		return cutList(response, l.member, func([]byte) bool { return all })
	}
	name := append([]byte(v.server), '/')
	server := len(name)
	return cutList(response, l.member, func(element []byte) bool {
		name = append(name[:server], element...)
		return v.may(l.use, string(name))
	})
}

// shows says whether a list may be asked for, and have anything in it.
func (v view) shows(l *list) bool {
	if !v.may(l.method, v.server) {
		return false
	}
	if l.named {
		return profiles.WouldBelow(v.access, v.identity, profileName, l.use, v.server)
	}
	return v.may(l.use, v.server)
}

// concerns reports whether a notification of the server is for the client. One about a list
// of which it sees nothing, or about a resource that it may not read, is not.
func (v view) concerns(notification []byte) bool {
	if v.open() || !tellsOfChange(notification) {
		return true
	}
	var m Message
	if m.Scan(notification) != nil {
		return false
	}
	method, known := string(m.Method()), false
	for i := range lists {
		if lists[i].changed == method {
			known = true
			if v.shows(&lists[i]) {
				return true
			}
		}
	}
	return !known && (method != updatedResource || v.may(methodRead, v.server))
}

// tellsOfChange says whether a notification may be one that told decides about. Most
// are not, and are not scanned for it.
func tellsOfChange(notification []byte) bool {
	return bytes.Contains(notification, []byte("list_changed")) || bytes.Contains(notification, []byte("resources")) ||
		bytes.IndexByte(notification, '\\') >= 0
}
