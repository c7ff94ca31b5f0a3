package daemon

import (
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/part"
)

// visitKeys changes each key of a configuration, has look look at it, and changes it back.
func visitKeys(t *testing.T, at string, v reflect.Value, look func(key string)) {
	t.Helper()
	for i := range v.NumField() {
		field, tag := v.Field(i), v.Type().Field(i).Tag.Get("yaml")
		key := strings.TrimPrefix(at+"."+tag, ".")
		if tag == "-" {
			continue
		}
		old := reflect.ValueOf(field.Interface())
		switch field.Kind() {
		case reflect.Struct:
			visitKeys(t, key, field, look)
			continue
		case reflect.String:
			field.SetString(field.String() + "x")
		case reflect.Bool:
			field.SetBool(!field.Bool())
		case reflect.Int, reflect.Int64:
			field.SetInt(field.Int() + 1)
		case reflect.Pointer:
			field.Set(reflect.New(field.Type().Elem()))
		case reflect.Slice:
			field.Set(reflect.Append(field, reflect.New(field.Type().Elem()).Elem()))
		case reflect.Map:
			field.Set(reflect.MakeMap(field.Type()))
			field.SetMapIndex(reflect.ValueOf("x").Convert(field.Type().Key()), reflect.New(field.Type().Elem()).Elem())
		default:
			t.Fatalf("%s is of kind %s", key, field.Kind())
		}
		look(key)
		field.Set(old)
	}
}

// Whoever adds a key is told here if neither is true of it.
func TestEveryKeyIsTakenUpByOneSectionOrNamed(t *testing.T) {
	started := config.Default()
	started.Identity = config.Identity{Cert: "a", Key: "b"}
	now := *started
	n, waiters := 0, make(map[string]bool)
	visitKeys(t, "", reflect.ValueOf(&now).Elem(), func(key string) {
		n++
		r := newReloader(started, nil, new(daemon).sections(), zap.NewNop())
		r.latest = &now
		waits := r.wait()
		var by []string
		for _, s := range r.sections {
			if s.fitting(started, &now) && len(config.Changed(started, started.With(&now, s.Keys...))) > 0 {
				by = append(by, s.Name)
			}
		}
		if len(by)+len(waits) != 1 {
			t.Errorf("%s is taken up by %q and waits as %q, want one of both", key, by, waits)
		}
		for _, waiting := range waits {
			if !strings.HasPrefix(waiting, key) {
				t.Errorf("%s waits as %s", key, waiting)
			}
			if r.reason(waiting) == "" {
				t.Errorf("%s waits without a reason", waiting)
			}
			waiters[key] = true
		}
	})
	if n < 80 {
		t.Errorf("only %d keys were found", n)
	}
	for _, one := range lasting {
		if !waiters[one.key] {
			t.Errorf("%s is said to wait, and does not", one.key)
		}
	}
}

func TestKeysThatAreTakenUpOrWaitAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(text), "## What takes effect without a restart")
	if !ok {
		t.Fatal("docs/configuration.md does not say what takes effect without a restart")
	}
	for _, s := range new(daemon).sections() {
		for _, key := range s.Keys {
			if !strings.Contains(table, "`"+key+"`") {
				t.Errorf("docs/configuration.md does not say that %s is taken up", key)
			}
		}
	}
	_, rest, ok := strings.Cut(table, "Everything else takes effect at the next start")
	rest, _, _ = strings.Cut(rest, "\n#")
	if !ok {
		t.Fatal("docs/configuration.md does not say what takes effect at the next start")
	}
	for _, one := range lasting {
		if !strings.Contains(rest, "`"+one.key+"`") {
			t.Errorf("docs/configuration.md does not say that %s waits", one.key)
		}
	}
}

// reloading is a reloader whose sections do nothing but note that they were taken.
func reloading(old, now *config.Config, refused map[string]error) (r *reloader, taken *[]string) {
	taken = new([]string)
	sections := new(daemon).sections()
	for i := range sections {
		s := &sections[i]
		s.Files = nil
		s.Prepare = func(*config.Config) (part.Change, error) {
			return part.Change{Commit: func() bool {
				*taken = append(*taken, s.Name)
				return false
			}}, refused[s.Name]
		}
	}
	r = newReloader(old, nil, sections, zap.NewNop())
	r.identity, r.latest = func() string { return "spiffe://a.example/swpd" }, now
	return r, taken
}

