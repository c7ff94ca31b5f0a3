package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Lines of the access log are added to no file of swpd, and to no other one that is no such
// log: a typing error must not destroy a key or the configuration.
func TestTheAccessLogIsAddedToNoOtherFile(t *testing.T) {
	home := dir(t)
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("key.pem", "-----BEGIN PRIVATE KEY-----\n")
	write("old.log", "{\"level\":\"info\"}\n")
	write("empty.log", "")
	for name, want := range map[string]string{
		"key.pem":       "is there, and is no access log",
		"state/any.log": "which is for files of swpd itself",
		"state":         "which is for files of swpd itself",
		"old.log":       "",
		"empty.log":     "",
		"new.log":       "",
		"/dev/stdout":   "",
	} {
		_, err := load(t, home, "data: state\nlog: {access: all, access_file: "+name+"}\n")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), "log.access_file: ") || !strings.Contains(err.Error(), want)) {
			t.Errorf("access_file %s: %v, want %q", name, err, want)
		}
	}
}
