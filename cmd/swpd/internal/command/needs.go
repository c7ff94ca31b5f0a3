package command

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/daemon/config"
)

// What commands need of a configuration. run and check without --as need everything: config.Load.

// theWay is the way to the running swpd.
func theWay() config.Needs { return config.Needs{Keys: []string{"admin.address", "data"}} }

// theTrail is the audit trail.
func theTrail() config.Needs { return config.Needs{Keys: []string{"data"}} }

// theStore is the closed store, and the way to a running swpd, which has it open.
func theStore() config.Needs {
	return config.Needs{Keys: []string{"admin.address", "data", "store", "durability", "cluster", "quota", "artifact", "relay"}}
}

// theRules are the access rules, with the names that are theirs.
func theRules() config.Needs {
	return config.Needs{Keys: []string{
		"identity", "data", "access", "partners", "http", "mcp.servers", "a2a", "teams", "rpc.backends", "agdisc.cards", "tooldisc.tools",
	}}
}

// theCertificates are the certificates of the endpoint and of its partners.
func theCertificates() config.Needs {
	return config.Needs{Keys: []string{"identity", "trust", "data", "partners"}}
}

// theEndpoint is the endpoint as a partner knows it.
func theEndpoint() config.Needs {
	return config.Needs{Keys: []string{"data", "listeners"}, Files: []string{"identity", "trust"}}
}

// thePartners are the partners, and the sections that decide whether a new one can be admitted. For a known identity
// the authorities of all partners decide, too.
func thePartners(identity bool) config.Needs {
	n := theRules()
	n.Keys = append(n.Keys, "listeners", "admin.address", "store")
	n.Files = append(n.Files, "identity", "trust")
	if identity {
		n.Files = append(n.Files, "partners")
	}
	return n
}

// mostFaults is the most faults of a configuration that a warning lists.
const mostFaults = 3

// load reads the parts of a configuration that a command needs. Faults elsewhere are warnings: the operator will
// want to know why the next reload or start fails.
func load(cmd *cobra.Command, file string, needs config.Needs) (*config.Config, error) {
	c, unneeded, err := needs.Load(file, os.Environ(), nil)
	if err != nil {
		return nil, &exitError{exitUsage, err} // one that cannot be read is wrong, too
	}
	warnOf(cmd.ErrOrStderr(), unneeded)
	return c, nil
}

func warnOf(out io.Writer, faults config.Problems) {
	for i, fault := range faults {
		if i == mostFaults {
			_, _ = fmt.Fprintf(out, "swpd: warning: %d more faults of the configuration; swpd check lists them\n", len(faults)-i)
			return
		}
		_, _ = fmt.Fprintf(out, "swpd: warning: this command does not need it, but swpd does not start or reload before it is corrected: %s\n", cli.Field(fault.String()))
	}
}
