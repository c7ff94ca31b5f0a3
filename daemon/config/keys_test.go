package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestChangedNamesFieldsAndEntries(t *testing.T) {
	old := Default()
	old.MCP.Servers = map[string]MCPServer{"same": {Command: "a"}, "changed": {Command: "a"}, "gone": {Command: "a"}}
	now := Default()
	now.MCP.Servers = map[string]MCPServer{"same": {Command: "a"}, "changed": {Command: "b"}, "new": {Command: "a"}}
	now.Limits.InFlight, now.Trust.CA, now.Admin.Address, now.HTTP.A2A.Default = 7, []string{"ca.crt"}, "off", "x"
	now.Listeners = now.Listeners[:1]
	now.Access.Deny = Denials{} // as good as none
	now.Source = "elsewhere"
	want := []string{
		"admin.address", "http.a2a.default", "limits.in_flight", "listeners",
		"mcp.servers.changed", "mcp.servers.gone", "mcp.servers.new", "trust.ca",
	}
	if got := Changed(old, now); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Changed(old, old); len(got) != 0 {
		t.Errorf("of the same: %q", got)
	}
	now = Default()
	now.Access.Named = List{"spiffe://b.example/swpd"} // from partners, and in force with access
	if got := Changed(Default(), now); !slices.Equal(got, []string{"access"}) {
		t.Errorf("with a partner that rules have to name: %q", got)
	}
}

func TestWithTakesKeysAndLeavesTheRest(t *testing.T) {
	old, now := Default(), Default()
	now.Trust.CA, now.Limits.InFlight, now.Limits.Body = []string{"ca.crt"}, 7, 8
	merged := old.With(now, "trust", "limits.in_flight")
	if got := Changed(old, merged); !slices.Equal(got, []string{"limits.in_flight", "trust.ca"}) {
		t.Errorf("taken: %q", got)
	}
	if got := Changed(merged, now); !slices.Equal(got, []string{"limits.body"}) {
		t.Errorf("left: %q", got)
	}
	if got := Changed(old, Default()); len(got) != 0 {
		t.Errorf("the configuration itself has changed: %q", got)
	}
}

// What Changed does not see nobody would be told of.
func TestChangedSeesEveryKey(t *testing.T) {
	n := 0
	for name, change := range leaves(reflect.TypeFor[Config](), "") {
		now := Default()
		change(reflect.ValueOf(now).Elem())
		got := Changed(Default(), now)
		if len(got) != 1 || !strings.HasPrefix(name, got[0]) {
			t.Errorf("%s: %q", name, got)
		}
		n++
	}
	if n < 100 {
		t.Errorf("only %d keys were found", n)
	}
}

// leaves yields each key of a type, down to the fields of entries, with what gives it
// another value.
func leaves(t reflect.Type, at string) func(yield func(string, func(reflect.Value)) bool) {
	return func(yield func(string, func(reflect.Value)) bool) {
		switch {
		case hasKeys(t):
			for name, i := range fieldsOf(t) {
				for key, change := range leaves(t.Field(i).Type, join(at, name)) {
					if !yield(key, func(v reflect.Value) { change(v.Field(i)) }) {
						return
					}
				}
			}
		case t.Kind() == reflect.Map && hasKeys(t.Elem()):
			for key, change := range leaves(t.Elem(), at+".entry") {
				if !yield(key, func(v reflect.Value) {
					element := reflect.New(t.Elem()).Elem()
					change(element)
					v.Set(reflect.MakeMap(t))
					v.SetMapIndex(reflect.ValueOf("entry"), element)
				}) {
					return
				}
			}
		default:
			yield(at, another)
		}
	}
}

// another gives a value one that it has not.
func another(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Float64:
		v.SetFloat(v.Float() + 1)
	case reflect.Slice:
		v.Set(reflect.Append(v, reflect.New(v.Type().Elem()).Elem()))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("entry"), reflect.New(v.Type().Elem()).Elem())
	case reflect.Struct:
		v.Set(reflect.ValueOf(Date{time.Unix(1, 0)}))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	default:
		panic("a key of kind " + v.Kind().String())
	}
}
