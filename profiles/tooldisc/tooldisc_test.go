package tooldisc_test

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/profiletest"
	"github.com/slimwire/swp/profiles/tooldisc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newService(t testing.TB, opts tooldisc.Options) *tooldisc.Service {
	t.Helper()
	s, err := tooldisc.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// tool is a configured tool.
func tool(id, version string) tooldisc.Configured {
	return tooldisc.Configured{Tool: tooldisc.Tool{
		ID: id, Name: "Name of " + id, Version: version, SchemaRef: "swp://schemas/" + id, Payload: []byte("{ \"id\" : \"" + id + "\" }\n"),
	}}
}

func tools(n int) (list []tooldisc.Configured) {
	for i := range n {
		list = append(list, tool(fmt.Sprintf("tool-%04d", i), "1"))
	}
	return list
}

func listReq(m tooldisc.ListReq) []byte { return m.Append(nil) }

func getReq(id, version string) []byte {
	m := tooldisc.GetReq{ToolID: []byte(id), Version: []byte(version)}
	return m.Append(nil)
}

func served(t testing.TB) *profiles.Profile {
	return newService(t, tooldisc.Options{Tools: tools(3)}).Profile()
}

var contract = []profiletest.Case{
	{Name: "list", Type: tooldisc.TypeListReq, Payload: listReq(tooldisc.ListReq{PageSize: 3, Filter: []byte("tool")}), Answers: []uint64{tooldisc.TypeListResp}},
	{Name: "get", Type: tooldisc.TypeGetReq, Payload: getReq("tool-0001", "1"), Answers: []uint64{tooldisc.TypeGetResp}},
	{Name: "get what is not there", Type: tooldisc.TypeGetReq, Payload: getReq("nothing", ""), Code: profiles.NotFound},
	{Name: "unsolicited page", Type: tooldisc.TypeListResp, Payload: (&tooldisc.ListResp{NextPageToken: []byte("n")}).Append(nil)},
	{Name: "unsolicited tool", Type: tooldisc.TypeGetResp, Payload: (&tooldisc.GetResp{Tool: tooldisc.Descriptor{
		ToolID: []byte("a"), Name: []byte("a"), Version: []byte("1"), SchemaRef: []byte("x:y")}}).Append(nil)},
	{Name: "unsolicited error", Type: tooldisc.TypeErr, Payload: (&tooldisc.Err{Code: []byte("NOT_FOUND")}).Append(nil)},
}

func TestContract(t *testing.T) { profiletest.Run(t, served, contract...) }

func FuzzServe(f *testing.F) { profiletest.Fuzz(f, served, contract...) }

// page serves a LIST_REQ.
func page(t testing.TB, h *profiletest.Harness, m tooldisc.ListReq) (ids []string, next string, fault *profiles.Error) {
	t.Helper()
	x := h.Serve(tooldisc.TypeListReq, listReq(m)).Wait()
	if x.Err() != nil {
		return nil, "", x.Err()
	}
	var out tooldisc.ListResp
	if err := out.Decode(x.Answers()[0].Payload); err != nil {
		t.Fatal(err)
	}
	if n := len(out.Tools); n > tooldisc.MaxPage {
		t.Errorf("a page of %d tools", n)
	}
	for _, d := range out.Tools {
		ids = append(ids, string(d.ToolID))
	}
	return ids, string(out.NextPageToken), nil
}

// all follows the pages of a listing.
func all(t testing.TB, h *profiletest.Harness, size uint32, filter string) (ids []string, pages int) {
	t.Helper()
	m := tooldisc.ListReq{PageSize: size, Filter: []byte(filter)}
	for {
		some, next, fault := page(t, h, m)
		if fault != nil {
			t.Fatal(fault)
		}
		if size > 0 && uint32(len(some)) > size {
			t.Errorf("a page of %d tools, want at most %d", len(some), size)
		}
		ids = append(ids, some...)
		if pages++; next == "" {
			return ids, pages
		}
		m.PageToken = []byte(next)
	}
}

func TestPagesHaveEachToolOnceInOrder(t *testing.T) {
	list := tools(250)
	slices.Reverse(list)
	h := profiletest.New(t, newService(t, tooldisc.Options{Tools: list}).Profile())
	var want []string
	for _, c := range tools(250) {
		want = append(want, c.ID)
	}
	for size, pages := range map[uint32]int{0: 3, 1: 250, 99: 3, 100: 3, 101: 3, 125: 3, 50: 5, 1<<32 - 1: 3} {
		if got, n := all(t, h, size, ""); !slices.Equal(got, want) || n != pages {
			t.Errorf("pages of %d: %d tools on %d pages, want 250 on %d", size, len(got), n, pages)
		}
	}
}

