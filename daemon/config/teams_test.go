package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTeamsAreRefused(t *testing.T) {
	one := func(more string) string {
		return fmt.Sprintf("teams: {desk: {default: a, members: {a: {}}%s}}\n", more)
	}
	for name, test := range map[string]struct{ text, want string }{
		"no default":        {"teams: {desk: {members: {a: {}}}}\n", "teams.desk.default: missing"},
		"another default":   {"teams: {desk: {default: b, members: {a: {}}}}\n", `teams.desk.default: "b" is no member`},
		"nobody":            {"teams: {desk: {default: a}}\n", "teams.desk.members: are 0, want 1 to 64"},
		"a member user":     {"teams: {desk: {default: user, members: {user: {}}}}\n", `teams.desk.members.user: "user" is not an id`},
		"a member sender":   {"teams: {desk: {default: sender, members: {sender: {}}}}\n", `teams.desk.members.sender: "sender" is not an id`},
		"a slash":           {"teams: {a/b: {default: a, members: {a: {}}}}\n", `"a/b" is not a name`},
		"no such partner":   {"teams: {desk: {default: a, members: {a: {agent: p/x}}}}\n", `teams.desk.members.a.agent: "p/x" is no agent of a partner`},
		"an agent's name":   {"a2a: {agents: {desk: {url: 'http://127.0.0.1:1/'}}}\n" + one(""), "teams.desk: has the name of a2a.agents.desk"},
		"a partner's name":  {"partners: {desk: {identity: 'spiffe://x.example/swpd'}}\n" + one(""), "teams.desk: has the name of partners.desk"},
		"itself":            {"teams: {desk: {default: a, members: {a: {agent: desk}}}}\n", "teams.desk: contains itself: desk > desk"},
		"a circle":          {"teams: {a: {default: b, members: {b: {}}}, b: {default: x, members: {x: {agent: a}}}}\n", "teams.a: contains itself: a > b > a"},
		"no hops":           {one(", max_hops: 0"), "teams.desk.max_hops: is 0, want 1 to 1000"},
		"too many hops":     {one(", max_hops: 1001"), "teams.desk.max_hops: is 1001"},
		"a small context":   {one(", context: 1023"), "teams.desk.context: is 1023, want 1024 to 1048576"},
		"much held":         {one(", held: 65MiB"), "teams.desk.held: is 68157440"},
		"no tasks":          {one(", tasks: 0"), "teams.desk.tasks: is 0"},
		"basic reply":       {one(", basic_reply: nobody"), `teams.desk.basic_reply: is "nobody", want default, user`},
		"form":              {"teams: {desk: {default: a, members: {a: {form: xml}}}}\n", `teams.desk.members.a.form: is "xml", want string, object`},
		"a deadline of 0":   {one(", deadline: 0s"), "teams.desk.deadline: is 0"},
		"sends to nobody":   {"teams: {desk: {default: a, members: {a: {sends: [b]}}}}\n", `teams.desk.members.a.sends[0]: "b" is no other member of the team`},
		"sends to itself":   {"teams: {desk: {default: a, members: {a: {sends: [b, a]}, b: {}}}}\n", `teams.desk.members.a.sends[1]: "a" is no other member`},
		"a refresh of 0":    {one(", refresh: 0s"), "refresh and retention are durations above 0"},
		"a card not there":  {one(", card: none.json"), "teams.desk.card: /"},
		"an unknown member": {"teams: {desk: {default: a, members: {a: {name: x}}}}\n", "teams.desk.members.a.name: unknown key"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, dir(t), test.text)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error:\n%v\nwant it to contain:\n%s", err, test.want)
			}
		})
	}
}

func TestTeamsHaveDefaults(t *testing.T) {
	c, err := load(t, dir(t), "teams: {desk: {default: a, members: {a: {}, b: {agent: other, routes: false, form: object, sends: []}}}}\n")
	if err != nil {
		t.Fatal(err)
	}
	no := false
	want := Teams{"desk": {
		Default: "a", Members: map[string]TeamMember{"a": {Form: "string"}, "b": {Agent: "other", Routes: &no, Form: "object", Sends: []string{}}},
		MaxHops: 10, BasicReply: "default", Context: 64 << 10, Held: 4 << 20, Tasks: 64, Refresh: time.Minute, Retention: 720 * time.Hour,
	}}
	if diff := cmp.Diff(want, c.Teams); diff != "" {
		t.Error(diff)
	}
	if got := c.Teams["desk"].Members["a"].Name("a"); got != "a" {
		t.Errorf("agent %q, want the id", got)
	}
}
