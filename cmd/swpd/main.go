// Command swpd is a federation endpoint for agents and tools.
package main

import (
	"os"

	"github.com/slimwire/swp/cmd/swpd/internal/command"
)

// version is set by the build: -ldflags "-X main.version=…".
var version string

func main() { os.Exit(command.Main(version, os.Args[1:], os.Stdout, os.Stderr)) }