func TestFiltersMatchPartsOfToolIDAndName(t *testing.T) {
	a, b := tool("alpha/Read", "1"), tool("beta/write", "1")
	a.Name, b.Name = "Datei lesen", "ÄNDERN"
	h := profiletest.New(t, newService(t, tooldisc.Options{Tools: []tooldisc.Configured{a, b}}).Profile())
	for filter, want := range map[string][]string{
		"": {"alpha/Read", "beta/write"}, " \t\n": {"alpha/Read", "beta/write"}, "READ": {"alpha/Read"}, " read ": {"alpha/Read"},
		"a/": {"alpha/Read", "beta/write"}, "LESEN": {"alpha/Read"}, "ändern": {"beta/write"}, "i l": {"alpha/Read"},
		"alpha beta": nil, "*": nil, ".": nil, "%": nil, "(a+)+$": nil,
	} {
		if got, _ := all(t, h, 1, filter); !slices.Equal(got, want) {
			t.Errorf("filter %q: %v, want %v", filter, got, want)
		}
	}
}

func TestPR17ForgedPageTokensAreRefused(t *testing.T) {
	service := newService(t, tooldisc.Options{Tools: tools(10)})
	h := profiletest.New(t, service.Profile())
	_, good, _ := page(t, h, tooldisc.ListReq{PageSize: 2, Filter: []byte("tool")})
	refused := func(name, token, filter string) {
		t.Helper()
		_, _, fault := page(t, h, tooldisc.ListReq{PageToken: []byte(token), Filter: []byte(filter)})
		if fault == nil || fault.Code != profiles.InvalidProfilePayload || fault.Detail != tooldisc.DetailPageToken {
			t.Errorf("%s: %v, want ERR_INVALID_PROFILE_PAYLOAD · %s", name, fault, tooldisc.DetailPageToken)
		}
	}
	for _, token := range []string{"0", "2", "-1", "18446744073709551615", "tool-0002", " ", "=", good + "=", good + "A", good[:len(good)-1], good[:21]} {
		refused(fmt.Sprintf("token %.20q", token), token, "tool")
	}
	octets, err := base64.RawURLEncoding.DecodeString(good)
	if err != nil {
		t.Fatal(err)
	}
	for i := range octets {
		octets[i] ^= 1
		refused(fmt.Sprintf("octet %d changed", i), base64.RawURLEncoding.EncodeToString(octets), "tool")
		octets[i] ^= 1
	}
	refused("another filter", good, "tool-")
	refused("no filter", good, "")
	if _, _, fault := page(t, h, tooldisc.ListReq{PageToken: []byte(good), Filter: []byte(" TOOL\n")}); fault != nil {
		t.Errorf("the same filter, written otherwise: %v", fault)
	}
	h = profiletest.New(t, newService(t, tooldisc.Options{Tools: tools(10)}).Profile())
	refused("of another process", good, "tool")
}

func TestPR17ATokenIsForOnePeer(t *testing.T) {
	service := newService(t, tooldisc.Options{Tools: tools(10)})
	a, b := dial(t, service, "spiffe://test/a"), dial(t, service, "spiffe://test/b")
	_, next, err := tooldisc.Page(t.Context(), a, tooldisc.Query{PageSize: 3})
	if err != nil || next == "" {
		t.Fatal(next, err)
	}
	var refused *profiles.PeerError
	if _, _, err := tooldisc.Page(t.Context(), b, tooldisc.Query{PageToken: next}); !errors.As(err, &refused) || refused.Code != "INVALID_PROFILE_PAYLOAD" {
		t.Errorf("error %v", err)
	}
	if more, _, err := tooldisc.Page(t.Context(), a, tooldisc.Query{PageToken: next}); err != nil || len(more) != 7 {
		t.Errorf("%d tools, error %v", len(more), err)
	}
}

func TestAPageIsBoundedInOctets(t *testing.T) {
	var list []tooldisc.Configured
	for i := range 12 {
		c := tool(fmt.Sprintf("large-%02d", i), "1")
		c.Payload = make([]byte, tooldisc.MaxDescriptor)
		list = append(list, c)
	}
	h := profiletest.New(t, newService(t, tooldisc.Options{Tools: list}).Profile())
	if ids, pages := all(t, h, 0, ""); len(ids) != 12 || pages != 4 {
		t.Errorf("%d tools on %d pages, want 12 on 4", len(ids), pages)
	}
}

