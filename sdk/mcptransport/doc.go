// Package mcptransport runs programs written with the official Go SDK of MCP over SlimWire:
// Client is the transport of an mcp.Client, Server puts an mcp.Server behind an endpoint.
//
// The SDK decodes and re-encodes messages. Bridges do not use this package, because they
// must forward octets unchanged.
//
// Specification: SWP profiles §1, MCP mapping §1 to §3.
package mcptransport
