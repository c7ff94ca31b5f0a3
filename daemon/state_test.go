package daemon

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/store"
)

func TestST02LevelIsInTheStartLogAndInHealth(t *testing.T) {
	for yaml, want := range map[string][2]string{
		"":                      {"power", "embedded, durability power: acknowledged state survives a power cut"},
		"durability: process\n": {"process", "embedded, durability process: acknowledged state survives the end of the process, not that of the machine"},
		"store: memory\n":       {"", "memory: gone with the process"},
	} {
		r := start(t, yaml)
		if line := `"durability":"` + want[0] + `"`; !strings.Contains(r.log.String(), line) {
			t.Errorf("%q: the start log does not say %s:\n%s", yaml, line, r.log)
		}
		_, body := r.get("/status")
		var s Status
		if err := json.Unmarshal([]byte(body), &s); err != nil || s.Store != want[1] {
			t.Errorf("%q: /status says %q, want %q; %v", yaml, s.Store, want[1], err)
		}
		if err := r.end(); err != nil {
			t.Error(err)
		}
	}
}

func TestST05SecondProcessOnTheSameStoreIsRefused(t *testing.T) {
	r := start(t, "")
	c, err := config.Load(r.dir+"/swpd.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err = Run(ctx, Options{Config: c, Log: io.Discard})
	if !errors.Is(err, store.ErrLocked) || !strings.Contains(err.Error(), "is in use by another process") {
		t.Errorf("error %v", err)
	}
	r.mustDial(r.addrs[0])
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	startIn(t, r.dir, "") // the lock went with its owner
}

func TestST04DamagedStoreIsOpenedOnlyByChoice(t *testing.T) {
	r := start(t, "")
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(r.dir, "data", "store", "state.db")
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	copy(content[len(content)/2:], bytes.Repeat([]byte{0xa5}, len(content)/4))
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(filepath.Join(r.dir, "swpd.yaml"), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err = Run(ctx, Options{Config: c, Log: io.Discard})
	if !errors.Is(err, store.ErrDamaged) || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "--accept-damage") {
		t.Errorf("error %v, want one that names the file and the choice", err)
	}
	if kept, err := os.ReadFile(file); err != nil || !bytes.Equal(kept, content) {
		t.Errorf("the damaged file was changed (%v)", err)
	}
	log, ready := newBuffer(), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, Options{Config: c, Log: log, AcceptDamage: true, Ready: func([]string) { close(ready) }})
	}()
	select {
	case <-ready:
	case err := <-done:
		t.Fatalf("with the choice made: %v", err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), `"notice":`) {
		t.Errorf("the log does not say what became of the damage:\n%s", log)
	}
}

func TestST05StoreOfAnotherReleaseIsRefused(t *testing.T) {
	r := start(t, "")
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(r.dir, "data", "store", "state.db")
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const userVersion = 60 // where the header of a SQLite file has it
	binary.BigEndian.PutUint32(content[userVersion:], 999)
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(filepath.Join(r.dir, "swpd.yaml"), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, accept := range []bool{false, true} {
		err = Run(ctx, Options{Config: c, Log: io.Discard, AcceptDamage: accept})
		if !errors.Is(err, store.ErrVersion) || !strings.Contains(err.Error(), "ERR_COMPATIBILITY_POLICY") {
			t.Errorf("error %v", err)
		}
	}
	if kept, err := os.ReadFile(file); err != nil || !bytes.Equal(kept, content) {
		t.Errorf("the file was changed (%v)", err)
	}
}
