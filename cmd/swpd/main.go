// Command swpd is a federation endpoint for agents and tools.
package main

import (
	"os"

	"github.com/slimwire/swp/cmd/swpd/internal/command"
)

func main() { os.Exit(command.Main(os.Args[1:], os.Stdout, os.Stderr)) }
