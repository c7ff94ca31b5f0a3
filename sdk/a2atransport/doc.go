// Package a2atransport runs programs written with the official Go SDK of A2A over SlimWire:
// Client is a transport for the SDK's client, NewWorker puts the SDK's request handler
// behind an endpoint.
//
// The SDK decodes and re-encodes messages. Bridges do not use this package, because they
// must forward octets unchanged.
//
// Specification: SWP profiles §2, mcp-a2a mapping §4, docs/a2a-binding-swp.md.
package a2atransport
