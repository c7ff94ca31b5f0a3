package config

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// files of keys and the like, by key: whether they have secrets, and a configuration that
// names such a file.
var keyFiles = map[string]struct {
	secret bool
	yaml   string
}{
	"identity.key":               {true, "identity: {cert: a.crt, key: FILE}\ntrust: {ca: [ca.crt]}\n"},
	"http.tls.key":               {true, valid + "http: {address: '127.0.0.1:0', anonymous: guest, tls: {cert: a.crt, key: FILE}}\n"},
	"metrics.tls.key":            {true, "metrics: {address: '127.0.0.1:0', tokens: [" + strings.Repeat("ab", 32) + "], tls: {cert: a.crt, key: FILE}}\n"},
	"metrics.tokens":             {false, "metrics: {address: '127.0.0.1:0', tokens: [" + strings.Repeat("ab", 32) + "], tls: {cert: a.crt, key: a.key}}\n"}, // digests
	"mcp.servers.*.headers_from": {true, valid + "mcp: {servers: {web: {url: 'http://127.0.0.1:1/', headers_from: {X-Key: FILE}}}}\n"},
	"sdl.keys":                   {true, valid + "sdl: {agent_id: a, keys: FILE}\n"},
	"sdl.sign.key":               {true, valid + "sdl: {agent_id: a, sign: {key: FILE, kid: k}}\n"},
	"sdl.trust.key":              {false, valid + "sdl: {agent_id: a, keys: a.key, trust: {key: FILE}}\n"},                 // public
	"cred.issuers.keys":          {false, valid + "cred: {issuers: [{issuer: i, keys: FILE}]}\n"},                          // public
	"cred.opaque":                {false, valid + "cred: {opaque: FILE}\n"},                                                // digests
	"admin.actions.*.tokens":     {false, valid + "admin: {actions: {a: {tokens: [" + strings.Repeat("ab", 32) + "]}}}\n"}, // no file, and digests
	"http.callers.*.tokens":      {false, valid + "http: {callers: {a: {tokens: [" + strings.Repeat("ab", 32) + "]}}}\n"},  // no file, and digests
}

func TestOP20FilesWithSecretsThatEveryUserCanReachAreRefused(t *testing.T) {
	d := dir(t)
	for key, c := range keyFiles {
		for mode, refused := range map[os.FileMode]bool{0o600: false, 0o640: false, 0o644: c.secret, 0o601: c.secret} {
			if err := os.Chmod(filepath.Join(d, "open.key"), mode); err != nil {
				t.Fatal(err)
			}
			_, err := load(t, d, strings.ReplaceAll(c.yaml, "FILE", "open.key"))
			if refused && (err == nil || !strings.Contains(err.Error(), strings.ReplaceAll(key, "*", "web")) || !strings.Contains(err.Error(), "so every user can reach the secret in it; run: chmod 600 ")) {
				t.Errorf("%s of mode %04o: %v", key, mode, err)
			} else if !refused && err != nil {
				t.Errorf("%s of mode %04o: %v", key, mode, err)
			}
		}
	}
}

// A new key for keys, tokens and the like needs a row in keyFiles.
func TestOP20EveryKeyForSecretsIsJudged(t *testing.T) {
	var found []string
	var look func(typ reflect.Type, at string)
	look = func(typ reflect.Type, at string) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array:
			look(typ.Elem(), at)
		case reflect.Map:
			look(typ.Elem(), at+".*")
		case reflect.Struct:
			for i := range typ.NumField() {
				f := typ.Field(i)
				name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
				if name == "" || name == "-" {
					continue
				}
				key := strings.TrimPrefix(at+"."+name, ".")
				if slices.ContainsFunc([]string{"key", "secret", "token", "password", "opaque", "headers_from", "credential"}, func(word string) bool { return strings.Contains(name, word) }) && f.Type.Kind() != reflect.Struct {
					found = append(found, key)
				}
				look(f.Type, key)
			}
		}
	}
	look(reflect.TypeFor[Config](), "")
	slices.Sort(found)
	if want := slices.Sorted(maps.Keys(keyFiles)); !slices.Equal(found, want) {
		t.Errorf("keys %q, want %q", found, want)
	}
}
