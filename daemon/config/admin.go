package config

import (
	"maps"
	"slices"

	"github.com/slimwire/swp/internal/bridge/gate"
)

// Admin configures the listener for local administration. One without Actions may be written
// as its address.
type Admin struct {
	Address string `yaml:"address"` // host:port, unix:PATH, or "off"

	// Actions are the operators, by name.
	Actions map[string]Operator `yaml:"actions"`
}

// Operator is a person or a program with a token.
type Operator struct {
	Tokens []string `yaml:"tokens"` // as HTTPCaller
}

// LocalOperator is the name of every operator with the token in the data directory.
const LocalOperator = "local"

func (c *Config) checkAdmin(p *problems) {
	key := "admin"
	if _, mapping := p.origins["admin.address"]; mapping {
		key = "admin.address"
	}
	if err := CheckAdmin(c.Admin.Address); err != nil {
		p.add(key, "%v", err)
	}
	seen := make(credentials)
	for _, name := range slices.Sorted(maps.Keys(c.Admin.Actions)) {
		key := "admin.actions." + name
		checkName(p, key, name, "")
		if name == LocalOperator {
			p.add(key, "%s is the name of those who can read the data directory; take another", name)
		}
		seen.check(p, key, name, HTTPCaller{Tokens: c.Admin.Actions[name].Tokens})
	}
	if len(c.Admin.Actions) > 0 && c.Admin.Address == AdminOff {
		p.add("admin.actions", "is set while admin.address is off; set the address, or remove it")
	}
}

// Gate returns the options of a gate for the operators. LocalOperator has the tokens in local. Requests
// without a token come from the caller anonymous.
func (a *Admin) Gate(local []string, anonymous string) gate.Options {
	o := gate.Options{
		Callers:   map[string][]string{LocalOperator: local},
		Anonymous: anonymous,
		AnyHost:   true, // the listener has checked it
		Calls:     maxActions,
	}
	for name, operator := range a.Actions {
		o.Callers[name] = operator.Tokens
	}
	return o
}

// maxActions is how many requests of an operator may be open.
const maxActions = 8
