package config

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestHTTPIsChecked(t *testing.T) {
	const hash = "f98103e9217f099208569d295c1b276f1821348636c268c854bb2a086e0037cd"
	for name, test := range map[string]struct{ yaml, want string }{
		"address":       {"http: {address: here, anonymous: me}\n", `http.address: "here" is not host:port`},
		"port":          {"http: {address: '127.0.0.1:http', anonymous: me}\n", `http.address: port "http"`},
		"nobody":        {"http: {address: '127.0.0.1:0'}\n", "http.callers: is empty and http.anonymous not set"},
		"that of admin": {"admin: 127.0.0.1:7790\nhttp: {address: '127.0.0.1:7790', anonymous: me}\n", "http.address: 127.0.0.1:7790 is the same tcp port as admin"},
		"plain text":    {"http: {address: '0.0.0.0:7790', callers: {a: {tokens: [" + hash + "]}}}\n", "http.address: 0.0.0.0:7790 can be reached from other machines"},
		"no host":       {"http: {address: '0.0.0.0:7790', callers: {a: {tokens: [" + hash + "]}}}\n", "http.hosts: is empty"},
		"everybody":     {"http: {address: '0.0.0.0:7790', anonymous: me}\n", "http.anonymous: lets everybody in"},
		"anonymous":     {"http: {anonymous: a b}\n", `http.anonymous: "a b" is not a name`},
		"both":          {"http: {anonymous: a, callers: {a: {tokens: [" + hash + "]}}}\n", `http.anonymous: "a" is a caller with tokens`},
		"caller":        {"http: {callers: {a/b: {tokens: [" + hash + "]}}}\n", `http.callers.a/b: "a/b" is not a name`},
		"no token":      {"http: {callers: {a: {tokens: []}}}\n", "http.callers.a: has neither tokens nor certificates"},
		"the token":     {"http: {callers: {a: {tokens: [secret]}}}\n", "http.callers.a.tokens[0]: has 6 characters, want the 64 hexadecimal digits of a SHA-256"},
		"twice":         {"http: {callers: {a: {tokens: [" + hash + "]}, b: {tokens: [" + hash + "]}}}\n", `http.callers.b.tokens[0]: is that of caller "a" too`},
		"origin":        {"http: {origins: ['https://app.example.org/']}\n", `http.origins[0]: "https://app.example.org/" is not an origin`},
		"calls":         {"http: {calls: 0}\n", "http.calls: is 0, want 1 to 1000000"},
		"no authority":  {"http: {callers: {a: {certificates: [a.example]}}}\n", "http.tls.ca: is empty"},
		"wildcard":      {"http: {callers: {a: {certificates: ['*.example']}}}\n", `http.callers.a.certificates[0]: "*.example" is not what a certificate says`},
		"upper case":    {"http: {callers: {a: {certificates: ['spiffe://Example.org/a']}}}\n", `http.callers.a.certificates[0]: "spiffe://Example.org/a" is not what`},
		"no identity":   {"http: {callers: {a: {certificates: ['']}}}\n", `http.callers.a.certificates[0]: "" is not what`},
		"the same":      {"http: {callers: {a: {certificates: [a.example]}, b: {certificates: [a.example]}}}\n", `http.callers.b.certificates[0]: is that of caller "a" too`},
		"ca alone":      {"http: {tls: {ca: [swpd.yaml]}}\n", "http.tls.cert: missing beside http.tls.ca"},
		"ca not there":  {"http: {tls: {ca: [nowhere.pem]}}\n", "http.tls.ca[0]: "},
		"ca empty":      {"http: {tls: {ca: ['']}}\n", "http.tls.ca[0]: is empty"},
		"half a pair":   {"http: {tls: {cert: swpd.yaml}}\n", "http.tls.key: missing beside http.tls.cert"},
	} {
		_, err := load(t, dir(t), test.yaml)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v repeats a token", name, err)
		}
	}
	if _, err := load(t, dir(t), "http: {address: '127.0.0.1:0', anonymous: me, callers: {a: {tokens: ["+hash+"]}}, origins: ['http://localhost:3000']}\n"); err != nil {
		t.Error(err)
	}
	const both = "http: {address: '127.0.0.1:0', tls: {cert: swpd.yaml, key: swpd.yaml, ca: [swpd.yaml]}, " +
		"callers: {a: {tokens: [" + hash + "], certificates: ['spiffe://example.org/a', a.example]}, b: {certificates: [b.example]}}}\n"
	if c, err := load(t, dir(t), both); err != nil {
		t.Error(err)
	} else if !filepath.IsAbs(c.HTTP.TLS.CA[0]) {
		t.Errorf("ca %q", c.HTTP.TLS.CA)
	}
}
