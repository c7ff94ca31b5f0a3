package greeter_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"example.org/embeds/greeter"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/daemon"
	"github.com/slimwire/swp/daemon/check"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/rpc"
)

const rules = `
access:
  rules:
    - {identity: "**", profile: greeter, operation: hello, name: gopher}
    - {identity: "**", profile: rpc, operation: call, name: greeter.count}
`

// configure writes a configuration for one listener.
func configure(t *testing.T) (file string, f devpki.Files) {
	t.Helper()
	dir := t.TempDir()
	pki := filepath.Join(dir, "pki")
	if err := devpki.Create(pki, devpki.Options{}); err != nil {
		t.Fatal(err)
	}
	text := "identity: {cert: pki/server.crt, key: pki/server.key}\ntrust: {ca: [pki/ca.crt]}\nadmin: \"off\"\ndata: data\n" +
		"listeners: [{address: \"swp+tls://127.0.0.1:0\"}]\n" + rules
	file = filepath.Join(dir, "swpd.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, devpki.Client(pki)
}

func TestRulesForTheProfileNeedItsTable(t *testing.T) {
	file, _ := configure(t)
	if _, err := config.Load(file, nil); err == nil || !strings.Contains(err.Error(), `"greeter" is no profile`) {
		t.Errorf("without the table: %v", err)
	}
	c, err := config.Load(file, nil, greeter.New())
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"gopher": true, "mallory": false} {
		a, err := check.May(c, check.Question{Identity: "spiffe://localhost/client", Profile: greeter.Name, Operation: "hello", Name: name})
		if err != nil || a.Allowed != want {
			t.Errorf("swpd check --may greeter hello %s: %+v, %v", name, a, err)
		}
	}
	_, err = check.May(c, check.Question{Identity: "spiffe://localhost/client", Profile: greeter.Name, Operation: "helo"})
	if err == nil || !strings.Contains(err.Error(), "did you mean hello?") {
		t.Errorf("an operation that is not in the table: %v", err)
	}
}

// run runs swpd with the greeter until ctx ends.
func run(ctx context.Context, file string, log io.Writer, ready func(addresses []string)) error {
	p := greeter.New()
	c, err := config.Load(file, os.Environ(), p) // its access rules can name the profile
	if err != nil {
		return err
	}
	return daemon.Run(ctx, daemon.Options{Config: c, Log: log, Profiles: []*profiles.Profile{p}, Ready: ready})
}

// serve runs swpd with the profile and returns a connection to it.
func serve(t *testing.T) *client.Client {
	t.Helper()
	file, files := configure(t)
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan []string, 1), make(chan error, 1)
	go func() {
		ended <- run(ctx, file, io.Discard, func(addresses []string) { ready <- addresses })
	}()
	var address string
	select {
	case err := <-ended:
		t.Fatal(err)
	case addresses := <-ready:
		address = addresses[0]
	}
	set, err := all.New(all.Options{More: []*profiles.Profile{greeter.New()}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := client.Dial(ctx, address, client.Options{Identity: client.Identity{Cert: files.Cert, Key: files.Key, CA: files.CA}, Profiles: set})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		set.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s
}

func hello(t *testing.T, s *client.Client, whom string) (string, error) {
	t.Helper()
	call, err := s.Call(t.Context(), e1.Envelope{
		ProfileID: greeter.ProfileID, MsgType: greeter.TypeHello, Payload: []byte(whom),
		Extensions: e1.AppendExtension(nil, greeter.ExtTone, []byte("loud: ")),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer call.Close()
	env, err := call.Recv(t.Context())
	if err != nil {
		return "", err
	}
	return string(env.Payload), nil
}

func TestTheProfileIsServedByTheRules(t *testing.T) {
	s := serve(t)
	if got, err := hello(t, s, "gopher"); err != nil || got != "loud: hello, gopher" {
		t.Errorf("what a rule allows: %q, %v", got, err)
	}
	var fault *profiles.Error
	if got, err := hello(t, s, "mallory"); !errors.As(err, &fault) || fault.Code != profiles.SecurityPolicy {
		t.Errorf("what no rule allows: %q, %v", got, err)
	}
	if got, err := rpc.Call(t.Context(), s.Session, greeter.MethodCount, nil); err != nil || string(got) != "1" {
		t.Errorf("a method of the profile: %q, %v", got, err)
	}
	stream, err := rpc.Open(t.Context(), s.Session, greeter.MethodTones, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if item, err := stream.Recv(t.Context()); err != nil || string(item) != "loud" {
		t.Errorf("an open method without a rule: %q, %v", item, err)
	}
	var info rpc.Info
	result, err := rpc.Call(t.Context(), s.Session, rpc.MethodInfo, nil)
	if err == nil {
		err = json.Unmarshal(result, &info)
	}
	if err != nil || !slices.Equal(info.Extensions[greeter.ProfileID], []uint64{greeter.ExtTone}) {
		t.Errorf("swp.info: %s, %v", result, err)
	}
}

func TestADumpShowsTheProfile(t *testing.T) {
	known, err := profiles.NewRegistry(greeter.New())
	if err != nil {
		t.Fatal(err)
	}
	env := e1.Envelope{Version: e1.Version, ProfileID: greeter.ProfileID, MsgType: greeter.TypeHello, Timestamp: 1, MsgID: make([]byte, 16), Payload: []byte("gopher")}
	octets := env.Append(frame.AppendHeader(nil, env.Size()))
	var text []byte
	faults, err := client.Dump(bytes.NewReader(octets), func(f *client.Frame) (err error) {
		text, err = json.Marshal(f)
		return err
	}, client.DumpOptions{Registry: known})
	if err != nil || faults != 0 || !strings.Contains(string(text), `"profile":"greeter"`) || !strings.Contains(string(text), `"payload":{"text":"gopher"}`) {
		t.Errorf("%s, %d faults, %v", text, faults, err)
	}
}
