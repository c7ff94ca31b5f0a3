package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// beside writes files of partners beside a configuration.
func beside(t *testing.T, d string, files map[string]string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(d, PartnersDir), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(d, PartnersDir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAPartnerHasAFileOfItsOwnWithTheKeysOfAnEntry(t *testing.T) {
	d := dir(t)
	beside(t, d, map[string]string{
		"acme.yaml": "identity: spiffe://acme.example/swpd\ntrust: [acme.pem]\ntell: none\nqueue: {messages: 7}\n", "acme.pem": "", "notes.txt": "nothing: of ours\n", ".acme.yaml": "?",
	})
	c, err := load(t, d, "partners: {beta: {identity: spiffe://beta.example/swpd}}\n")
	if err != nil {
		t.Fatal(err)
	}
	want := defaultPartner
	want.Identity, want.Tell, want.Trust, want.Queue.Messages = "spiffe://acme.example/swpd", TellNone, []string{filepath.Join(d, PartnersDir, "acme.pem")}, 7
	if got := c.Partners["acme"]; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	file := filepath.Join(d, PartnersDir, "acme.yaml")
	if c.PartnerFiles["acme"] != file || c.PartnerFiles["beta"] != "" || c.Place("partners.acme.tell") != file+":3" {
		t.Errorf("files %v, place %s", c.PartnerFiles, c.Place("partners.acme.tell"))
	}
	if len(c.Partners) != 2 {
		t.Errorf("partners %v", c.Partners)
	}
	for _, text := range []string{"", "partners:\n", "{}\n", "partners: {}\n"} { // the section is left out, or empty
		if c, err := load(t, d, text); err != nil || len(c.Partners) != 1 {
			t.Errorf("%q: %v", text, err)
		}
	}
	t.Setenv("SWPD_PARTNERS_ACME_TELL", "caller")
	if c, err = Load(filepath.Join(d, "swpd.yaml"), os.Environ()); err != nil || c.Partners["acme"].Tell != TellCaller {
		t.Errorf("with an environment variable: %v", err)
	}
}

func TestProblemsOfAPartnerNameItsFile(t *testing.T) {
	for _, row := range []struct{ name, text, main, want string }{
		{"acme.yaml", "identity: spiffe://acme.example/swpd\nadresses: []\n", "", "D/acme.yaml:2: partners.acme.adresses: unknown key; did you mean addresses?"},
		{"acme.yaml", "identity: [\n", "", "D/acme.yaml:1: not YAML"},
		{"acme.yaml", "identity: a.example\n---\nidentity: b.example\n", "", "D/acme.yaml:2: a second YAML document"},
		{"acme.yaml", "", "", "D/acme.yaml: partners.acme.identity: missing"},
		{"acme.yaml", "- x\n", "", "D/acme.yaml: partners.acme: is a list, want a mapping of keys"},
		{"acme.yaml", "identity: a.example\nidentity: b.example\n", "", "D/acme.yaml:2: partners.acme.identity: set twice, first in line 1; keep one"},
		{"acme.yaml", "identity: a.example\n", "log: {level: info}\npartners:\n  acme: {identity: b.example}\n", "D/acme.yaml: partners.acme: is in M:3 as well; keep one of them"},
		{"acme.yaml", "identity: a.example\n", "partners:\n  other: {identity: a.example}\n", `M:2: partners.other.identity: "a.example" is that of partners.acme too`},
		{"sdl.yaml", "identity: a.example\n", "", `D/sdl.yaml: partners.sdl: "sdl" begins names of another meaning`},
		{"a b.yaml", "identity: a.example\n", "", `D/a b.yaml: partners.a b: "a b" is not a name`},
		{"acme.yml", "identity: a.example\n", "", "D/acme.yml: would be ignored; rename it to acme.yaml"},
		{"acme.yaml", "identity: a.example\ntrust: [gone.pem]\n", "", "D/acme.yaml:2: partners.acme.trust[0]: D/gone.pem does not exist"},
		{"acme.yaml", "identity: a.example\nstate: resting\n", "", `D/acme.yaml:2: partners.acme.state: is "resting", want active, suspended, revoked`},
		{"acme.yaml", "identity: a.example\nvalid_until: soon\n", "", `D/acme.yaml:2: partners.acme.valid_until: "soon" is not a date`},
		{"acme.yaml", "identity: a.example\nvalid_until: 2027-02-30\n", "", `D/acme.yaml:2: partners.acme.valid_until: "2027-02-30" is not a date`},
		{"acme.yaml", "identity: a.example\nvalid_until: 2027-01-01\nreview_by: 2027-01-02\n", "", "D/acme.yaml:3: partners.acme.review_by: 2027-01-02 is after valid_until, 2027-01-01"},
		{"acme.yaml", "identity: a.example\nallow: [{profile: rpc, operation: ask}]\n", "", `partners.acme.allow[0].operation: "ask" is no operation of rpc`},
		{"acme.yaml", "identity: a.example\nallow: [{identity: '**'}]\n", "", "D/acme.yaml:2: partners.acme.allow[0].identity: unknown key"},
	} {
		d := dir(t)
		beside(t, d, map[string]string{row.name: row.text})
		_, err := load(t, d, row.main)
		want := strings.NewReplacer("D/", filepath.Join(d, PartnersDir)+"/", "M:", filepath.Join(d, "swpd.yaml")+":").Replace(row.want)
		if err == nil || !strings.Contains(err.Error(), want) || !errors.As(err, new(Problems)) {
			t.Errorf("%q beside %q: error %v, want %s", row.text, row.main, err, want)
		}
	}
}

func TestTheFilesOfAConfigurationAreThoseOfItsPartnersToo(t *testing.T) {
	d := dir(t)
	main := filepath.Join(d, "swpd.yaml")
	if got := Files(main); !slices.Equal(got, []string{main, filepath.Join(d, PartnersDir)}) {
		t.Errorf("%q", got)
	}
	beside(t, d, map[string]string{"acme.yaml": "", "acme.pem": ""})
	if got := Files(main); !slices.Equal(got, []string{main, filepath.Join(d, PartnersDir), PartnerFile(main, "acme")}) {
		t.Errorf("%q", got)
	}
	if got := Files(""); got != nil {
		t.Errorf("of the built-in configuration: %q", got)
	}
}

func TestAConfigurationIsReadWithAnotherFileOfAPartner(t *testing.T) {
	d := dir(t)
	beside(t, d, map[string]string{"acme.yaml": "identity: acme.example\n"})
	if _, err := load(t, d, ""); err != nil {
		t.Fatal(err)
	}
	main := filepath.Join(d, "swpd.yaml")
	for _, row := range []struct {
		name, text string
		want       []string
	}{{"acme", "identity: other.example\n", []string{"other.example"}}, {"beta", "identity: beta.example\n", []string{"acme.example", "beta.example"}}} {
		c, unneeded, err := everything.Load(main, nil, Drafts{row.name: []byte(row.text)})
		if err != nil || len(unneeded) > 0 {
			t.Fatal(unneeded, err)
		}
		var got []string
		for _, p := range c.Partners {
			got = append(got, p.Identity)
		}
		if slices.Sort(got); !slices.Equal(got, row.want) {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
	}
	if c, _, err := everything.Load(main, nil, Drafts{"beta": []byte("identity: acme.example\n"), "acme": nil}); err != nil || len(c.Partners) != 1 {
		t.Errorf("without the file: %v", err)
	}
}

func TestRulesAndStatesOfPartnersAreAccessRules(t *testing.T) {
	d := dir(t)
	beside(t, d, map[string]string{
		"acme.yaml":  "identity: acme.example\nallow: [{profile: rpc, operation: call, name: find}]\nstate: suspended\n",
		"beta.yaml":  "identity: beta.example\nvalid_until: 2027-03-31\n",
		"delta.yaml": "identity: delta.example\nvalid_until: 2027-01-31T12:00:00+01:00\n",
	})
	c, err := load(t, d, "access: {rules: [{identity: a.example}], deny: left.example}\n")
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Access.Rules[1]; got.Identity[0] != "acme.example" || got.Name[0] != "find" || c.Access.RuleKey(0) != "access.rules[0]" || c.Access.RuleKey(1) != "partners.acme.allow[0]" {
		t.Errorf("rules %+v", c.Access.Rules)
	}
	end := time.Date(2027, 1, 31, 11, 0, 0, 0, time.UTC)
	for at, want := range map[time.Time]string{
		{}:                   "access.deny[0] partners.acme.state",
		end.Add(-1):          "access.deny[0] partners.acme.state",
		end:                  "access.deny[0] partners.acme.state partners.delta.valid_until",
		end.AddDate(0, 2, 0): "access.deny[0] partners.acme.state partners.delta.valid_until",
		time.Date(2027, 3, 31, 23, 59, 59, 0, time.UTC): "access.deny[0] partners.acme.state partners.delta.valid_until",
		time.Date(2027, 4, 1, 0, 0, 0, 0, time.UTC):     "access.deny[0] partners.acme.state partners.delta.valid_until partners.beta.valid_until",
	} {
		var keys []string
		for i := range c.Access.DeniedAt(at) {
			keys = append(keys, c.Access.DenyKey(i))
		}
		if got := strings.Join(keys, " "); got != want {
			t.Errorf("at %s: %s, want %s", at, got, want)
		}
	}
	if why := c.Access.Deny[1].Why; why != "partner acme is suspended" {
		t.Errorf("reason %q", why)
	}
}

func TestDatesOfPartnersAreWarnedOfThirtyDaysAhead(t *testing.T) {
	day := func(month time.Month, d int) time.Time { return time.Date(2027, month, d, 0, 0, 0, 0, time.UTC) }
	date := func(s string) Date {
		d, err := ParseDate(s)
		if err != nil || d.String() != s {
			t.Fatalf("%s: %s, %v", s, d, err)
		}
		return d
	}
	for _, row := range []struct {
		p    Partner
		at   time.Time
		want string
	}{
		{Partner{}, day(1, 1), ""},
		{Partner{ValidUntil: date("2027-03-31")}, day(3, 2).Add(-1), ""},
		{Partner{ValidUntil: date("2027-03-31")}, day(3, 2), "partner acme is valid until 2027-03-31 and"},
		{Partner{ValidUntil: date("2027-03-31")}, day(4, 1).Add(-1), "partner acme is valid until 2027-03-31 and"},
		{Partner{ValidUntil: date("2027-03-31"), State: StateActive}, day(4, 1), "partner acme was valid until 2027-03-31: it is not let in, and nothing is sent to it; set a later"},
		{Partner{ReviewBy: date("2027-03-31")}, day(3, 2).Add(-1), ""},
		{Partner{ReviewBy: date("2027-03-31")}, day(3, 2), "partner acme is to be reviewed by 2027-03-31; "},
		{Partner{ReviewBy: date("2027-03-31")}, day(4, 1), "partner acme was to be reviewed by 2027-03-31; "},
		{Partner{State: StateSuspended}, day(1, 1), "partner acme is suspended: it is not let in"},
		{Partner{State: StateRevoked, ReviewBy: date("2027-03-31")}, day(4, 1), ""},
		{Partner{ValidUntil: date("2027-03-31T12:30:00Z")}, day(4, 1), "partner acme was valid until 2027-03-31T12:30:00Z: "},
	} {
		got := strings.Join(Partners{"acme": row.p}.Terms(row.at), "\n")
		if (row.want == "") != (got == "") || !strings.HasPrefix(got, row.want) {
			t.Errorf("at %s: %q, want %q", row.at, got, row.want)
		}
	}
}
