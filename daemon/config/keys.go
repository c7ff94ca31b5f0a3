package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Changed returns the keys in which two configurations differ, sorted: each down to the
// field, or to the entry of a map of sections, such as limits.in_flight and
// mcp.servers.files. A list is one key.
func Changed(old, now *Config) []string {
	return changed("", reflect.ValueOf(old).Elem(), reflect.ValueOf(now).Elem())
}

func changed(at string, old, now reflect.Value) (keys []string) {
	switch {
	case reflect.DeepEqual(old.Interface(), now.Interface()) || empty(old) && empty(now):
		return nil
	case hasKeys(old.Type()):
		fields := fieldsOf(old.Type())
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			keys = append(keys, changed(join(at, name), old.Field(fields[name]), now.Field(fields[name]))...)
		}
		for i := range old.NumField() {
			if a, b := old.Field(i), now.Field(i); at != "" && len(keys) == 0 && old.Type().Field(i).Tag.Get("yaml") == "-" && len(changed(at, a, b)) > 0 {
				return []string{at} // it follows from keys of another section
			}
		}
		return keys
	case old.Kind() == reflect.Map && hasKeys(old.Type().Elem()):
		return changedEntries(at, old, now)
	}
	return []string{at}
}

// changedEntries returns the entries in which two maps differ, sorted.
func changedEntries(at string, old, now reflect.Value) (keys []string) {
	for _, name := range slices.Concat(old.MapKeys(), now.MapKeys()) {
		a, b := old.MapIndex(name), now.MapIndex(name)
		if !a.IsValid() || !b.IsValid() || !reflect.DeepEqual(a.Interface(), b.Interface()) {
			keys = append(keys, join(at, name.String()))
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// Added returns the keys of Changed that are entries of maps of now only. With the
// configurations the other way round these are the removed entries.
func Added(old, now *Config) []string {
	return added("", reflect.ValueOf(old).Elem(), reflect.ValueOf(now).Elem())
}

func added(at string, old, now reflect.Value) (keys []string) {
	switch {
	case hasKeys(old.Type()):
		fields := fieldsOf(old.Type())
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			keys = append(keys, added(join(at, name), old.Field(fields[name]), now.Field(fields[name]))...)
		}
	case old.Kind() == reflect.Map && hasKeys(old.Type().Elem()):
		for _, name := range now.MapKeys() {
			if !old.MapIndex(name).IsValid() {
				keys = append(keys, join(at, name.String()))
			}
		}
		slices.Sort(keys)
	}
	return keys
}

// empty reports whether a value is a list or a map without elements: left out and
// written as empty are the same.
func empty(v reflect.Value) bool {
	return (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0
}

// hasKeys reports whether a type is a struct whose fields are keys.
func hasKeys(t reflect.Type) bool { return t.Kind() == reflect.Struct && len(fieldsOf(t)) > 0 }

// With returns a copy in which keys, and the keys below them, have the values of another
// configuration. A key names fields, not an entry of a map. The three configurations
// share values, so none of them may be changed any more.
func (c *Config) With(other *Config, keys ...string) *Config {
	merged := *c
	for _, key := range keys {
		field(&merged, key).Set(field(other, key))
	}
	return &merged
}

// field returns the field of a key. It panics on an unknown key.
func field(c *Config, key string) reflect.Value {
	v := reflect.ValueOf(c).Elem()
	for name := range strings.SplitSeq(key, ".") {
		i, ok := fieldsOf(v.Type())[name]
		if !ok {
			panic("config: there is no key " + key)
		}
		v = v.Field(i)
	}
	return v
}
