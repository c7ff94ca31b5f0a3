// Package command is the command line of swp-client.
package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/internal/plain"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/transport"
)

// flags are those of every command that connects.
type flags struct {
	identity, cert, key, ca string
	expect                  string
	asJSON                  bool
	timeout                 time.Duration
	verbose                 bool
	partners                bool // names after the address are those of partners
	traceparent, tracestate string
	policy                  []string
	chain                   string
	notice                  func(relay.Notice) bool // of relay publish
	warned                  sync.Once               // of the mode of the private key
	stops                   sync.Map                // whether a violation of a hint was said
	running                 *cobra.Command          // nil until one runs
	asked                   string                  // name in access rules, if arguments do not say it
	advice                  string                  // about the error of the command
	peer                    atomic.Pointer[string]  // identity of the endpoint that was dialled last

	in          io.Reader
	out, errOut io.Writer
}

// Main runs the command line and returns the exit code.
func Main(version string, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	f := &flags{out: stdout, errOut: stderr}
	p := cli.Program{
		Root: newRoot(f), Version: version, Arguments: usageArguments(), Effect: inEffect, Before: f.before, Code: exitCode, Describe: f.report,
	}
	defer f.sayStopped("") // where there is no error
	return p.Main(args, stdin, stdout, stderr)
}

// before refuses flags of root without effect in cmd, and names the chain of
// credentials that all is done under.
func (f *flags) before(cmd *cobra.Command) error {
	if err := f.checkEffect(cmd); err != nil {
		return err
	}
	f.in = cmd.InOrStdin()
	f.partners, f.running = strings.Contains(cmd.Use, addrPartner), cmd
	chain, err := parseChain("--chain", f.chain)
	if err == nil && len(chain) > 0 {
		cmd.SetContext(profiles.WithChain(cmd.Context(), chain))
	}
	return err
}

// report adds what is known about an error of a connection, or of the other end.
func (f *flags) report(err error, r *cli.Report) {
	if explained, ok := errors.AsType[*client.Explained](err); ok {
		r.Address, r.Advice = explained.What, explained.Do
		if r.Address != "" {
			r.Kind = cli.KindConnection
		}
		if explained.Do != "" {
			r.Message = strings.Replace(r.Message, "\n"+explained.Do, "", 1)
		}
	}
	if code, by, ok := client.Refusal(err); ok {
		r.Kind, r.Code, r.Endpoint, r.Partner = cli.KindRefused, code, by.Endpoint, by.Partner
	}
	f.help(err, r)
	r.Advice = strings.Trim(f.advice+"\n"+r.Advice, "\n")
	f.sayStopped(r.Message)
}

// answered returns what the other end has answered with the error message of a profile;
// it has no Code if err is anything else.
func answered(err error, profile string) profiles.PeerError {
	if answer, ok := errors.AsType[*profiles.PeerError](err); ok && answer.Profile == profile {
		return *answer
	}
	return profiles.PeerError{}
}

// usageError is a mistake in the command line found after it was parsed.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

// UsageLine implements cli.UsageError.
func (*usageError) UsageLine() string { return "" }

