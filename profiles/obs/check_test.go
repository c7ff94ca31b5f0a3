package obs_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/obs"
)

// parent is the example of the W3C recommendation.
const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// badParents are traceparents that are none.
var badParents = map[string]string{
	"one octet short":                    parent[:54],
	"one octet long":                     parent + "0",
	"version 00 that goes on":            parent + "-00",
	"version ff":                         "ff" + parent[2:],
	"upper case version":                 "0A" + parent[2:],
	"version that is no hex":             "0x" + parent[2:],
	"trace-id of zeros":                  "00-00000000000000000000000000000000-b7ad6b7169203331-01",
	"parent-id of zeros":                 "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
	"upper case trace-id":                strings.ToUpper(parent[:35]) + parent[35:],
	"upper case parent-id":               parent[:36] + strings.ToUpper(parent[36:52]) + parent[52:],
	"upper case flags":                   parent[:53] + "0A",
	"trace-id that is no hex":            strings.Replace(parent, "f", "g", 1),
	"parent-id that is no hex":           parent[:51] + "." + parent[52:],
	"flags that are no hex":              parent[:53] + "0 ",
	"other separators":                   strings.ReplaceAll(parent, "-", "_"),
	"separator moved":                    "00-0af7651916cd43dd8448eb211c80319-cb7ad6b7169203331-01",
	"space before":                       " " + parent[:54],
	"space before, which is not trimmed": " " + parent,
	"space behind, which is not trimmed": parent + " ",
	"line break behind":                  parent + "\n",
	"the toy of the reference peer":      "a-b-c-d",
	"later version one octet short":      "01" + parent[2:54],
	"later version without a separator":  "01" + parent[2:] + "01",
	"later version with a line break":    "01" + parent[2:] + "-\r\nx: y",
	"later version that is endless":      "01" + parent[2:] + "-" + strings.Repeat("a", obs.MaxTraceparent-55),
	"later version, trace-id of zeros":   "cc-00000000000000000000000000000000-b7ad6b7169203331-01-x",
}

func TestCheckAcceptsWhatW3CDoes(t *testing.T) {
	for name, tr := range map[string]profiles.Trace{
		"none":                           {},
		"the example":                    {Parent: parent},
		"other flags":                    {Parent: parent[:53] + "f7"},
		"a later version of 55":          {Parent: "01" + parent[2:]},
		"a later version that goes on":   {Parent: "fe" + parent[2:] + "-what-is-to-come"},
		"the longest":                    {Parent: "01" + parent[2:] + "-" + strings.Repeat("a", obs.MaxTraceparent-56)},
		"a tracestate":                   {Parent: parent, State: "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"},
		"a tracestate with odd members":  {Parent: parent, State: " UPPER=1 ,,\t=, no value, twice=1,twice=2 "},
		"the longest tracestate":         {Parent: parent, State: strings.Repeat("a", obs.MaxTracestate)},
		"the 512 octets that W3C asks":   {Parent: parent, State: strings.Repeat("a=1,", 128)},
		"more than 32 members, no limit": {Parent: parent, State: strings.Repeat("a=1,", 40)},
	} {
		if err := obs.Check(tr); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCheckRefusesWhatIsNoTraceContext(t *testing.T) {
	wants := func(name string, tr profiles.Trace, detail string) {
		t.Helper()
		var fault *profiles.Error
		if err := obs.Check(tr); !errors.As(err, &fault) || fault.Code != profiles.InvalidProfilePayload || fault.Detail != detail {
			t.Errorf("%s: %v, want %s", name, err, detail)
		}
	}
	for name, p := range badParents {
		wants(name, profiles.Trace{Parent: p}, obs.CodeTraceparent)
	}
	for n := range len(parent) {
		if n > 0 {
			wants("a prefix", profiles.Trace{Parent: parent[:n]}, obs.CodeTraceparent)
		}
		broken := []byte(parent)
		broken[n] = '~'
		wants("one octet changed", profiles.Trace{Parent: string(broken)}, obs.CodeTraceparent)
	}
	wants("tracestate alone", profiles.Trace{State: "a=1"}, obs.CodeTraceparent)
	for name, state := range map[string]string{
		"one octet too long": strings.Repeat("a", obs.MaxTracestate+1),
		"100 KiB":            strings.Repeat("a", 100<<10),
		"a line break":       "a=1\r\nx: y",
		"NUL":                "a=\x00",
		"DEL":                "a=\x7f",
		"not ASCII":          "a=é",
	} {
		wants(name, profiles.Trace{Parent: parent, State: state}, obs.CodeTracestate)
	}
}
