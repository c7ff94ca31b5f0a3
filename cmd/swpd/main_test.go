package main

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/cmd/internal/cli/clitest"
	"github.com/slimwire/swp/cmd/swpd/internal/command"
	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/profiles/relay"
)

// patience bounds every wait in these tests.
const patience = 5 * time.Minute

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"swpd": func() { os.Exit(swpd(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	})
}

func swpd(args []string, _ io.Reader, stdout, stderr io.Writer) int {
	return command.Main("v1.2.3", args, stdout, stderr)
}

func TestScripts(t *testing.T) {
	p := testscript.Params{
		Dir:      "testdata",
		Deadline: time.Now().Add(8 * time.Minute),
		Setup: func(e *testscript.Env) error {
			e.Setenv("XDG_DATA_HOME", e.WorkDir+"/xdg")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"await":   await,
			"publish": publish,
		},
	}
	clitest.Add(t, &p, clitest.Programs{"swpd": swpd})
	testscript.Run(t, p)
}

// await FILE waits until another program has written FILE.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: await FILE")
	}
	name := ts.MkAbs(args[0])
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if info, err := os.Stat(name); err == nil && info.Size() > 0 {
			return
		}
		time.Sleep(10 * time.Millisecond) // it is another process: there is nothing to wait on
	}
	ts.Fatalf("%s was not written", args[0])
}

// publish DIR FILE TOPIC... publishes a delivery to each topic at the first address in FILE, as the
// client of swpd init --dir DIR. The delivery_id is the topic.
func publish(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: publish DIR FILE TOPIC...")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	files := devpki.Client(ts.MkAbs(args[0] + "/pki"))
	address, _, _ := strings.Cut(ts.ReadFile(args[1]), "\n")
	c, err := client.Dial(ctx, address, client.Options{Identity: client.Identity{Cert: files.Cert, Key: files.Key, CA: files.CA}})
	ts.Check(err)
	defer c.Close()
	for _, topic := range args[2:] {
		_, err := relay.Send(ctx, c.Session, &relay.Publication{ID: []byte(topic), Topic: topic, Payload: []byte("payload")})
		ts.Check(err)
	}
}
