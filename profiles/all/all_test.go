package all_test

import (
	"encoding/json"
	"go/parser"
	"go/token"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/profiletest"
	"github.com/slimwire/swp/profiles/rpc"
)

// notProfiles are the folders beside this one that hold no profile.
var notProfiles = map[string]string{
	"all":         "this list",
	"p1":          "the payload encoding that profiles share",
	"profiletest": "the contract test",
}

func TestEveryProfileIsListed(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "all.go", nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	listed := make(map[string]bool)
	for _, spec := range file.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(name, "github.com/slimwire/swp/profiles/") {
			listed[path.Base(name)] = true
		}
	}
	folders, err := os.ReadDir("..")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range folders {
		if !f.IsDir() || notProfiles[f.Name()] != "" {
			continue
		}
		if n++; !listed[f.Name()] {
			t.Errorf("profiles/%s has no line in profiles/all", f.Name())
		}
	}
	set, err := all.New(all.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	if got := len(set.Registry.All()); got != n {
		t.Errorf("%d profiles are built, want one for each of %d folders", got, n)
	}
}

func TestInfoNamesProfilesExtensionsAndTargets(t *testing.T) {
	backend, err := mcpmap.NewTable(map[string]mcpmap.Server{"files": nil, "db": nil}, "db")
	if err != nil {
		t.Fatal(err)
	}
	set, err := all.New(all.Options{Version: "v1", MCP: mcpmap.Options{Backend: backend}})
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	calls, ok := set.Registry.Lookup(rpc.ProfileID)
	if !ok {
		t.Fatal("no RPC profile")
	}
	req := rpc.Req{RPCID: []byte("id"), Method: []byte(rpc.MethodInfo)}
	x := profiletest.New(t, calls).Serve(rpc.TypeReq, req.Append(nil))
	var m rpc.Resp
	if err := m.Decode(x.Answers()[0].Payload); err != nil {
		t.Fatal(err)
	}
	var info rpc.Info
	if err := json.Unmarshal(m.Result, &info); err != nil {
		t.Fatal(err)
	}
	if info.Version != "v1" || len(info.Profiles) != len(set.Registry.All())+1 || info.Profiles[len(info.Profiles)-1].ID != profiles.ErrorProfile || !slices.Equal(info.Targets, []string{"db", "files"}) {
		t.Errorf("info %+v", info)
	}
	for i, p := range set.Registry.All() {
		if info.Profiles[i].ID != p.ID || len(info.Profiles[i].Types) != len(p.Types) {
			t.Errorf("info of profile %d: %+v", p.ID, info.Profiles[i])
		}
	}
	if got := info.Extensions[mcpmap.ProfileID]; !slices.Equal(got, []uint64{16, 17, 18, 19, 20, 21, 22, 48, 49, 50}) {
		t.Errorf("extensions of profile 1: %v", got)
	}
	if got := info.Extensions[0]; !slices.Equal(got, []uint64{profiles.ExtChain, profiles.ExtEndpoint, profiles.ExtDraining}) {
		t.Errorf("extensions of any profile: %v", got)
	}
}

// only lets everybody reach one name and do nothing.
type only string

func (only) Allowed(_, _, _, _ string) bool   { return false }
func (o only) Reaches(_, _, name string) bool { return name == string(o) }

func TestInfoNamesOnlyWhatThePeerMayReach(t *testing.T) {
	backend, err := mcpmap.NewTable(map[string]mcpmap.Server{"files": nil, "db": nil}, "db")
	if err != nil {
		t.Fatal(err)
	}
	set, err := all.New(all.Options{Access: only("files"), MCP: mcpmap.Options{Backend: backend}})
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	calls, _ := set.Registry.Lookup(rpc.ProfileID)
	req := rpc.Req{RPCID: []byte("id"), Method: []byte(rpc.MethodInfo)}
	var m rpc.Resp
	if err := m.Decode(profiletest.New(t, calls).Serve(rpc.TypeReq, req.Append(nil)).Answers()[0].Payload); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(m.Result), `"targets":["files"]`) {
		t.Errorf("info %s, want files as the only target", m.Result)
	}
}

func TestWhatDisclosesNothingIsOpenToEveryone(t *testing.T) {
	set, err := all.New(all.Options{
		Access: only(""), RPC: rpc.Options{Methods: map[string]rpc.Method{
			"demo.ping": {Inline: func(*profiles.Request, []byte) ([]byte, error) { return nil, nil }},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	calls, _ := set.Registry.Lookup(rpc.ProfileID)
	h := profiletest.New(t, calls)
	for method, want := range map[string]uint64{
		agdisc.MethodList: rpc.TypeResp,
		rpc.MethodPing:    rpc.TypeResp, rpc.MethodEcho: rpc.TypeResp, rpc.MethodInfo: rpc.TypeResp, rpc.MethodSync: rpc.TypeResp,
		"demo.ping": rpc.TypeErr, "swp.ping ": rpc.TypeErr, "swp.": rpc.TypeErr,
	} {
		req := rpc.Req{RPCID: []byte("id " + method), Method: []byte(method)}
		if answers := h.Serve(rpc.TypeReq, req.Append(nil)).Wait().Answers(); len(answers) != 1 || answers[0].MsgType != want {
			t.Errorf("%q: answers %v, want one of type %d", method, answers, want)
		}
	}
}

func TestMethodsOfTheProfilesCannotBeTaken(t *testing.T) {
	inline := rpc.Method{Held: func(*rpc.Pending, []byte) error { return nil }}
	if _, err := all.New(all.Options{RPC: rpc.Options{Methods: map[string]rpc.Method{rpc.MethodPing: inline}}}); err == nil {
		t.Error("swp.ping was replaced")
	}
	if _, err := all.New(all.Options{RPC: rpc.Options{Methods: map[string]rpc.Method{mcpmap.MethodRPCListen: inline}}}); err == nil {
		t.Error("swp.mcp.listen was replaced")
	}
}

// A link to a partner says of a lost call of one of them that it may be made again.
func TestMethodsThatCrossDoNoHarmTwice(t *testing.T) {
	set, err := all.New(all.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	n := 0
	for _, p := range set.Registry.All() {
		if p.ID == rpc.ProfileID {
			continue // its own are those of builtin.go
		}
		for _, m := range p.Methods {
			if n++; !m.Local && !m.Repeatable {
				t.Errorf("%s crosses, and a second run may do harm", m.Name)
			}
		}
	}
	if n == 0 {
		t.Error("no profile has a method")
	}
}
