package config

import (
	"slices"
	"strings"
	"testing"
)

const aToken = "8766b9cb08e6040b704f1e3ee1e186efccf2635b1d2634d6525333007e6aeae1"

func TestAdminIsAnAddressOrAMapping(t *testing.T) {
	actions := "actions: {alice: {tokens: [" + aToken + "]}}"
	for name, tt := range map[string]struct {
		yaml      string
		env       []string
		address   string
		operators int
	}{
		"an address":                         {"admin: 127.0.0.1:1\n", nil, "127.0.0.1:1", 0},
		"a mapping":                          {"admin: {address: 127.0.0.1:1, " + actions + "}\n", nil, "127.0.0.1:1", 1},
		"without an address":                 {"admin: {" + actions + "}\n", nil, "127.0.0.1:7780", 1},
		"the address from the environment":   {"admin: {" + actions + "}\n", []string{"SWPD_ADMIN=127.0.0.1:2"}, "127.0.0.1:2", 1},
		"by its key":                         {"admin: {" + actions + "}\n", []string{"SWPD_ADMIN_ADDRESS=127.0.0.1:2"}, "127.0.0.1:2", 1},
		"by its key, over an address":        {"admin: 127.0.0.1:1\n", []string{"SWPD_ADMIN_ADDRESS=127.0.0.1:2"}, "127.0.0.1:2", 0},
		"only from the environment":          {"", []string{"SWPD_ADMIN=127.0.0.1:2"}, "127.0.0.1:2", 0},
		"a mapping of which nothing is left": {"admin:\n#  address: x\n", nil, "127.0.0.1:7780", 0},
	} {
		c, err := load(t, dir(t), valid+tt.yaml, tt.env...)
		if err != nil || c.Admin.Address != tt.address || len(c.Admin.Actions) != tt.operators {
			t.Errorf("%s: %+v, %v; want %s and %d operators", name, c.Admin, err, tt.address, tt.operators)
		}
	}
}

func TestOperatorsThatCannotActAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"{address: 0.0.0.0:1}": "admin.address: ",
		"{address: off, actions: {a: {tokens: [" + aToken + "]}}}": "admin.actions: is set while admin.address is off",
		"{actions: {a: {}}}":                                                        "admin.actions.a: has neither tokens nor certificates",
		"{actions: {local: {tokens: [" + aToken + "]}}}":                            "take another",
		"{actions: {a b: {tokens: [" + aToken + "]}}}":                              "is not a name",
		"{actions: {a: {tokens: [secret]}}}":                                        "admin.actions.a.tokens[0]: has 6 characters",
		"{actions: {a: {tokens: [" + aToken + "]}, b: {tokens: [" + aToken + "]}}}": "is that of caller",
		"{action: {}}": "admin.action: unknown key",
	} {
		if _, err := load(t, dir(t), valid+"admin: "+text+"\n"); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestAChangeOfAdminIsNamedByItsKey(t *testing.T) {
	old, now := Default(), Default()
	now.Admin.Address, now.Admin.Actions = "127.0.0.1:1", map[string]Operator{"a": {Tokens: []string{aToken}}}
	if got, want := Changed(old, now), []string{"admin.actions.a", "admin.address"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
