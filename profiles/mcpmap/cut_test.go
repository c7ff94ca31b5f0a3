package mcpmap

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/slimwire/swp/internal/bridge/mcptest"
	"github.com/slimwire/swp/internal/effort"
)

// list of tools, of which those that begin with "x" are to go.
func withoutX(t testing.TB, response string) (string, bool) {
	t.Helper()
	in := []byte(response)
	out, fault := cutList(in, "tools", "name", func(name, _ []byte) bool { return !bytes.HasPrefix(name, []byte("x")) })
	if fault != nil {
		return "", false
	}
	if string(in) != response {
		t.Errorf("the response was written into: %s", in)
	}
	if string(out) == response && len(out) > 0 && &out[0] != &in[0] {
		t.Errorf("%.60s: nothing was cut, and yet it is a copy", response)
	}
	return string(out), true
}

func TestCutListTakesWholeElementsAndLeavesTheRest(t *testing.T) {
	const scope = `,"cacheScope":"private"`
	for _, tt := range []struct{ name, in, want string }{
		{"nothing", `[{"name":"a"},{"name":"b"}]`, ""},
		{"the first", `[{"name":"x"},{"name":"b"}]`, `[{"name":"b"}]` + scope},
		{"the last", `[{"name":"a"},{"name":"x"}]`, `[{"name":"a"}]` + scope},
		{"in the middle", `[{"name":"a"},{"name":"x"},{"name":"b"}]`, `[{"name":"a"},{"name":"b"}]` + scope},
		{"several", `[{"name":"x"},{"name":"x1"},{"name":"b"},{"name":"x2"},{"name":"x3"},{"name":"c"},{"name":"x"}]`, `[{"name":"b"},{"name":"c"}]` + scope},
		{"all", `[{"name":"x"},{"name":"x"}]`, `[]` + scope},
		{"the only one", `[{"name":"x"}]`, `[]` + scope},
		{"none there", `[]`, ""},
		{"null", `null`, ""},
		{"white space stays", "[ {\"name\":\"a\"}\t,\n{\"name\":\"x\"} ,\r{\"name\":\"b\"} ]", "[ {\"name\":\"a\"}\t\n ,\r{\"name\":\"b\"} ]" + scope},
		{"numbers stay", `[{"name":"a","n":1.0,"m":9007199254740993,"e":1E400},{"name":"x","n":1.0}]`, `[{"name":"a","n":1.0,"m":9007199254740993,"e":1E400}]` + scope},
		{"cursor stays", `[{"name":"x"}],"nextCursor":"\u0061\/b"`, `[],"nextCursor":"\u0061\/b"` + scope},
		{"name with escapes", `[{"n\u0061me":"\u0078yz"},{"\u006eame":"\u0061"}]`, `[{"\u006eame":"\u0061"}]` + scope},
		{"no name", `[{"title":"a"},{"name":"b"}]`, `[{"name":"b"}]` + scope},
		{"name below", `[{"a":{"name":"b"}},{"name":"b"}]`, `[{"name":"b"}]` + scope},
		{"two names", `[{"name":"a","name":"a"},{"name":"b"}]`, `[{"name":"b"}]` + scope},
		{"two names, one escaped", `[{"name":"x","\u006eame":"a"},{"name":"b"}]`, `[{"name":"b"}]` + scope},
		{"another case", `[{"Name":"a"},{"name":"a","NAME":"x"},{"name":"b"}]`, `[{"name":"b"}]` + scope},
		{"name that is no string", `[{"name":1},{"name":null},{"name":["a"]},{"name":{}},{"name":"b"}]`, `[{"name":"b"}]` + scope},
		{"half a character", `[{"name":"a\ud800"},{"name":"b\ud83d\ude00"}]`, `[{"name":"b\ud83d\ude00"}]` + scope},
		{"no object", `[1,"a",null,[{"name":"a"}],true,{"name":"b"},-0.0]`, `[{"name":"b"}]` + scope},
		{"empty name", `[{"name":""},{"name":"x"}]`, `[{"name":""}]` + scope},
		{"brackets in strings", `[{"name":"a]}","d":"[{\"name\":\"x\"}"},{"name":"x","d":"]}],"}]`, `[{"name":"a]}","d":"[{\"name\":\"x\"}"}]` + scope},
		{"escaped member", `null,"\u0063acheScope":"public"`, ""},
		{"public", `[{"name":"x"}],"cacheScope" : "public" `, `[],"cacheScope" : "private" `},
		{"public, untouched", `[{"name":"a"}],"cacheScope":"public"`, ""},
		{"private already", `[{"name":"x"}],"cacheScope":"priv\u0061te"`, `[],"cacheScope":"priv\u0061te"`},
		{"scope of another kind", `[{"name":"x"}],"cacheScope":{"a":1}`, `[],"cacheScope":"private"`},
		{"scope in another case", `[{"name":"x"}],"CacheScope":"public"`, `[],"CacheScope":"private"` + scope},
		{"two scopes", `[{"name":"x"}],"cacheScope":"private","cacheScope":"public"`, `[],"cacheScope":"private","cacheScope":"private"`},
		{"other members", `[{"name":"x"}],"_meta":{"tools":[{"name":"x"}]},"y":1.50,"y":2`, `[],"_meta":{"tools":[{"name":"x"}]},"y":1.50,"y":2` + scope},
	} {
		for form, around := range map[string][2]string{
			"first member": {`{"jsonrpc":"2.0","id":9007199254740993,"result":{"tools":`, `}}`},
			"escaped":      {`{"id":1.0, "r\u0065sult" : {"t\u006fols":`, `},"jsonrpc":"2.0","z":[1.0]}`},
			"later member": {` {"result":{"ttlMs":1e3,"resultType":"complete", "tools" :` + "\t", `} ,"id":"\u0061","jsonrpc":"2.0"}` + "\n"},
		} {
			in := around[0] + tt.in + around[1]
			want := in
			if tt.want != "" {
				want = around[0] + tt.want + around[1]
			}
			if got, ok := withoutX(t, in); !ok || got != want {
				t.Errorf("%s, %s: %v\n got %s\nwant %s", tt.name, form, ok, got, want)
			}
		}
	}
	// What is before the list is known only when the list has been read.
	in := `{"jsonrpc":"2.0","id":1,"result":{"cacheScope":"public","CACHESCOPE":1,"tools":[{"name":"x"}]}}`
	want := `{"jsonrpc":"2.0","id":1,"result":{"cacheScope":"private","CACHESCOPE":"private","tools":[]}}`
	if got, _ := withoutX(t, in); got != want {
		t.Errorf("scopes before the list: %s", got)
	}
}

