package mcpmap

import (
	"bytes"
	"strings"

	"github.com/slimwire/swp/profiles"
)

// A caller sees only what it may use: from an answer that lists tools, resources, prompts or
// tasks the elements that the access rules deny, and the tasks of others, are removed.

// list is a method whose result is a list, and the rules for its elements.
type list struct {
	method  string
	member  string // of the result
	element string // the member of an element that names it
	use     string // the operation that uses an element
	named   bool   // rules use the name server/element
	changed string // the notification of a server that the list has changed
}

var lists = [...]list{
	{method: "tools/list", member: "tools", element: "name", use: MethodToolsCall, named: true, changed: changedTools},
	{method: "resources/list", member: "resources", element: "name", use: methodRead, changed: changedResources},
	{method: "resources/templates/list", member: "resourceTemplates", element: "name", use: methodRead, changed: changedResources},
	{method: "prompts/list", member: "prompts", element: "name", use: "prompts/get", changed: changedPrompts},
	{method: methodTasksList, member: "tasks", element: "taskId"},
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

// view is the part of a server that one identity may see.
type view struct {
	access           profiles.Access
	tasks            *tasks
	identity, server string
}

func (v view) may(operation, name string) bool {
	return profiles.Would(v.access, v.identity, profileName, operation, name)
}

// open reports whether there are no rules.
func (v view) open() bool { return v.access == profiles.Everyone }

// cut returns the answer to a list request without the elements that the peer may not see.
// If it may see all elements, it returns the answer itself.
func (v view) cut(l *list, response []byte) ([]byte, *profiles.Error) {
	if l.method == methodTasksList {
		return cutList(response, l.member, l.element, func(id, _ []byte) bool {
			one := v.tasks.find(v.identity, v.server, string(id))
			return one != nil && v.may(one.operation, one.name)
		})
	}
	if v.open() {
		return response, nil
	}
	if !l.named {
		all := v.may(l.use, v.server)
		return cutList(response, l.member, l.element, func(_, _ []byte) bool { return all })
	}
	name := append([]byte(v.server), '/')
	server := len(name)
	return cutList(response, l.member, l.element, func(element, _ []byte) bool {
		name = append(name[:server], element...)
		return v.may(l.use, string(name))
	})
}

// shows reports whether the peer may request a list and may see an element of it.
func (v view) shows(l *list) bool {
	if !v.may(l.method, v.server) {
		return false
	}
	if l.named {
		return profiles.WouldSome(v.access, v.identity, profileName, l.use, v.server+"/")
	}
	return v.may(l.use, v.server)
}

// concerns reports whether a notification of the server is for the client. A notification
// about a list of which the client sees nothing, about a resource that it may not read, or
// about a task that is not its own, is not.
func (v view) concerns(notification []byte) bool {
	if !tellsOfChange(notification) {
		return true
	}
	var m Message
	if m.Scan(notification) != nil {
		return false
	}
	method, known := string(m.Method()), false
	switch {
	case strings.HasPrefix(method, changedTasks):
		return v.hears(&m)
	case v.open():
		return true
	}
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

// tellsOfChange reports whether concerns must examine a notification. Most notifications
// need not be scanned.
func tellsOfChange(notification []byte) bool {
	return bytes.Contains(notification, []byte("list_changed")) || bytes.Contains(notification, []byte("resources")) ||
		bytes.Contains(notification, []byte(changedTasks)) ||
		bytes.IndexByte(notification, '\\') >= 0
}
