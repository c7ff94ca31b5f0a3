package config

import (
	"strings"
	"testing"
)

func TestAPartnerHasAnIdentityThatACertificateCanSay(t *testing.T) {
	for identity, want := range map[string]string{
		"spiffe://b.example/swpd": "",
		"b.example":               "",
		"":                        "partners.b.identity: missing",
		"http:ide":                `partners.b.identity: "http:ide" is what callers over HTTP are called`,
		"http:":                   `partners.b.identity: "http:" is not what a certificate says`,
		"http://b.example":        "",
		"team:desk":               `partners.b.identity: "team:desk" is what teams of this endpoint are called`,
		"spiffe://b.example/*":    `partners.b.identity: "spiffe://b.example/*" is not what a certificate says`,
		"spiffe://B.example/swpd": `partners.b.identity: "spiffe://B.example/swpd" is not what a certificate says`,
		"B.example":               `partners.b.identity: "B.example" is not what a certificate says`,
		"a b":                     `partners.b.identity: "a b" is not what a certificate says`,
	} {
		_, err := load(t, dir(t), "partners: {b: {identity: '"+identity+"'}}\n")
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %s", identity, err, want)
		}
	}
}

func TestAPartnerHasNoNameThatBeginsOtherNames(t *testing.T) {
	for name, refused := range map[string]bool{"a2a": true, "slip": true, "sdl": true, "swp": true, "a2a-org": false, "acme": false} {
		_, err := load(t, dir(t), "partners: {"+name+": {identity: spiffe://b.example/swpd}}\n")
		if refused != (err != nil) || err != nil && !strings.Contains(err.Error(), "partners."+name+": \""+name+"\" begins names of another meaning") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheQueueOfAPartnerTakesADelivery(t *testing.T) {
	for queue, want := range map[string]string{
		"":                         "",
		"size: 2KiB, messages: 1":  "",
		"size: 2047":               "partners.b.queue.size: is 2047, want at least 2KiB: one delivery of relay.max_payload",
		"messages: 0":              "partners.b.queue.messages: is 0, want 1 to 1073741824",
		"messages: 1073741825":     "partners.b.queue.messages: is 1073741825, want 1 to 1073741824",
		"messages: 1073741824":     "",
		"size: many":               "partners.b.queue.size: ",
		"octets: 1":                "partners.b.queue.octets: unknown key",
		"messages: 1, size: 10TiB": "",
	} {
		_, err := load(t, dir(t), "relay: {max_payload: 1KiB}\npartners: {b: {identity: spiffe://b.example/swpd, queue: {"+queue+"}}}\n")
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %s", queue, err, want)
		}
	}
}
