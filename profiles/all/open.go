package all

import (
	"slices"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/rpc"
)

// Open returns the RPC methods that every peer may call, whatever the access
// rules say. They disclose nothing that the peer may not use anyway: swp.info
// names what it may reach, swp.agents.list whose card it may get, and the
// methods about MCP sessions know only those that its identity was allowed to
// open.
func Open() []string {
	return []string{
		agdisc.MethodList, rpc.MethodEcho, rpc.MethodInfo, mcpmap.MethodRPCClose, mcpmap.MethodRPCListen, rpc.MethodPing, rpc.MethodSync,
	}
}

// withOpen is an Access that lets everyone call the open methods.
type withOpen struct {
	profiles.Access
	methods []string
}

func (o withOpen) Allowed(identity, profile, operation, name string) bool {
	if profile == "rpc" && operation == "call" && slices.Contains(o.methods, name) {
		return true
	}
	return o.Access.Allowed(identity, profile, operation, name)
}