func TestGetReturnsTheVersionThatIsMeant(t *testing.T) {
	h := profiletest.New(t, newService(t, tooldisc.Options{Tools: []tooldisc.Configured{
		tool("a", "1.9.0"), tool("a", "1.10.0"), tool("a", "1.10.0-rc.1"), tool("b", "0"), tool("a-b", "7"),
	}}).Profile())
	for asked, want := range map[[2]string]string{
		{"a", ""}: "1.10.0", {"a", "1.9.0"}: "1.9.0", {"a", "1.10.0-rc.1"}: "1.10.0-rc.1", {"b", ""}: "0",
		{"a", "1.10"}: "", {"a", "2"}: "", {"a", "v1.9.0"}: "", {"A", ""}: "", {"a ", ""}: "", {"", "1"}: "",
	} {
		if asked[0] == "" {
			continue
		}
		x := h.Serve(tooldisc.TypeGetReq, getReq(asked[0], asked[1])).Wait()
		if want == "" {
			if fault := x.Err(); fault == nil || fault.Code != profiles.NotFound || !fault.Domain {
				t.Errorf("%v: %v, want ERR_NOT_FOUND as an answer of the domain", asked, fault)
			}
			continue
		}
		var out tooldisc.GetResp
		if err := out.Decode(x.Answers()[0].Payload); err != nil || string(out.Tool.Version) != want || string(out.Tool.ToolID) != asked[0] {
			t.Errorf("%v: %s %s, error %v, want version %s", asked, out.Tool.ToolID, out.Tool.Version, err, want)
		}
	}
}

func TestConfiguredToolsAreToldAsTheyAre(t *testing.T) {
	c := tool("a", "1")
	c.Schema = []byte("{ \"type\" : \"object\" }\n")
	service := newService(t, tooldisc.Options{Tools: []tooldisc.Configured{c}})
	got, err := tooldisc.Find(t.Context(), dial(t, service, "spiffe://test/a"), "a", "")
	if err != nil {
		t.Fatal(err)
	}
	want := c.Tool
	want.SchemaRef = tooldisc.RefOf(c.Schema)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	sum := sha256.Sum256(c.Schema)
	if schema, ok := service.BlobFor("spiffe://test/a", sum[:]); !ok || string(schema) != string(c.Schema) {
		t.Errorf("schema %q, %v", schema, ok)
	}
	sum[0]++
	if _, ok := service.BlobFor("spiffe://test/a", sum[:]); ok {
		t.Error("another digest has a schema")
	}
	if _, ok := service.BlobFor("spiffe://test/a", sum[:31]); ok {
		t.Error("a digest that is none has a schema")
	}
}

