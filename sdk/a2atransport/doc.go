// Package a2atransport runs programs written with the official Go SDK of A2A over
// SlimWire: a Client is a transport of the SDK's client, NewWorker puts the SDK's
// request handler behind an endpoint.
//
// The SDK decodes messages and encodes them again. Nothing that relays uses
// this package; the bridges pass octets on.
//
// Specification: SWP profiles §2, mcp-a2a mapping §4, docs/a2a-binding-swp.md.
package a2atransport
