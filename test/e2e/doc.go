// Package e2e tests the programs as a user runs them: swpd with real MCP servers
// behind it, and in front of it unmodified MCP clients that take swp-client for
// a local server. It has no code but tests.
package e2e