func TestNewRefusesToolsThatNobodyWouldTake(t *testing.T) {
	bad := func(change func(*tooldisc.Configured)) []tooldisc.Configured {
		c := tool("a", "1")
		change(&c)
		return []tooldisc.Configured{c}
	}
	for name, opts := range map[string]tooldisc.Options{
		"no tool_id":            {Tools: bad(func(c *tooldisc.Configured) { c.ID = "" })},
		"no version":            {Tools: bad(func(c *tooldisc.Configured) { c.Version = "" })},
		"a bad schema_ref":      {Tools: bad(func(c *tooldisc.Configured) { c.SchemaRef = "schema" })},
		"a large descriptor":    {Tools: bad(func(c *tooldisc.Configured) { c.Payload = make([]byte, tooldisc.MaxDescriptor+1) })},
		"twice":                 {Tools: append(tools(2), tools(1)...)},
		"a server's tool":       {Tools: []tooldisc.Configured{tool("s/a", "1")}, Servers: map[string]tooldisc.Server{"s": newServer()}},
		"a server with a slash": {Servers: map[string]tooldisc.Server{"s/t": newServer()}},
		"a server without name": {Servers: map[string]tooldisc.Server{"": newServer()}},
		"a negative duration":   {Pace: tooldisc.Pace{Refresh: -time.Second}},
	} {
		if _, err := tooldisc.New(opts); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestConfiguredToolsCanBeReplaced(t *testing.T) {
	service := newService(t, tooldisc.Options{Tools: tools(3)})
	session := dial(t, service, "spiffe://test/a")
	if err := service.Set(nil, []tooldisc.Configured{tool("other", "1")}); err != nil {
		t.Fatal(err)
	}
	if got := ids(t, session); !slices.Equal(got, []string{"other"}) {
		t.Errorf("tools %v", got)
	}
	if service.Set(nil, append(tools(1), tools(1)...)) == nil || service.Set(nil, tools(0)) != nil {
		t.Error("a tool that is there twice was taken, or none were not")
	}
	if got := ids(t, session); got != nil {
		t.Errorf("tools %v", got)
	}
}

// allowed is an Access by what it lets everybody do, which counts decisions.
type allowed struct {
	what      []string // profile operation name
	decisions *int
}

func (a allowed) Allowed(_, profile, operation, name string) bool {
	*a.decisions++
	return a.Would("", profile, operation, name)
}

func (a allowed) Would(_, profile, operation, name string) bool {
	return slices.Contains(a.what, profile+" "+operation+" "+name)
}

func TestPR04APeerSeesWhatItMayUseAndNothingElse(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		server := newServer()
		server.set(tooldisc.Listing{Version: "1", Tools: raw("read", "write", "list")})
		var decisions int
		service := newService(t, tooldisc.Options{
			Servers: map[string]tooldisc.Server{"files": server}, Tools: tools(3),
			Access: allowed{decisions: &decisions, what: []string{
				"mcp tools/call files/read", "tooldisc get tool-0001", "tooldisc get files/list", "mcp tools/call tool-0002", "mcp tools/list files/write",
			}},
		})
		session := dial(t, service, "spiffe://test/a")
		for _, filter := range []string{"", "e", "files", "tool-"} {
			for got, err := range tooldisc.List(t.Context(), session, tooldisc.Query{Filter: filter}) {
				if err != nil {
					t.Fatal(err)
				}
				if got.ID != "files/read" && got.ID != "tool-0001" {
					t.Errorf("filter %q: %s is seen", filter, got.ID)
				}
			}
		}
		if decisions != 0 {
			t.Errorf("%d decisions, and their denials in the audit trail, for listings", decisions)
		}
		var unknown error
		for _, id := range []string{"files/nothing", "files/write", "files/list", "tool-0000", "tool-0002", "nothing", "other/x"} {
			_, err := tooldisc.Find(t.Context(), session, id, "")
			var none *profiles.PeerError
			if !errors.As(err, &none) || none.Code != tooldisc.CodeNotFound {
				t.Errorf("%s: %v, want NOT_FOUND", id, err)
			}
			if unknown == nil {
				unknown = err
			} else if err.Error() != unknown.Error() {
				t.Errorf("%s: %v, what is not there: %v", id, err, unknown)
			}
		}
		for _, id := range []string{"files/read", "tool-0001"} {
			if _, err := tooldisc.Find(t.Context(), session, id, ""); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
		seen, hidden := sha256.Sum256([]byte(schemaOf("read"))), sha256.Sum256([]byte(schemaOf("write")))
		if _, ok := service.BlobFor("spiffe://test/a", seen[:]); !ok {
			t.Error("the schema of a tool that is seen is not")
		}
		if _, ok := service.BlobFor("spiffe://test/a", hidden[:]); ok {
			t.Error("the schema of a tool that is not seen is")
		}
	})
}

// A page is never larger than it may be, and what looks like a pattern is text:
// no filter makes matching cost more than looking at each tool once.
func TestPR17PagesAndFiltersOfAPeer(t *testing.T) {
	list := tools(250)
	for i := range list {
		list[i].Name = strings.Repeat("a", 200) + "b"
	}
	h := profiletest.New(t, newService(t, tooldisc.Options{Tools: list}).Profile())
	for _, size := range []uint32{0, 100, 101, 1 << 31, 1<<32 - 1} {
		if ids, next, fault := page(t, h, tooldisc.ListReq{PageSize: size}); fault != nil || len(ids) != 100 || next == "" {
			t.Errorf("page_size %d: %d tools, next %q, %v", size, len(ids), next, fault)
		}
	}
	for _, filter := range []string{
		"(a+)+$", "(a|a)*c", "^(([a-z])+.)+[A-Z]([a-z])+$", ".*.*.*.*.*x", "*", strings.Repeat("*", 256), strings.Repeat("a*", 128),
		strings.Repeat("(", 256), strings.Repeat("a", 201), strings.Repeat("a", 199) + "c", `%`, `_`, "' OR 1=1 --", "\x00", "\r\n\x00",
	} {
		if ids, next, fault := page(t, h, tooldisc.ListReq{Filter: []byte(filter)}); fault != nil || len(ids) != 0 || next != "" {
			t.Errorf("filter %.20q: %d tools, next %q, %v", filter, len(ids), next, fault)
		}
	}
	if _, _, fault := page(t, h, tooldisc.ListReq{Filter: make([]byte, tooldisc.MaxFilter+1)}); fault == nil || fault.Code != profiles.InvalidProfilePayload {
		t.Errorf("a filter that is too long: %v", fault)
	}
}

// Matching is linear in the filter and in what it is held against.
func BenchmarkPR17Filter(b *testing.B) {
	list := tools(10_000)
	for i := range list {
		list[i].Name = strings.Repeat("a", 200) + "b"
	}
	h := profiletest.New(b, newService(b, tooldisc.Options{Tools: list}).Profile())
	for name, filter := range map[string]string{"common": "tool", "pathological": strings.Repeat("a", 199) + "c", "none": "zzz"} {
		payload := listReq(tooldisc.ListReq{Filter: []byte(filter)})
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				h.Serve(tooldisc.TypeListReq, payload).Wait()
			}
		})
	}
}
