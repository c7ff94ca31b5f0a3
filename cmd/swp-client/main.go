// Command swp-client talks to SWP endpoints.
package main

import (
	"os"

	"github.com/slimwire/swp/cmd/swp-client/internal/command"
)

func main() { os.Exit(command.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
