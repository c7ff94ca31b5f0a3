package mcpmap

import (
	"encoding/json"
	"slices"
)

// Requests by which an endpoint learns which era a server belongs to: first server/discover,
// then, if that is refused, initialize. No single code of an error says it.
const (
	ProbeDiscoverID   = `"swp-probe-discover"`
	ProbeInitializeID = `"swp-probe-initialize"`
	ProbeVersion      = "2025-11-25" // that initialize asks for

	probeClient = `{"name":"swpd","version":"1"}`

	ProbeDiscover = `{"jsonrpc":"2.0","id":` + ProbeDiscoverID + discoverRest

	discoverRest = `,"method":"` + MethodDiscover + `","params":{"_meta":{` +
		`"` + MetaProtocolVersion + `":"` + ModernVersion + `",` +
		`"` + MetaClientInfo + `":` + probeClient + `,` +
		`"` + MetaClientCapabilities + `":{}}}}`

	ProbeInitialize = `{"jsonrpc":"2.0","id":` + ProbeInitializeID + `,"method":"` + MethodInitialize + `","params":{` +
		`"protocolVersion":"` + ProbeVersion + `","capabilities":{},"clientInfo":` + probeClient + `}}`
)

// AppendDiscover appends ProbeDiscover with another id, as raw token: a sign of life of a server of the
// modern era, which has no ping.
func AppendDiscover(b []byte, id string) []byte {
	return append(append(append(b, `{"jsonrpc":"2.0","id":`...), id...), discoverRest...)
}

// AppendPing appends a ping of the legacy era with an id as raw token.
func AppendPing(b []byte, id string) []byte {
	return append(append(append(b, `{"jsonrpc":"2.0","id":`...), id...), `,"method":"ping"}`...)
}

// DiscoveredModern reports whether the result of ProbeDiscover comes from a server of the
// modern era. Nil is no result.
func DiscoveredModern(result []byte) bool {
	var r struct {
		SupportedVersions []string `json:"supportedVersions"`
	}
	if result == nil || json.Unmarshal(result, &r) != nil {
		return false
	}
	return slices.Max(append(r.SupportedVersions, "")) >= ModernVersion
}

// InitializedVersions returns the version in the result of ProbeInitialize, or nothing.
func InitializedVersions(result []byte) []string {
	var r struct {
		ProtocolVersion string `json:"protocolVersion"`
	}
	if result == nil || json.Unmarshal(result, &r) != nil || r.ProtocolVersion == "" {
		return nil
	}
	return []string{r.ProtocolVersion}
}
