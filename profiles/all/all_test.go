package all_test

import (
	"go/parser"
	"go/token"
	"os"
	"path"
	"strconv"
	"strings"
	"testing"

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
	const want = `{"version":"v1","profiles":[{"id":1,"types":[1,2,3]},{"id":12,"types":[1,2,3,4,5]}],` +
		`"extensions":{"1":[16,17,18,19,20,49]},"targets":["db","files"]}`
	if string(m.Result) != want {
		t.Errorf("info\n%s, want\n%s", m.Result, want)
	}
}

func TestMethodsOfTheProfilesCannotBeTaken(t *testing.T) {
	inline := rpc.Method{Held: func(*rpc.Pending, []byte) error { return nil }}
	if _, err := all.New(all.Options{Methods: map[string]rpc.Method{rpc.MethodPing: inline}}); err == nil {
		t.Error("swp.ping was replaced")
	}
	if _, err := all.New(all.Options{Methods: map[string]rpc.Method{mcpmap.MethodRPCListen: inline}}); err == nil {
		t.Error("swp.mcp.listen was replaced")
	}
}
