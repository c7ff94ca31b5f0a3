package client_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slimwire/swp/client"
)

func TestPlaceIsKept(t *testing.T) {
	dir := t.TempDir()
	of := client.PlaceOf{Address: "swp+tls://127.0.0.1:7777", Name: "../n", Filter: "type:t", Cert: "/c"}
	for _, step := range []struct {
		cursor uint64
		more   int
	}{{0, 0}, {7, 3}, {1<<64 - 1, 1023}, {8, 0}} {
		p := place(t, dir, of)
		if err := p.Move(step.cursor, step.more); err != nil {
			t.Fatal(err)
		}
		p.Close()
		p = place(t, dir, of)
		if cursor, more, ok := p.Cursor(); cursor != step.cursor || more != step.more || !ok {
			t.Errorf("%d, %d, %v, want %d, %d", cursor, more, ok, step.cursor, step.more)
		}
		p.Close()
	}
	for _, other := range []client.PlaceOf{
		{Address: of.Address, Name: of.Name, Filter: of.Filter}, {Address: of.Address, Name: of.Name, Cert: of.Cert},
		{Address: of.Address, Filter: of.Filter, Cert: of.Cert}, {Name: of.Name, Filter: of.Filter, Cert: of.Cert},
	} {
		for range 2 { // made, and opened again
			p := place(t, dir, other)
			if _, _, ok := p.Cursor(); ok {
				t.Errorf("%+v has the cursor of %+v", other, of)
			}
			p.Close()
		}
	}
}

func place(t *testing.T, dir string, of client.PlaceOf) *client.Place {
	t.Helper()
	p, err := client.OpenPlace(dir, of)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAFlippedBitOfAPlaceIsAnErrorThatNamesTheFile(t *testing.T) {
	dir := t.TempDir()
	of := client.PlaceOf{Address: "swp+tls://127.0.0.1:7777", Name: "n"}
	p := place(t, dir, of)
	check := func() {
		files, err := filepath.Glob(filepath.Join(dir, "events", "*"))
		if err != nil || len(files) != 1 {
			t.Fatalf("files %v, error %v", files, err)
		}
		octets, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		refused := func(octets []byte, what string, at int) {
			if err := os.WriteFile(files[0], octets, 0o600); err != nil {
				t.Fatal(err)
			}
			p, err := client.OpenPlace(dir, of)
			if err == nil {
				cursor, more, ok := p.Cursor()
				p.Close()
				t.Errorf("%s at %d: cursor %d, %d, %v", what, at, cursor, more, ok)
			} else if !strings.Contains(err.Error(), files[0]) || !strings.Contains(err.Error(), "remove") {
				t.Errorf("%s at %d: %v", what, at, err)
			}
		}
		for at := range octets {
			for bit := range 8 {
				octets[at] ^= 1 << bit
				refused(octets, "flipped", at)
				octets[at] ^= 1 << bit
			}
			if at > 0 {
				refused(octets[:at], "cut", at)
			}
		}
		if err := os.WriteFile(files[0], octets, 0o600); err != nil {
			t.Fatal(err)
		}
		place(t, dir, of).Close()
	}
	check()
	if err := p.Move(108, 3); err != nil {
		t.Fatal(err)
	}
	p.Close()
	check()
}

func TestBrokenPlaceIsAnError(t *testing.T) {
	dir := t.TempDir()
	of := client.PlaceOf{Name: "n"}
	place(t, dir, of).Close()
	files, err := filepath.Glob(filepath.Join(dir, "events", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %v, error %v", files, err)
	}
	for _, octets := range []string{"x", "0000000000000000000x 000000\n", "--------------------"} {
		if err := os.WriteFile(files[0], []byte(octets), 0o600); err != nil {
			t.Fatal(err)
		}
		if p, err := client.OpenPlace(dir, of); err == nil {
			p.Close()
			t.Errorf("%q was taken for a place", octets)
		}
	}
}