func TestCutListRefusesWhatCouldBeReadInSeveralWays(t *testing.T) {
	for _, result := range []string{
		`1`, `"a"`, `null`, `[]`, `[{"name":"a"}]`,
		`{"tools":{}}`, `{"tools":"a"}`, `{"tools":1}`, `{"tools":{"a":{"name":"x"}}}`,
		`{"tools":[],"tools":[]}`, `{"tools":[],"\u0074ools":[{"name":"a"}]}`, `{"tools":null,"tools":[]}`,
		`{"Tools":[]}`, `{"tools":[],"TOOLS":[{"name":"x"}]}`, `{"tool\u017f":[]}`,
	} {
		if got, ok := withoutX(t, `{"jsonrpc":"2.0","id":1,"result":`+result+`}`); ok {
			t.Errorf("%s: %s", result, got)
		}
	}
	for _, response := range []string{
		"", "{", `[]`, `{"jsonrpc":"2.0","id":1}`, `{"jsonrpc":"2.0","id":1,"result":{},"error":{}}`, `{"jsonrpc":"2.0","id":1,"result":{},"result":{}}`,
		`{"jsonrpc":"2.0","id":1,"Result":{"tools":[{"name":"x"}]},"error":{}}`, `{"jsonrpc":"2.0","id":null,"result":{}}`, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":\"\xff\"}}",
	} {
		if got, ok := withoutX(t, response); ok {
			t.Errorf("%s: %s", response, got)
		}
	}
}

