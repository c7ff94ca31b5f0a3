package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/internal/plain"
	"github.com/slimwire/swp/transport"
)

// The name of the address in the usage line of a command declares what may follow
// host and port. Everything else is refused before anything is read or dialled.
const (
	addrPlain   = "ADDR"           // nothing
	addrPartner = "ADDR[/PARTNER]" // perhaps a partner, a partner of that one and so on
	addrServer  = "ADDR[/SERVER]"  // perhaps an MCP server, or partner/server
	addrAgent   = "ADDR[/AGENT]"   // perhaps an agent, or partner/agent
	addrOfAgent = "ADDR/AGENT"     // an agent, or partner/agent
	addrNew     = "[ADDR[/AGENT]]" // as addrAgent, and may be left out

	addrPlainURL   = addrPlain + "|URL"   // as addrPlain, or the address of an endpoint without SWP
	addrPartnerURL = addrPartner + "|URL" // as addrPartner, or the address of an endpoint without SWP
)

// usageArguments are those of usage lines that are checked and completed alike in all
// commands.
func usageArguments() map[string]cli.Argument {
	target := func(address string) error {
		_, _, err := split(address)
		return err
	}
	named := func(address string) error {
		addr, agent, err := split(address)
		if err != nil {
			return err
		}
		const form = "ADDR/AGENT or ADDR/PARTNER/AGENT"
		switch names := strings.SplitN(agent, "/", 3); {
		case agent == "":
			return &usageError{fmt.Sprintf("the address has to end with the name of an agent: %s, as in %s/billing", form, addr)}
		case len(names) == 3:
			return &usageError{fmt.Sprintf("address %.256q: %.80q is too many: this command takes %s, and here %.80q is the partner and %.80q the agent",
				address, names[2], form, names[0], names[1])}
		}
		return nil
	}
	endpoint := func(address string) error {
		_, err := endpointOnly(address)
		return err
	}
	return map[string]cli.Argument{
		addrPlainURL: {Check: orWithoutSWP(endpoint), Complete: schemes}, addrPartnerURL: {Check: orWithoutSWP(target), Complete: schemes},
		addrPlain:   {Check: endpoint, Complete: schemes},
		addrPartner: {Check: target, Complete: schemes},
		addrServer:  {Check: target, Complete: schemes},
		addrAgent:   {Check: target, Complete: schemes},
		addrOfAgent: {Check: named, Complete: schemes},
		"TASK_ID":   {Complete: sentTasks},
	}
}

// orWithoutSWP checks an address without SWP, and others with check.
func orWithoutSWP(check func(string) error) func(string) error {
	return func(address string) error {
		if !client.WithoutSWP(address) {
			return check(address)
		}
		if _, err := client.CheckWithoutSWP(address); err != nil {
			return &usageError{plain.Error(err)}
		}
		return nil
	}
}

// split reads an address and the names that follow host and port.
func split(address string) (addr transport.Addr, target string, err error) {
	addr, target, err = client.SplitTarget(address)
	if err != nil {
		err = &usageError{plain.Error(err)}
	}
	return addr, target, err
}

// endpointOnly reads an address that names nothing but an endpoint.
func endpointOnly(address string) (transport.Addr, error) {
	addr, target, err := split(address)
	if err == nil && target != "" {
		err = &usageError{fmt.Sprintf("address %.256q: this command is for the endpoint itself and cannot pass %q on\n"+
			"Leave /%[2]s out if you mean %s; else give the address of the endpoint that you mean.", address, target, addr)}
	}
	return addr, err
}

// behind reads an address with a name behind the endpoint, which a flag may give
// instead.
func behind(address, flag, value string) (at, name string, err error) {
	addr, target, err := split(address)
	switch {
	case err != nil:
		return "", "", err
	case target != "" && value != "" && target != value:
		return "", "", &usageError{fmt.Sprintf("the address names %q and %s %q; keep one", target, flag, value)}
	case target == "":
		target = value
	}
	return addr.String(), target, nil
}

// checkPlaintext refuses flags about identities on a plaintext connection,
// which has no certificates.
func (f *flags) checkPlaintext() error {
	for _, flag := range []struct{ name, value string }{
		{"--identity", f.identity}, {"--cert", f.cert}, {"--key", f.key}, {"--ca", f.ca}, {"--expect", f.expect},
	} {
		if flag.value != "" {
			return &usageError{flag.name + " has no effect over swp+tcp, which has no certificates; leave it out, or use swp+tls or swp+quic"}
		}
	}
	return nil
}

// schemes completes the begin of an address.
func schemes(typed string) (list []cobra.Completion, _ cobra.ShellCompDirective) {
	for _, scheme := range []string{"swp+tls://", "swp+quic://", "swp+tcp://127.0.0.1"} {
		if strings.HasPrefix(scheme, typed) {
			list = append(list, scheme)
		}
	}
	return list, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// sentTasks completes the id of a task of the journal.
func sentTasks(typed string) (list []cobra.Completion, _ cobra.ShellCompDirective) {
	journal, err := openJournal()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	tasks, _ := journal.List()
	for _, t := range tasks {
		if strings.HasPrefix(t.ID, typed) {
			list = append(list, cobra.CompletionWithDesc(t.ID, t.Kind))
		}
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}
