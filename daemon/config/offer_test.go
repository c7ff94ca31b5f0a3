package config

import (
	"strings"
	"testing"
)

func TestAnOfferIsARule(t *testing.T) {
	for text, want := range map[string]string{
		"mcp:files":           "mcp: files, files/**",
		"mcp:files/read_file": "mcp: files, files/read_file (server/discover, initialize, ping, notifications/**, tools/list, tools/call)",
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