// The corpus shows nothing, so whatever its objects are like they stay what they are.
func TestCutListLeavesTheCorpus(t *testing.T) {
	for name, r := range mcptest.Responses {
		var m Message
		if err := m.Scan([]byte(r.Octets)); err != nil {
			t.Fatal(err)
		}
		readable := m.Check(Response) == nil && (m.Result() == nil || m.Result()[0] == '{')
		got, ok := withoutX(t, r.Octets)
		if ok != readable || ok && got != r.Octets {
			t.Errorf("%s: %v, want %v\n%.200s", name, ok, readable, got)
		}
	}
}

// spaced writes a JSON value with white space, escapes and forms of numbers that no
// encoder would write.
type spaced struct {
	*rand.Rand
	bytes.Buffer
}

func (s *spaced) space() {
	for range s.IntN(3) {
		s.WriteString([]string{" ", "\t", "\n", "\r"}[s.IntN(4)])
	}
}

func (s *spaced) text(v string) {
	s.WriteByte('"')
	for _, c := range []byte(v) {
		if s.IntN(4) == 0 {
			s.WriteString(`\u00` + string("0123456789abcdef"[c>>4]) + string("0123456789ABCDEF"[c&15]))
			continue
		}
		s.WriteByte(c)
	}
	s.WriteByte('"')
}

func (s *spaced) choose(list ...string) string { return list[s.IntN(len(list))] }

// element writes an element, and returns what is to become of it.
func (s *spaced) element() (keep bool) {
	switch s.IntN(8) {
	case 0:
		s.WriteString(s.choose(`1`, `null`, `"a"`, `[{"name":"a"}]`, `{}`, `{"title":"a"}`, `{"name":"a","n\u0061me":"a"}`, `{"name":"a","Name":"a"}`, `{"name":7}`))
		return false
	}
	name := s.choose("a", "b", "x", "xa", "ax")
	s.WriteByte('{')
	s.space()
	if s.IntN(2) == 0 {
		s.WriteString(s.choose(`"d":[1.0,{"name":"x"}],`, `"\ud83d\ude00":"],}",`, `"name2":{"name":"x"} ,`, `"e":-0.0E+0,"e":1,`))
		s.space()
	}
	s.text("name")
	s.space()
	s.WriteByte(':')
	s.space()
	s.text(name)
	s.space()
	s.WriteByte('}')
	return name[0] != 'x'
}