func newRoot(f *flags) *cobra.Command {
	root := &cobra.Command{
		Use:   "swp-client",
		Short: "Talk to SWP endpoints",
		Long: `Talk to SWP endpoints. An address is swp+tls://host:port, swp+quic://host:port or,
for plaintext on this machine, swp+tcp://127.0.0.1:port; without a port it is 7777.
If the usage of a command says so, the name of an MCP server or of an agent may follow
after a slash (ADDR/SERVER, ADDR/AGENT); behind a partner of the endpoint it follows
the name of the partner (ADDR/PARTNER/SERVER). All other commands refuse an address
with a name.

Over TLS and QUIC this client needs a certificate. Without --cert, --key and --ca it
uses client.crt, client.key and ca.crt from the first of these directories that has
them: --identity, $SWP_IDENTITY, ./pki (made by swpd init) and the data directory of
swpd (made by swpd run).

Results are on standard output. Errors are on standard error, with --json as an object
in its last line: {"error":{"kind":…,"message":…,"exit_code":…}}.

Exit status: 0 for success, 1 for a failure, 2 for a wrong command line, 3 if what was
sent may be lost, because the endpoint hung up instead of confirming it, 130 after
Ctrl-C and 143 after SIGTERM. Commands that run until a signal end in order, and with
0 after SIGTERM. An endpoint of other software may be unable to confirm what it has
accepted: a remark says so, and "confirmed":false in JSON.`,
		Example: `  swp-client ping swp+tls://127.0.0.1:7777
  swp-client mcp list swp+quic://127.0.0.1:7777
  swp-client mcp call swp+tls://127.0.0.1:7777/files read_file path=/srv/files/a.txt
  swp-client rpc call swp+tls://127.0.0.1:7777 swp.info
  swp-client --expect spiffe://example.org/edge ping swp+tls://192.0.2.7
  swp-client dump capture.bin`,
	}
	p := root.PersistentFlags()
	p.StringVar(&f.identity, "identity", "", "`directory` with client.crt, client.key and ca.crt")
	p.StringVar(&f.cert, "cert", "", "PEM `file` with the certificate of this client")
	p.StringVar(&f.key, "key", "", "PEM `file` with its key")
	p.StringVar(&f.ca, "ca", "", "PEM `file` with the authorities that vouch for servers")
	p.StringVar(&f.expect, "expect", "", "`identity` that the server must have, instead of a certificate for its host name")
	p.BoolVar(&f.asJSON, "json", false, "print JSON")
	p.DurationVar(&f.timeout, "timeout", profiles.AnswerWait, "for connecting, and for each answer")
	p.BoolVarP(&f.verbose, "verbose", "v", false, "say which identity is used")
	p.StringVar(&f.traceparent, "traceparent", "", "W3C trace `context` to join (default $TRACEPARENT)")
	p.StringVar(&f.tracestate, "tracestate", "", "W3C trace `state` beside it (default $TRACESTATE)")
	p.StringArrayVar(&f.policy, "policy", nil, "`hint` KEY=VALUE[:MODE] for the requests of this command (repeatable)")
	p.StringVar(&f.chain, "chain", "", "`id` of the chain of credentials that it is done under, in hexadecimal (see cred)")
	root.AddCommand(newPing(f), newMCP(f), newA2A(f), newRPC(f), newEvents(f), newAgents(f), newTools(f), newArtifact(f), newState(f), newRelay(f), newPolicy(f), newCred(f), newBench(f), newOBS(f), newSLIP(f), newSDL(f), newAudit(f), newDump(f))
	return root
}

// dial connects as the flags say, joins the trace of the flags or the
// environment, and sets the hints of the flags.
func (f *flags) dial(ctx context.Context, address string) (*client.Client, error) {
	return f.dialAs(ctx, address, nil)
}

// on connects, and runs do within the timeout.
func (f *flags) on(ctx context.Context, address string, do func(context.Context, *client.Client) error) error {
	c, err := f.dial(ctx, address)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	return do(ctx, c)
}