// The file fits together. What is in force must do so, too, whichever of its sections
// cannot be used.
func TestSectionsThatDoNotFitTogetherAreRefused(t *testing.T) {
	server := func(names ...string) map[string]config.MCPServer {
		of := make(map[string]config.MCPServer)
		for _, name := range names {
			of[name] = config.MCPServer{Command: "/bin/cat"}
		}
		return of
	}
	partner := func(name string) config.Partners { return config.Partners{name: {Identity: "spiffe://b.example/swpd"}} }
	old, now := config.Default(), config.Default()
	old.MCP.Servers, old.Partners = server("x"), partner("y")
	now.MCP.Servers, now.Partners = server("y"), partner("x") // they swap their names
	for name, tt := range map[string]struct {
		refused string
		taken   []string
		says    []string
	}{
		"both can be used": {"", []string{"mcp servers", "partners"}, nil},
		"the servers cannot": {"mcp servers", nil, []string{
			"mcp servers not reloaded, the old ones stay: no",
			"partners not reloaded, the old ones stay: partners.x: has the name of mcp.servers.x; rules could not tell one from the other, so rename one",
		}},
		"the partners cannot": {"partners", nil, []string{
			"mcp servers not reloaded, the old ones stay: partners.y: has the name of mcp.servers.y; rules could not tell one from the other, so rename one",
			"partners not reloaded, the old ones stay: no",
		}},
	} {
		refused := map[string]error{}
		if tt.refused != "" {
			refused[tt.refused] = errors.New("no")
		}
		r, taken := reloading(old, now, refused)
		answer := r.reload(false)
		if !slices.Equal(*taken, tt.taken) || !slices.Equal(warnings(r), tt.says) || len(answer.Problems) != len(tt.says) || len(answer.Later) > 0 {
			t.Errorf("%s: taken %q, warnings %q, answer %+v", name, *taken, warnings(r), answer)
		}
		if tt.refused == "" {
			continue
		}
		delete(refused, tt.refused) // tried again without being asked
		if r.reload(false); !slices.Equal(*taken, []string{"mcp servers", "partners"}) || len(warnings(r)) > 0 {
			t.Errorf("%s, then mended: taken %q, warnings %q", name, *taken, warnings(r))
		}
	}
}

func TestANewIdentityIsNotThatOfAPartner(t *testing.T) {
	old, now := config.Default(), config.Default()
	old.Identity, now.Identity = config.Identity{Cert: "a", Key: "a"}, config.Identity{Cert: "b", Key: "b"}
	old.Partners = config.Partners{"b": {Identity: "spiffe://b.example/swpd"}}
	now.Partners, now.Access.Deny = old.Partners, config.Denials{{Identity: config.List{"x"}}}
	r, taken := reloading(old, now, nil)
	if answer := r.reload(false); !slices.Equal(answer.Changed, []string{"access.deny", "identity.cert", "identity.key"}) {
		t.Errorf("without a clash: %+v", answer)
	}
	r, taken = reloading(old, now, nil)
	for _, s := range r.sections {
		if s.Name == "certificates" {
			s.Prepare = func(*config.Config) (part.Change, error) {
				return part.Change{Identity: "spiffe://b.example/swpd", Commit: func() bool { panic("taken") }}, nil
			}
		}
	}
	answer := r.reload(false)
	if !slices.Equal(*taken, []string{"access rules"}) || len(answer.Problems) != 1 || !strings.Contains(answer.Problems[0], "is the identity of this endpoint") {
		t.Errorf("taken %q, answer %+v", *taken, answer)
	}
}

func TestKeysThatWaitAreNamedUntilTheyAreAsTheyWere(t *testing.T) {
	r := start(t, "durability: power\n")
	r.rewrite("durability: power", "durability: process")
	for range 2 {
		if _, body := r.post(); body != `{"changed":[],"problems":[],"later":["durability"],"reasons":{"durability":"the store is opened at the start"}}`+"\n" {
			t.Errorf("answer %s", body)
		}
	}
	if status, body := r.get("/readyz"); status != 200 || body != "ready\nwarning: changed since the start, in force at the next start: durability\n" {
		t.Errorf("/readyz says %d %q", status, body)
	}
	r.awaitTimes(1, `"msg":"changes of the configuration that take effect at the next start","keys":"durability"`)
	r.rewrite("durability: process", "durability: power")
	if _, body := r.post(); body != `{"changed":[],"problems":[],"later":[]}`+"\n" {
		t.Errorf("answer %s", body)
	}
	if _, body := r.get("/readyz"); body != "ready\n" {
		t.Errorf("/readyz says %q", body)
	}
}

func warnings(r *reloader) []string {
	var h Health
	r.Look(&h)
	return h.Warnings
}
