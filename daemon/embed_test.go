package daemon

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/transport/endpoint"
)

// greeting is a profile of a program that embeds this package.
func greeting() *profiles.Profile {
	return &profiles.Profile{
		ID: 5000, Name: "greeter",
		Types: []profiles.Type{
			{ID: 1, Name: "HELLO", Role: profiles.Initiating},
			{ID: 2, Name: "GREETING", Role: profiles.Answer | profiles.Terminal},
		},
		Handler: profiles.HandlerFunc(func(_ context.Context, req *profiles.Request, w profiles.Responder) error {
			return w.Finish(e1.Envelope{MsgType: 2, Payload: append([]byte("hello, "), req.Payload...)})
		}),
	}
}

var twice = map[string]rpc.Method{"own.twice": {Inline: func(_ *profiles.Request, params []byte) ([]byte, error) {
	return bytes.Repeat(params, 2), nil
}}}

func TestProfilesAndMethodsOfTheProgramAreServed(t *testing.T) {
	dir := t.TempDir()
	if err := devpki.Create(filepath.Join(dir, "pki"), devpki.Options{}); err != nil {
		t.Fatal(err)
	}
	yaml := "access: {rules: [{identity: '**', profile: rpc, operation: call, name: own.twice}]}\n"
	r := startIn(t, dir, yaml, func(o *Options) { o.Profiles, o.Methods = []*profiles.Profile{greeting()}, twice })
	for _, address := range r.addrs {
		if got, err := rpc.Call(t.Context(), r.mustDial(address).Session, "own.twice", []byte("ab")); err != nil || string(got) != "abab" {
			t.Errorf("%s: own.twice: %q, %v", address, got, err)
		}
		conn, err := connect(t, address, devpki.Client(filepath.Join(r.dir, "pki")))
		if err != nil {
			t.Fatal(err)
		}
		registry, err := profiles.NewRegistry(greeting())
		if err != nil {
			t.Fatal(err)
		}
		ep, err := endpoint.New(endpoint.Options{Registry: registry})
		if err != nil {
			t.Fatal(err)
		}
		call, err := ep.Attach(conn).Call(t.Context(), e1.Envelope{ProfileID: 5000, MsgType: 1, Payload: []byte("gopher")})
		if err != nil {
			t.Fatal(err)
		}
		answer, err := call.Recv(t.Context())
		if err != nil || string(answer.Payload) != "hello, gopher" {
			t.Errorf("%s: %q, %v", address, answer.Payload, err)
		}
		call.Close()
		_ = ep.Close()
	}
}

func TestNamesThatAreTakenKeepTheDaemonFromStarting(t *testing.T) {
	taken := greeting()
	taken.ID = 12
	for name, set := range map[string]func(*Options){
		`method "swp.ping" is built in`: func(o *Options) { o.Methods = map[string]rpc.Method{"swp.ping": twice["own.twice"]} },
		"profile_id 12 is taken":        func(o *Options) { o.Profiles = []*profiles.Profile{taken} },
	} {
		dir := t.TempDir()
		if err := devpki.Create(filepath.Join(dir, "pki"), devpki.Options{}); err != nil {
			t.Fatal(err)
		}
		f := devpki.Files{Cert: filepath.Join(dir, "pki/server.crt"), Key: filepath.Join(dir, "pki/server.key"), CA: filepath.Join(dir, "pki/ca.crt")}
		text := "identity: {cert: " + f.Cert + ", key: " + f.Key + "}\ntrust: {ca: [" + f.CA + "]}\nadmin: 127.0.0.1:0\ndata: " + dir + "/data\nlisteners: [{address: 'swp+tls://127.0.0.1:0'}]\naccess: {}\n"
		file := filepath.Join(dir, "swpd.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(file, nil)
		if err != nil {
			t.Fatal(err)
		}
		o := Options{Config: c, Log: io.Discard}
		set(&o)
		if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v, want %s", err, name)
		}
	}
}
