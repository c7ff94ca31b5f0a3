// Command swp-client talks to SWP endpoints.
package main

import (
	"os"

	"github.com/slimwire/swp/cmd/swp-client/internal/command"
)

// version is set by the build: -ldflags "-X main.version=…".
var version string

func main() { os.Exit(command.Main(version, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