// parsed returns the elements of result.tools and everything else.
func parsed(t testing.TB, response string) (tools []json.RawMessage, rest map[string]json.RawMessage) {
	t.Helper()
	var m struct {
		Result map[string]json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal([]byte(response), &m); err != nil {
		t.Fatalf("%v: %s", err, response)
	}
	if err := json.Unmarshal(m.Result["tools"], &tools); err != nil {
		t.Fatalf("%v: %s", err, response)
	}
	delete(m.Result, "tools")
	return tools, m.Result
}

// Cutting the octets and reading what is left comes to the same as reading all and
// leaving elements out; and the octets around them are the same.
func TestCuttingThenReadingIsReadingThenCutting(t *testing.T) {
	for seed := range uint64(effort.Rounds(1000)) {
		s := &spaced{Rand: rand.New(rand.NewPCG(seed, 1))}
		keep := []bool{}
		gaps := [2]string{} // what is before and after the list
		s.WriteString(`{"jsonrpc":"2.0",`)
		s.space()
		s.WriteString(`"id":` + s.choose("1", "1.0", "9007199254740993", `"\u0061"`) + `,"result":{`)
		scope := s.IntN(3)
		if scope == 1 {
			s.WriteString(`"cacheScope":"private",`)
		}
		s.text("tools")
		s.WriteString(`:[`)
		gaps[0] = s.String()
		s.space()
		for i := range s.IntN(7) {
			if i > 0 {
				s.space()
				s.WriteByte(',')
				s.space()
			}
			keep = append(keep, s.element())
		}
		s.space()
		from := s.Len()
		s.WriteString(`]`)
		s.WriteString(s.choose("", `,"nextCursor":"\u0061"`, `,"y":1.50 `))
		end := s.Len()
		if scope == 2 {
			s.WriteString(`,"cacheScope":"private"`)
		}
		s.WriteString(`}}`)
		gaps[1] = s.String()[from:]
		in := s.String()
		got, ok := withoutX(t, in)
		if !ok {
			t.Fatalf("seed %d: refused: %s", seed, in)
		}
		all, rest := parsed(t, in)
		want := all[:0:0]
		for i, element := range all {
			if keep[i] {
				want = append(want, element)
			}
		}
		left, around := parsed(t, got)
		if len(want) == len(all) {
			if got != in {
				t.Fatalf("seed %d: nothing was to go\n in %s\ngot %s", seed, in, got)
			}
			continue
		}
		if scope == 0 {
			gaps[1] = in[from:end] + `,"cacheScope":"private"}}`
			rest["cacheScope"] = json.RawMessage(`"private"`)
		}
		if len(left) != len(want) || len(left) > 0 && !reflect.DeepEqual(left, want) || !reflect.DeepEqual(around, rest) {
			t.Fatalf("seed %d:\n  in %s\n got %s\nwant %s", seed, in, got, want)
		}
		if !strings.HasPrefix(got, gaps[0]) || !strings.HasSuffix(got, gaps[1]) {
			t.Fatalf("seed %d: the octets around the list:\n in %s\ngot %s", seed, in, got)
		}
	}
}

// Whatever a server answers, what is left is a response that shows nothing that was to
// go, and whose members other than the list and its scope are as they were.
func FuzzCutList(f *testing.F) {
	for _, r := range mcptest.Responses {
		f.Add([]byte(r.Octets))
	}
	for _, list := range []string{`[{"name":"a"},{"name":"x"}]`, `[ {"name":"x"} , 1,{"n\u0061me":"b"}]`, `null`, `[{}]`} {
		f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":` + list + `}}`))
		f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{"cacheScope":"public", "tools":` + list + `,"cacheScope":1}}`))
	}
	f.Fuzz(func(t *testing.T, response []byte) {
		got, ok := withoutX(t, string(response))
		if !ok || got == string(response) {
			return
		}
		var m Message
		if err := m.Scan([]byte(got)); err != nil || m.Check(Response) != nil {
			t.Fatalf("%q became %q: %v", response, got, err)
		}
		again, ok := withoutX(t, got)
		if !ok || again != got {
			t.Fatalf("%q is cut to %q, and that to %q", response, got, again)
		}
		before, rest := parsed(t, string(response))
		after, around := parsed(t, got)
		if len(after) >= len(before) && len(before) > 0 {
			t.Fatalf("%q: %d elements of %d are left", response, len(after), len(before))
		}
		if string(around["cacheScope"]) != private {
			var text string
			if json.Unmarshal(around["cacheScope"], &text) != nil || text != "private" {
				t.Fatalf("%q: cacheScope %s", got, around["cacheScope"])
			}
		}
		for _, members := range []map[string]json.RawMessage{rest, around} {
			for name := range members {
				if strings.EqualFold(name, "cacheScope") {
					delete(members, name)
				}
			}
		}
		if !reflect.DeepEqual(rest, around) {
			t.Fatalf("%q became %q", response, got)
		}
	})
}

func TestCutListCostsLittle(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"t"}`)
	for range 500 {
		b.WriteString(`,{"name":"tool","inputSchema":{"type":"object"}}`)
	}
	b.WriteString(`]}}`)
	response := []byte(b.String())
	n := testing.AllocsPerRun(20, func() {
		out, fault := cutList(response, "tools", "name", func(_, _ []byte) bool { return true })
		if fault != nil || &out[0] != &response[0] {
			t.Fail()
		}
	})
	if n > 20 {
		t.Errorf("%v allocations for 501 tools that stay, want a few", n)
	}
}
