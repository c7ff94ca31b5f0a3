package a2abinding

import (
	"encoding/hex"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/slimwire/swp/profiles/a2a"
)

// TestTheDocumentSaysWhatIsHere holds docs/a2a-binding-swp.md against this package.
func TestTheDocumentSaysWhatIsHere(t *testing.T) {
	octets, err := os.ReadFile("../../../docs/a2a-binding-swp.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(octets)
	words := []string{URI, ParamVersion, ParamExtensions, DomainA2A, domainOwn}
	for _, kind := range Kinds() {
		words = append(words, "`"+kind+"`")
	}
	for _, k := range codes {
		if k.code <= CodeTaskNotFound && k.code >= CodeVersion {
			words = append(words, "−"+strconv.Itoa(-k.code)+" | `"+k.reason+"` | "+strconv.Itoa(k.status))
		}
	}
	for reason, status := range ownStatus {
		words = append(words, "`"+string(reason)+"` | "+strconv.Itoa(status))
	}
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("%q is not in the document", word)
		}
	}
	_, sample, _ := strings.Cut(text, "```hex\n")
	sample, _, _ = strings.Cut(sample, "```")
	payload, err := hex.DecodeString(strings.Join(strings.Fields(sample), ""))
	if err != nil {
		t.Fatal(err)
	}
	want := a2a.TaskBody{TaskID: payload[4:20], Kind: []byte("a2a/1.0/GetTask"), Input: []byte(`{"id":"t-8"}`)}
	if got := string(want.Append(nil)); got != string(payload) || !strings.HasPrefix(hex.EncodeToString(want.TaskID), "09aa") {
		t.Errorf("the sample is %x, want %x", payload, got)
	}
}
