package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Only faults of what is needed are errors.
func TestFaultsOfWhatIsNotNeededAreNoError(t *testing.T) {
	const elsewhere = "limits: {idle: soon}\nmcp: {servers: {a: {command: no-such-program, tiemout: 1s}}}\ndata: d\nadmin: off\n"
	for _, row := range []struct {
		needs    Needs
		text     string
		err      string // empty: none
		unneeded string
	}{
		{Needs{Keys: []string{"data"}}, elsewhere, "", "swpd.yaml:1: limits.idle"},
		{Needs{Keys: []string{"data", "mcp"}}, elsewhere, "mcp.servers.a.tiemout: unknown key; did you mean timeout?", ""},
		{Needs{Keys: []string{"limits.idle"}}, elsewhere, "limits.idle", ""},
		{Needs{Keys: []string{"limits.body"}}, elsewhere, "", "limits.idle"},
		{Needs{Keys: []string{"limits"}}, "limits: []\n", "limits: is a list", ""},
		{Needs{Keys: []string{"limits.body"}}, "limits: []\n", "limits: is a list", ""},
		{Needs{Keys: []string{"limits.body"}}, "limits: {body: 0s}\n", "limits.body: is 0", ""},
		{Needs{Keys: []string{"data"}}, "limits: {body: 0s}\n", "", "limits.body: is 0"},

		// A typing error is one in the key that is meant, other unknown keys mean none of these.
		{Needs{Keys: []string{"data"}}, "dta: x\n", "dta: unknown key; did you mean data?", ""},
		{Needs{Keys: []string{"data"}}, "mistyped: x\n", "", "mistyped: unknown key"},
		{Needs{Keys: []string{"admin.address"}}, "admin: {adress: 'off'}\n", "admin.adress: unknown key; did you mean address?", ""},
		{Needs{Keys: []string{"mcp"}}, "mcpServers: {a: {command: sh}}\n", "mcpServers: unknown key", ""},
		{Needs{Keys: []string{"admin.address"}}, "admin: {address: 'off', actions: [x]}\n", "", "admin.actions: is a list"},
		{Needs{Keys: []string{"admin.address"}}, "admin: [1]\n", "admin: is a list", ""},

		// What concerns the whole file concerns all of it.
		{Needs{Keys: []string{"data"}}, "data: d\n  admin: [\n", "not YAML", ""},
		{Needs{Keys: []string{"data"}}, "- data\n", "is a list, want a mapping of keys", ""},

		// Files and programs are looked at where they are needed.
		{Needs{Keys: []string{"mcp", "identity", "trust"}}, "mcp: {servers: {a: {command: no-such-program, dir: gone}}}\nidentity: {cert: gone.crt, key: gone.key}\ntrust: {ca: [gone.crt]}\n", "", ""},
		{Needs{Files: []string{"mcp"}}, "mcp: {servers: {a: {command: no-such-program}}}\n", `mcp.servers.a.command: "no-such-program" is in no directory of PATH`, ""},
		{Needs{Files: []string{"mcp"}}, "mcp: {servers: {a: {command: ./gone}}}\n", "gone does not exist; install it, or name another path", ""},
		{Needs{Files: []string{"mcp"}}, "mcp: {servers: {a: {command: ./a.key}}}\n", "a.key is not executable for this account", ""},
		{Needs{Files: []string{"identity.cert"}}, "identity: {cert: gone.crt, key: gone.key}\ntrust: {ca: [ca.crt]}\n", "gone.crt does not exist; make it, or name another one", ""},
	} {
		d := dir(t)
		file := filepath.Join(d, "swpd.yaml")
		if err := os.WriteFile(file, []byte(row.text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, unneeded, err := row.needs.Load(file, nil, nil)
		if (err == nil) != (row.err == "") || (c == nil) != (err != nil) || err != nil && !strings.Contains(err.Error(), row.err) {
			t.Errorf("%+v of %q: error %v, want %q", row.needs, row.text, err, row.err)
		}
		if (len(unneeded) == 0) != (row.unneeded == "") || !strings.Contains(unneeded.Error(), row.unneeded) {
			t.Errorf("%+v of %q: not needed %v, want %q", row.needs, row.text, unneeded, row.unneeded)
		}
	}
}

// A partner with a file of its own can be suspended whatever is wrong in other files.
func TestAPartnerNeedsOnlyItsOwnFile(t *testing.T) {
	state := Needs{Keys: []string{"partners.acme.state"}}
	for _, row := range []struct{ main, acme, beta, err string }{
		{main: "nonsense: 1\n"},
		{main: "a: [\n"},
		{main: "- a\n"},
		{main: "partners: [x]\n"},
		{main: "partners: {other: 7}\n"},
		{beta: "a: [\n"},
		{beta: "identity: acme.example\n"},
		{acme: "adresses: []\ntrust: [gone.pem]\nidentity: acme.example\n"},
		{acme: "sate: suspended\n", err: "partners.acme.sate: unknown key; did you mean state?"},
		{acme: "state: [\n", err: "acme.yaml:1: not YAML"},
		{acme: "state: resting\n", err: "want active, suspended, revoked"},
		{main: "partners:\n  acme: {identity: acme.example}\n", err: "partners.acme: is in "},
	} {
		d := dir(t)
		file := filepath.Join(d, "swpd.yaml")
		if err := os.WriteFile(file, []byte(row.main), 0o600); err != nil {
			t.Fatal(err)
		}
		if row.acme == "" {
			row.acme = "identity: acme.example\nstate: suspended\n"
		}
		beside(t, d, map[string]string{"acme.yaml": row.acme, "beta.yaml": row.beta})
		c, _, err := state.Load(file, []string{"SWPD_NO_KEY=1"}, nil)
		switch {
		case row.err != "" && (err == nil || !strings.Contains(err.Error(), row.err)), row.err == "" && err != nil:
			t.Errorf("%+v: error %v", row, err)
		case err == nil && strings.Contains(row.acme, "suspended") && c.Partners["acme"].State != StateSuspended:
			t.Errorf("%+v: state %q", row, c.Partners["acme"].State)
		}
	}
	if _, _, err := state.Load(filepath.Join(t.TempDir(), "swpd.yaml"), nil, nil); err == nil {
		t.Error("a configuration that does not exist is read")
	}
}

// Names of partners may contain the names of others.
func TestTheFileOfAPartnerIsThatOfItsWholeName(t *testing.T) {
	c := &Config{PartnerFiles: map[string]string{"acme": "a", "acme.example": "b"}}
	for key, want := range map[string]string{
		"partners.acme": "a", "partners.acme.state": "a", "partners.acme.example": "b", "partners.acme.example.state": "b",
		"partners": "", "partners.acmes": "", "access.rules[0]": "",
	} {
		if got := c.fileOf(key); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
}

func TestCommandsAskTheSocketOfTheConfiguration(t *testing.T) {
	way := Needs{Keys: []string{"admin.address", "data"}}
	d := t.TempDir()
	file := filepath.Join(d, "swpd.yaml")
	for text, want := range map[string]string{
		"admin: 127.0.0.1:7790\ndata: d\nlisteners: 7\nmistyped: {a: b}\n": "unix:" + d + "/d/admin.sock",
		"admin: unix:/run/swpd/admin.sock\nlimits: {idle: soon}\n":         "unix:/run/swpd/admin.sock",
		"admin: off\ntrust: {ca: [gone.crt]}\n":                            AdminOff,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, _, err := way.Load(file, nil, nil)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := c.CommandAddress(); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if c, _, err := way.Load("", []string{"SWPD_ADMIN=unix:/admin.sock"}, nil); err != nil || c.CommandAddress() != "unix:/admin.sock" {
		t.Errorf("of the environment: %v", err)
	}
}
