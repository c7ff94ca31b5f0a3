package mcpmap

import "github.com/slimwire/swp/profiles"

// methods are the methods of clients, of both eras of MCP. A server may have others.
var methods = []string{
	"completion/complete", MethodInitialize, "logging/setLevel", "ping", "prompts/get", "prompts/list",
	"resources/list", "resources/read", "resources/subscribe", "resources/templates/list", "resources/unsubscribe",
	MethodDiscover, MethodListen, "tasks/cancel", "tasks/get", "tasks/list", "tasks/result", "tasks/update",
	MethodToolsCall, "tools/list",
	MethodCancelled, "notifications/elicitation/complete", "notifications/initialized", "notifications/message",
	MethodProgress, "notifications/prompts/list_changed", "notifications/resources/list_changed",
	"notifications/resources/updated", "notifications/roots/list_changed", "notifications/tasks/status",
	"notifications/tools/list_changed",
}

// serverMethods are the methods of servers, for requests to the client.
var serverMethods = []string{"sampling/createMessage", "elicitation/create", "roots/list"}

// operations are the known methods: rules for methods of clients have the server as name,
// tools/call has server/tool.
func operations() []profiles.Operation {
	list := make([]profiles.Operation, 0, len(methods)+len(serverMethods))
	for _, name := range methods {
		on := "server"
		if name == MethodToolsCall {
			on = "server/tool"
		}
		list = append(list, profiles.Operation{Name: name, On: on})
	}
	for _, name := range serverMethods {
		list = append(list, profiles.Operation{Name: name, Free: true})
	}
	return list
}
