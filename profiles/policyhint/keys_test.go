package policyhint_test

import (
	"strings"
	"testing"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/policyhint"
)

func TestValuesHaveTheSyntaxOfTheirKeys(t *testing.T) {
	for key, values := range map[string]struct{ good, bad []string }{
		policyhint.NoExternalNetwork: {[]string{"true", "false"}, []string{"", "yes", "TRUE", "1", " true"}},
		policyhint.NoPII:             {[]string{"true", "false"}, []string{"", "no", "false "}},
		policyhint.CostLimit: {
			[]string{"0", "1", "0.05", "123456789.123456789", "0.5 EUR", "10 tokens", "1 " + strings.Repeat("u", 16)},
			[]string{"", "-1", "+1", ".5", "5.", "1e3", "0x1", "1234567890", "1.1234567890", "1 ", "1  EUR", "1 EUR ", "1 E1", "1,5", "EUR", "1 " + strings.Repeat("u", 17)},
		},
		policyhint.Region: {
			[]string{"eu", "eu-west-1", "eu,ch", strings.Repeat("r", 64), strings.Repeat("r,", 15) + "r"},
			[]string{"", "EU", "eu west", "eu,", ",eu", "-eu", "eu-", "eu_1", "é", strings.Repeat("r", 65), strings.Repeat("r,", 16) + "r"},
		},
		"another": {[]string{"anything at all", strings.Repeat("x", policyhint.MaxValue)}, []string{"", strings.Repeat("x", policyhint.MaxValue+1)}},
	} {
		for _, value := range values.good {
			if _, err := policyhint.Check(profiles.Hint{Key: key, Value: value}); err != nil {
				t.Errorf("%s=%q: %v", key, value, err)
			}
		}
		for _, value := range values.bad {
			if _, err := policyhint.Check(profiles.Hint{Key: key, Value: value}); err == nil || profiles.AsError(err).Code != profiles.InvalidProfilePayload {
				t.Errorf("%s=%.40q: %v, want it refused", key, value, err)
			}
		}
	}
	for _, key := range []string{"", " ", "\t\n", strings.Repeat("k", policyhint.MaxKey+1)} {
		if _, err := policyhint.Check(profiles.Hint{Key: key, Value: "v"}); err == nil {
			t.Errorf("key %.20q was accepted", key)
		}
	}
}

func TestScopesHaveOneForm(t *testing.T) {
	for ref, want := range map[string]string{
		"": "connection", "connection": "connection", "task:00ff": "task:00ff", "rpc:00FF": "rpc:00ff",
		"target:files": "target:files", "target:a/b c": "target:a/b c", "target:" + strings.Repeat("n", policyhint.MaxName): "target:" + strings.Repeat("n", policyhint.MaxName),
		"task:" + strings.Repeat("0a", policyhint.MaxName): "task:" + strings.Repeat("0a", policyhint.MaxName),
	} {
		if got, err := policyhint.Check(profiles.Hint{Key: "k", Value: "v", Scope: ref}); err != nil || got.Scope != want {
			t.Errorf("%.40q is %.40q, %v, want %.40q", ref, got.Scope, err, want)
		}
	}
	for _, ref := range []string{
		"Connection", " connection", "task", "task:", "task:0", "task:0g", "rpc:", "rpc:x", "target:", "msg:00", "everything",
		"task:" + strings.Repeat("0a", policyhint.MaxName+1), "target:" + strings.Repeat("n", policyhint.MaxName+1),
	} {
		_, err := policyhint.Check(profiles.Hint{Key: "k", Value: "v", Scope: ref})
		if fault := profiles.AsError(err); err == nil || fault.Detail != policyhint.CodeInvalidScope {
			t.Errorf("%.40q: %v, want INVALID_SCOPE", ref, err)
		}
	}
}

// declared returns what there is behind an endpoint, by name.
type declared map[string]*policyhint.Target

func (d declared) Target(_, name string) (*policyhint.Target, bool) {
	t, ok := d[name]
	return t, ok
}

func cost(t testing.TB, text string) *policyhint.Cost {
	c, err := policyhint.ParseCost(text)
	if err != nil {
		t.Fatal(err)
	}
	return &c
}

