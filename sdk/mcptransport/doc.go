// Package mcptransport runs programs written with the official Go SDK of MCP over
// SlimWire: a Client is the transport of an mcp.Client, a Server puts an
// mcp.Server behind an endpoint.
//
// The SDK decodes messages and encodes them again. Nothing that relays uses
// this package; the bridges pass octets on.
//
// Specification: SWP profiles §1, MCP mapping §1 to §3.
package mcptransport