// dialAs is dial with profiles that serve the connection; nil takes new ones.
func (f *flags) dialAs(ctx context.Context, address string, set *all.Set) (*client.Client, error) {
	hints, err := parseHints("--policy", "", f.policy)
	if err != nil {
		return nil, err
	}
	c, err := f.dialOnly(ctx, address, set)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	if err = f.join(ctx, c); err == nil && len(hints) > 0 {
		err = f.setHints(ctx, c, hints)
	}
	if err == nil && f.chain != "" && !everywhere(f.running) {
		err = c.CheckChain(ctx)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// keep keeps a connection as the flags say.
func (f *flags) keep(address string) *client.Kept {
	return client.Keep(client.KeepOptions{
		Dial:    func(ctx context.Context) (*client.Client, error) { return f.dial(ctx, address) },
		Timeout: f.timeout,
		Lost: func(err error) {
			if f.verbose {
				f.warnf("%s; a new connection is made when it is needed", lost(err))
			}
		},
	})
}

// dialOnly connects as the flags say.
func (f *flags) dialOnly(ctx context.Context, address string, set *all.Set) (*client.Client, error) {
	o, err := f.options(address)
	if err != nil {
		return nil, err
	}
	o.Profiles = set
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	c, err := client.Dial(ctx, address, o)
	if err == nil {
		f.peer.Store(&c.Peer().Identity)
	}
	return c, err
}

// commandLine is a command line of this program, with the identity of this one, for a shell.
func (f *flags) commandLine(words ...string) string {
	line := []string{"swp-client"}
	for _, name := range []string{"identity", "cert", "key", "ca", "expect"} {
		if flag := f.running.Flag(name); flag != nil && flag.Changed {
			line = append(line, "--"+name, flag.Value.String())
		}
	}
	line = append(line, words...)
	for i, one := range line {
		line[i] = plain.Word(visible(one))
	}
	return strings.Join(line, " ")
}

// address is the address in the command line of the running command.
func (f *flags) address() string { return f.running.Flags().Arg(0) }

func (f *flags) options(address string) (client.Options, error) {
	read := endpointOnly
	if f.partners {
		read = func(address string) (transport.Addr, error) { addr, _, err := split(address); return addr, err }
	}
	addr, err := read(address)
	if err != nil {
		return client.Options{}, err
	}
	o := client.Options{Partner: f.partners, Expect: f.expect, Stopped: f.stopped, Notice: f.notice}
	if addr.Transport == "tcp" {
		return o, f.checkPlaintext()
	}
	if o.Identity, err = f.findIdentity(); err == nil {
		f.warnOfKey(o.Identity.Key)
	}
	return o, err
}

// warnOfKey warns once of a fault for which swpd would refuse its own private key. A file
// that is not there is an error of the connection.
func (f *flags) warnOfKey(file string) {
	if err := config.CheckPrivate(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.warned.Do(func() { f.warnf("%v", err) })
	}
}

// findIdentity returns the files that the flags name, and for those they do not
// name the ones of the first directory that has an identity.
func (f *flags) findIdentity() (client.Identity, error) {
	id := client.Identity{Cert: f.cert, Key: f.key, CA: f.ca}
	for _, name := range []string{f.cert, f.key, f.ca} {
		if name == "" {
			continue
		}
		if err := cli.Readable(name); err != nil {
			return id, err
		}
	}
	if (id.Cert == "") != (id.Key == "") {
		return id, &usageError{"--cert and --key belong together: set both or neither"}
	}
	if id.Cert != "" && id.CA != "" {
		if f.identity != "" {
			return id, &usageError{"--identity has no effect beside --cert, --key and --ca; leave it out"}
		}
		return id, nil
	}
	dirs := []string{f.identity}
	if f.identity == "" {
		dirs = []string{os.Getenv("SWP_IDENTITY"), "pki", filepath.Join(dataDir(), "pki")}
	}
	for _, dir := range dirs {
		if found := devpki.Client(dir); dir != "" && found.Exist() {
			if id.Cert == "" {
				id.Cert, id.Key = found.Cert, found.Key
			}
			if id.CA == "" {
				id.CA = found.CA
			}
			if f.verbose {
				f.warnf("certificate %s, authorities of servers %s", id.Cert, id.CA)
			}
			return id, nil
		}
	}
	hint := ""
	if below := filepath.Join(f.identity, "pki"); f.identity != "" && devpki.Client(below).Exist() {
		hint = "; did you mean " + plain.Word(below) + "?"
	}
	return id, &usageError{fmt.Sprintf("no identity found: client.crt, client.key and ca.crt are not together in %s%s\n"+
		"Make one with: swpd init (or swpd run on this machine), or name files with --cert, --key and --ca.", list(dirs), hint)}
}

// dataDir is where swpd run keeps its development identity.
func dataDir() string {
	if dir := os.Getenv("SWPD_DATA"); dir != "" {
		return dir
	}
	return config.DataDir()
}

func list(dirs []string) string {
	var named []string
	for _, d := range dirs {
		if d != "" {
			named = append(named, d)
		}
	}
	return strings.Join(named, ", ")
}

// warnf writes a remark on standard error.
func (f *flags) warnf(format string, args ...any) {
	_, _ = fmt.Fprintf(f.errOut, "swp-client: %s\n", visible(fmt.Sprintf(format, plain.Args(args)...)))
}

// listed ends a command that has listed n things, and says so on standard error if there
// were none: a program that reads the list gets nothing else.
func (f *flags) listed(err error, n int, word string) error {
	if err == nil && n == 0 && !f.asJSON {
		f.warnf("no %s", plain.Several(word))
	}
	return err
}

func (f *flags) printf(format string, args ...any) { _, _ = fmt.Fprintf(f.out, format, args...) }

func (f *flags) printJSON(v any) error {
	enc := json.NewEncoder(f.out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