func TestWhatIsDeclaredDecides(t *testing.T) {
	full := &policyhint.Target{
		ExternalNetwork: new(false), PII: new(true), Regions: []string{"eu-west-1", "eu-central"}, Cost: cost(t, "0.05 EUR"),
	}
	h := policyhint.New(policyhint.Options{Targets: declared{
		"full": full, "nothing": {}, "open": {ExternalNetwork: new(true), PII: new(false), Cost: cost(t, "2")},
	}})
	for _, test := range []struct{ target, key, value, want string }{
		{"full", policyhint.NoExternalNetwork, "true", ""},
		{"open", policyhint.NoExternalNetwork, "true", policyhint.ReasonUnsatisfied},
		{"open", policyhint.NoExternalNetwork, "false", ""},
		{"nothing", policyhint.NoExternalNetwork, "true", policyhint.ReasonUndeclared},
		{"nothing", policyhint.NoExternalNetwork, "false", ""},
		{"unheard of", policyhint.NoExternalNetwork, "true", policyhint.ReasonUndeclared},
		{"full", policyhint.NoPII, "true", policyhint.ReasonUnsatisfied},
		{"open", policyhint.NoPII, "true", ""},
		{"nothing", policyhint.NoPII, "true", policyhint.ReasonUndeclared},
		{"full", policyhint.CostLimit, "0.05 EUR", ""},
		{"full", policyhint.CostLimit, "0.049999999 EUR", policyhint.ReasonUnsatisfied},
		{"full", policyhint.CostLimit, "100 USD", policyhint.ReasonUndeclared},
		{"full", policyhint.CostLimit, "100", policyhint.ReasonUndeclared},
		{"open", policyhint.CostLimit, "2.0", ""},
		{"open", policyhint.CostLimit, "1.999", policyhint.ReasonUnsatisfied},
		{"nothing", policyhint.CostLimit, "999999999", policyhint.ReasonUndeclared},
		{"full", policyhint.Region, "eu", ""},
		{"full", policyhint.Region, "eu-west-1,eu-central", ""},
		{"full", policyhint.Region, "eu-west", policyhint.ReasonUnsatisfied},
		{"full", policyhint.Region, "e", policyhint.ReasonUnsatisfied},
		{"full", policyhint.Region, "eu-west-1", policyhint.ReasonUnsatisfied},
		{"nothing", policyhint.Region, "eu", policyhint.ReasonUndeclared},
	} {
		for _, mode := range []profiles.Mode{profiles.May, profiles.Should, profiles.Must} {
			ctx := profiles.WithHints(t.Context(), []profiles.Hint{{Key: test.key, Value: test.value, Mode: mode, Scope: "connection"}})
			want := test.want
			if mode != profiles.Must {
				want = ""
			}
			got := ""
			if v := h.Violated(ctx, &profiles.Act{Profile: "mcp", Name: test.target}); v != nil {
				got = v.Reason
				var m policyhint.Violation
				if err := m.Decode(v.Notice.Payload); err != nil || string(m.Key) != test.key || string(m.Scope) != "connection" || string(m.Reason) != got ||
					v.Notice.MsgType != policyhint.TypeViolation || v.Notice.ProfileID != policyhint.ProfileID || len(v.Notice.MsgID) != 16 {
					t.Errorf("notice %v of %q %q %q, %v", v.Notice, m.Key, m.Scope, m.Reason, err)
				}
			}
			if got != want {
				t.Errorf("%s: %v %s=%s: %q, want %q", test.target, mode, test.key, test.value, got, want)
			}
		}
	}
	ctx := profiles.WithHints(t.Context(), []profiles.Hint{{Key: policyhint.NoExternalNetwork, Value: "true", Mode: profiles.Must, Scope: "connection"}})
	for act, stopped := range map[*profiles.Act]bool{
		{Profile: "rpc", Name: "swp.ping", Free: true}:                                     false,
		{Profile: "rpc", Name: "nothing", Ends: true}:                                      false,
		{Profile: "mcp", Name: "open/tool", Targets: []string{"nothing"}}:                  true,
		{Profile: "events", Name: "full", Targets: []string{"full", "nothing"}}:            true,
		{Profile: "events", Name: "full", Targets: []string{"full", "full"}}:               false,
		{Profile: "a2a", Name: "full", Agents: []string{}}:                                 true,
		{Profile: "a2a", Name: "full", Agents: []string{""}}:                               true,
		{Profile: "a2a", Name: "nothing", Agents: []string{"", "external_network=false"}}:  false,
		{Profile: "a2a", Name: "nothing", Agents: []string{"", "external_network=true"}}:   true,
		{Profile: "a2a", Name: "nothing", Agents: []string{"no declaration", "region=eu"}}: true,
	} {
		if v := h.Violated(ctx, act); (v != nil) != stopped {
			t.Errorf("%+v is stopped by %+v, want that: %v", act, v, stopped)
		}
	}
	if v := policyhint.New(policyhint.Options{}).Violated(ctx, &profiles.Act{Profile: "mcp", Name: "full"}); v == nil || v.Reason != policyhint.ReasonUndeclared {
		t.Errorf("where nothing is declared: %v", v)
	}
}

func TestADeclarationIsReadAsItIsWritten(t *testing.T) {
	for _, text := range []string{
		"", "external_network=false", "pii=true", "region=eu-west-1,us", "cost=0.02 EUR", "cost=12", "cost=0.000000001",
		"external_network=true;pii=false;region=eu;cost=100.5 USD",
	} {
		target, err := policyhint.ParseDeclaration(text)
		if err != nil || target.String() != text {
			t.Errorf("%q is read as %v, %v", text, target, err)
		}
	}
	for _, text := range []string{
		";", "pii", "pii=", "pii=perhaps", "region=", "region=EU", "cost=-1", "cost=1 ", "colour=red", "=", "region=eu;region=us", "pii=true;",
		"region=" + strings.Repeat("a", policyhint.MaxDeclaration),
	} {
		if target, err := policyhint.ParseDeclaration(text); err == nil {
			t.Errorf("%.40q is read as %v", text, target)
		}
	}
}
