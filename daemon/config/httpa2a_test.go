package config

import (
	"strings"
	"testing"
)

func TestTheFrontForA2AIsChecked(t *testing.T) {
	for yaml, want := range map[string]string{
		"http: {url: gateway.example.org}\n":                 "http.url: ",
		"http: {url: 'https://gateway.example.org/'}\n":      "http.url: ",
		"http: {url: 'ftp://gateway.example.org'}\n":         "http.url: ",
		"http: {a2a: {card: original}}\n":                    `http.a2a.card: is "original", want front, verbatim`,
		"http: {a2a: {parameters: [X-Ok, Authorization]}}\n": `http.a2a.parameters[1]: "Authorization": that header stays at this front`,
		"http: {a2a: {parameters: ['a b']}}\n":               `http.a2a.parameters[0]: "a b": not a name of a header`,
	} {
		_, err := load(t, dir(t), yaml)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", yaml, err, want)
		}
	}
	c, err := load(t, dir(t), "http: {url: 'https://gateway.example.org:8443', a2a: {default: acme/billing, card: verbatim, parameters: [X-Trip]}}\n")
	if err != nil || c.HTTP.A2A.Card != CardVerbatim {
		t.Errorf("%+v, %v", c, err)
	}
}
