package config

import (
	"maps"
	"strings"
	"testing"
)

func TestAnOfferIsARule(t *testing.T) {
	for text, want := range map[string]string{
		"mcp:files":           "mcp: files, files/**",
		"mcp:files/read_file": "mcp: files/read_file (tools/call)",
		"rpc:orders.find":     "rpc: orders.find (call)",
		"a2a:planner":         "a2a: planner, planner/** (task)",
		"a2a:planner/plan":    "a2a: planner/plan (task)",
		"relay:orders.*":      "relay: orders.*",
		"files":               "",
		":files":              "",
		"mcp:":                "",
	} {
		r, err := ParseOffer(text)
		if (want == "") != (err != nil) || err == nil && r.String() != want {
			t.Errorf("%s: %s, %v", text, r.String(), err)
		}
	}
}

// What is written for a partner is read as it was meant, whatever the partner has written.
func TestTheTextOfANewPartnerIsReadAsItWasMeant(t *testing.T) {
	d := dir(t)
	beside(t, d, map[string]string{"acme.pem": ""})
	odd := "a: \"b\" 'c' # {d}\n\t\\ é <&>"
	n := NewPartner{
		Identity: "spiffe://acme.example/swpd", Addresses: []string{"swp+tls://acme.example:7777"}, Trust: "acme.pem", ValidUntil: "2027-01-01", ReviewBy: "2026-12-01T00:00:00Z",
		Allow: []PartnerRule{{Profile: List{"rpc"}, Operation: List{"call"}, Name: List{odd, "*"}, For: List{"b.example"}}, {}},
	}
	beside(t, d, map[string]string{"acme.yaml": string(n.Text())})
	c, err := load(t, d, "")
	if err != nil {
		t.Fatal(err)
	}
	p := c.Partners["acme"]
	if len(p.Allow) != 2 || p.Allow[0].Name[0] != odd || p.Allow[0].For[0] != "b.example" || p.ValidUntil.String() != "2027-01-01" || p.ReviewBy.IsZero() || len(p.Addresses) != 1 {
		t.Errorf("%+v", p)
	}
}

func TestTheStateOfAPartnerIsWrittenAndTheRestStays(t *testing.T) {
	for text, want := range map[string]string{
		"identity: a.example\n":                                "identity: a.example\nstate: revoked\n",
		"identity: a.example # why":                            "identity: a.example # why\nstate: revoked\n",
		"# head\nstate: active\n# foot\nidentity: a.example\n": "# head\nstate: revoked\n# foot\nidentity: a.example\n",
		"identity: a.example\nstate: suspended":                "identity: a.example\nstate: revoked\n",
		"{identity: a.example}\n":                              "!not in lines",
		"state:\n  active\nidentity: a.example\n":              "!no value in its line",
		"hints: {region: [state]}\nidentity: a.example\n":      "hints: {region: [state]}\nidentity: a.example\nstate: revoked\n",
		"identity: [\n":                                        "!not YAML",
	} {
		got, err := SetState([]byte(text), StateRevoked)
		if why, fails := strings.CutPrefix(want, "!"); fails {
			if err == nil || !strings.Contains(err.Error(), why) {
				t.Errorf("%q: %v, want %s", text, err, why)
			}
		} else if err != nil || string(got) != want {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
}

func TestPinnedToolsAreWrittenAndTheRestStays(t *testing.T) {
	a, b := "sha256:"+strings.Repeat("a", 64), "sha256:"+strings.Repeat("b", 64)
	pins := map[string]string{"files/write: \"it\"": b, "files/read": a}
	block := "pinned:\n  \"files/read\": " + a + "\n  \"files/write: \\\"it\\\"\": " + b + "\n"
	for text, want := range map[string]string{
		"identity: a.example\n": "identity: a.example\n" + block,
		"identity: a.example\npinned:\n  x/y: " + b + " # old\n  x/z: " + b + "\n# about tell\ntell: none\n": "identity: a.example\n" + block + "# about tell\ntell: none\n",
		"pinned: {x/y: '" + b + "'}\nidentity: a.example\n":                                                  block + "identity: a.example\n",
		"pinned:\nidentity: a.example\n":                                                                     block + "identity: a.example\n",
		"pinned: {x/y: '" + b + "',\n  x/z: '" + b + "'}\nidentity: a.example\n":                             "!no value in its line",
	} {
		got, err := SetPinned([]byte(text), pins)
		if why, fails := strings.CutPrefix(want, "!"); fails {
			if err == nil || !strings.Contains(err.Error(), why) {
				t.Errorf("%q: %v, want %s", text, err, why)
			}
			continue
		}
		if err != nil || string(got) != want {
			t.Errorf("%q:\n%s\n%v, want\n%s", text, got, err, want)
			continue
		}
		d := dir(t)
		beside(t, d, map[string]string{"acme.yaml": string(got)})
		c, err := load(t, d, "")
		if err != nil || !maps.Equal(c.Partners["acme"].Pinned, pins) {
			t.Errorf("%q is read as %v, %v", text, c, err)
		}
		if none, err := SetPinned(got, nil); err != nil || strings.Contains(string(none), "pinned") || !strings.Contains(string(none), "identity: a.example\n") {
			t.Errorf("without pins: %q, %v", none, err)
		}
	}
}

func TestAPinIsADigestOfATool(t *testing.T) {
	sum := "sha256:" + strings.Repeat("0", 64)
	for pins, want := range map[string]string{
		"{}":                               "",
		"{files/read: '" + sum + "'}":      "",
		"{files/read/more: '" + sum + "'}": "",
		"{read: '" + sum + "'}":            "is no tool, want SERVER/TOOL",
		"{/read: '" + sum + "'}":           "is no tool, want SERVER/TOOL",
		"{files/: '" + sum + "'}":          "is no tool, want SERVER/TOOL",
		"{files/read: '" + sum + "0'}":     "want sha256: and 64 hexadecimal digits",
		"{files/read: '" + sum[:70] + "'}": "want sha256: and 64 hexadecimal digits",
		"[files/read]":                     "is a list, want a mapping from names",
	} {
		_, err := load(t, dir(t), "partners: {b: {identity: spiffe://b.example/swpd, pinned: "+pins+"}}\n")
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", pins, err, want)
		}
	}
}
