package client

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/slimwire/swp/internal/causes"
	"github.com/slimwire/swp/internal/farend"
	"github.com/slimwire/swp/internal/plain"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// advice tells the user what to do about an error of a connection. A test provokes each
// error, over TLS and QUIC if both can have it.
type advice struct {
	name  string // for the tests
	fits  func(f *failure) bool
	words func(f *failure) string
}

// failure is an error of a connection and the known facts about that connection.
type failure struct {
	c      *Client
	err    error
	text   string
	closed *transport.CloseError // set if one end closed the connection with a code
	own    error                 // the fault of this side's certificate, if any
	about  string                // the name that the request was about; may be empty
}

// advise returns the advice for an error of a request about a name, and the name of that
// advice. Both may be empty.
func (c *Client) advise(err error, about string) (name, words string) {
	f := &failure{c: c, err: err, text: err.Error(), about: about, own: c.opts.Identity.fault(time.Now())}
	errors.As(err, &f.closed)
	for _, a := range advices {
		if a.fits(f) {
			return a.name, a.words(f)
		}
	}
	return "", ""
}

// silentPartner is the name of the advice for a partner of the peer that does not answer.
const silentPartner = "silent partner"

// advices are tried in order: facts in the error itself come before conclusions.
var advices = []advice{
	{"no identity", func(f *failure) bool { return errors.Is(f.err, fs.ErrNotExist) }, always(
		"Make a development identity with: swpd init, or name files with --cert, --key and --ca.")},
	{"own certificate", func(f *failure) bool { return errors.As(f.err, new(*ownError)) }, always(
		"No peer accepts this certificate, whatever authority it is from. Get one with one URI name (or one DNS name) that may be used by clients, or name another with --cert and --key.")},
	{"authority of the server", func(f *failure) bool { return errors.As(f.err, new(x509.UnknownAuthorityError)) }, func(f *failure) string {
		return fmt.Sprintf("The server's certificate is not from an authority in %s. If you trust the server, pass its authority with --ca FILE.", f.c.opts.Identity.CA)
	}},
	{"name of the server", func(f *failure) bool { return errors.As(f.err, new(x509.HostnameError)) }, always(
		"The server's certificate is for another name. If the server is known by an identity instead, pass it with --expect, such as --expect spiffe://example.org/swpd.")},
	{"time of the server", func(f *failure) bool { return f.invalid(x509.Expired) }, always(
		"The server's certificate is not valid now. Check the clock of both machines; if they are right, the certificate has to be renewed.")},
	{"usage of the server", func(f *failure) bool { return f.invalid(x509.IncompatibleUsage) }, always(
		"The server's certificate may not be used by servers: its extended key usage lacks serverAuth. Its operator needs another one.")},
	{"identity of the server", func(f *failure) bool { return f.refusedHere(transport.ReasonIdentity) }, always(
		"The server's certificate does not say who it is: it needs one URI name, or one DNS name. Its operator needs another one.")},
	{"another identity", func(f *failure) bool { return strings.Contains(f.text, "expected \"") }, always(
		"Another identity was expected. Correct --expect, or find out who answers there.")},
	{"nothing listens", func(f *failure) bool { return errors.Is(f.err, syscall.ECONNREFUSED) }, always(
		"Nothing listens there. Is swpd running, and is this its address? Its log says where it listens.")},
	{"unknown host", func(f *failure) bool { return errors.As(f.err, new(*net.DNSError)) }, always(
		"The host name is not known here.")},
	{"not SWP", (*failure).otherProtocol, always(
		"What listens there does not speak SWP over TLS. Is the port, and is the scheme of the address right?")},
	{"denied", func(f *failure) bool { return f.code(profiles.SecurityPolicy) && f.c.lost() }, func(f *failure) string {
		return inWords(causes.Denied) + ". " + f.c.ifDenied()
	}},
	{"partnership", func(f *failure) bool { return farend.Of(f.err).ForPartners() }, func(f *failure) string {
		cause := farend.Of(f.err)
		return inWords(cause) + "; " + cause.Remedy() + "."
	}},
	{"refused message", func(f *failure) bool { return f.code(profiles.SecurityPolicy) }, always(
		"The server lets this identity in, but refused this message: its access rules do not allow it, or the chain of credentials that it names (--chain) is revoked, expired or unknown. The log of the server says which.")},
	{"own certificate out of time", func(f *failure) bool { return f.refusedThere() && f.own != nil }, func(f *failure) string {
		return fmt.Sprintf("%s, and this is why: %s. Renew it, or show another one with --cert and --key; if the dates are right, check the clock of this machine.", inWords(causes.Untrusted), plain.Error(f.own))
	}},
	{"refused certificate", (*failure).refusedThere, func(f *failure) string {
		return fmt.Sprintf("%s %s. Show one from an authority that the server trusts with --cert and --key; its log says more, with reason \"untrusted\".", inWords(causes.Untrusted), f.c.opts.Identity.Cert)
	}},
	{silentPartner, (*failure).beyond, (*failure).silentPartner},
	{"no answer in time", (*failure).late, always(
		"No answer in time. Check the address and whether something on the way drops packets (UDP for swp+quic), or allow more time with --timeout.")},
	{"full", func(f *failure) bool { return f.code(profiles.RateLimitExceeded) }, always(
		inWords(causes.Full) + ". Try again later.")},
	{"idle here", func(f *failure) bool { return errors.Is(f.err, endpoint.ErrIdle) }, always(
		"Nothing was in flight for so long that this client closed the connection. Run the command again.")},
	{"ended after use", func(f *failure) bool { return f.ended() && f.c.peer != nil && f.c.peer.Answered() }, always(
		"The server closed a connection that was in use before: it was idle for longer than limits.idle of the server, the server or one of its nodes stops or restarts, or its operator changed its rules. Run the command again.")},
	{"ended, plaintext", func(f *failure) bool { return f.ended() && strings.HasPrefix(f.c.address, "swp+tcp:") }, always(
		"What listens there hung up without a word. Is it a plaintext listener (swp+tcp) of swpd? If it is, it may be full; try again later.")},
	{"ended, own certificate out of time", func(f *failure) bool { return f.ended() && f.own != nil }, func(f *failure) string {
		return fmt.Sprintf("The server hung up, perhaps for this reason: %s. Renew it, or show another one with --cert and --key.", plain.Error(f.own))
	}},
	{"unserved profile", func(f *failure) bool {
		return f.code(profiles.UnknownProfile) || f.ended() && f.c.peer != nil && f.c.overMessage()
	}, always(
		"The server lets this identity in, and ended the connection over what was sent: probably it does not serve the profile of the message. Commands that list, ask or ping need profile 12 (RPC).")},
	{endedBeforeUse, (*failure).ended, func(f *failure) string {
		// Over TLS there is no reason in the error.
		return inWords(causes.Unsaid) + ". " + f.c.ifDenied()
	}},
}

// lost reports whether the connection has ended. It may still exist after a stream has
// failed.
func (c *Client) lost() bool { return c.Session == nil || c.gone() }

func always(words string) func(*failure) string { return func(*failure) string { return words } }

// ifDenied is the advice for a server that refuses this identity.
func (c *Client) ifDenied() string {
	return fmt.Sprintf("Its operator finds %q in its log with reason \"denied\" and would have to take it out of access.deny; swpd reload then lets it in.", c.opts.Identity.Name())
}

func (f *failure) code(code profiles.Code) bool {
	return f.closed != nil && f.closed.Code == uint64(code)
}

// invalid reports whether this side refused the peer's certificate for a reason.
func (f *failure) invalid(reason x509.InvalidReason) bool {
	var invalid x509.CertificateInvalidError
	return errors.As(f.err, &invalid) && invalid.Reason == reason
}

func (f *failure) refusedHere(reason string) bool {
	var refused *transport.RefusedError
	return errors.As(f.err, &refused) && refused.Reason == reason
}

// otherProtocol reports whether the address belongs to a server of another protocol than
// SWP over TLS.
func (f *failure) otherProtocol() bool {
	cut := f.c.Session == nil && (errors.Is(f.err, io.ErrUnexpectedEOF) || errors.Is(f.err, io.EOF) || errors.Is(f.err, syscall.ECONNRESET))
	return cut || f.refusedHere(transport.ReasonDowngrade) ||
		strings.Contains(f.text, "no application protocol") || strings.Contains(f.text, "protocol version not supported") ||
		strings.Contains(f.text, "first record does not look like a TLS handshake")
}

// refusedThere reports whether the peer sent an alert about our certificate.
func (f *failure) refusedThere() bool { return farend.Of(f.err) == causes.Untrusted }

// inWords is the beginning of an advice about a refusal by the server.
func inWords(cause causes.Cause) string { return cause.Words("The server", "this client") }

// keptOut are the names of the advices about a server that does not let this side in.
var keptOut = []string{"denied", "partnership", "own certificate out of time", "refused certificate", "full", "ended, own certificate out of time", endedBeforeUse}

// endedBeforeUse is the name of the advice about a connection that has ended without a reason and without an answer.
const endedBeforeUse = "ended before use"

// refusedSide reports whether an error says that the server does not let this side in.
func refusedSide(err error) bool {
	explained, ok := errors.AsType[*Explained](err)
	return ok && slices.Contains(keptOut, explained.advice)
}

func (f *failure) late() bool {
	return errors.Is(f.err, context.DeadlineExceeded) || strings.Contains(f.text, "timeout") ||
		strings.Contains(f.text, "no recent network activity")
}

// beyond reports whether the peer answers, but has no answer of a partner in time.
func (f *failure) beyond() bool {
	partner, _ := f.partner()
	return partner != "" && (f.late() || errors.As(f.err, new(*SilentError))) && f.c.answers()
}

// partner returns the name of the partner that the request was for. If it is the first
// segment of a name, it may be part of a local name, and is not sure.
func (f *failure) partner() (name string, sure bool) {
	if sure = f.c.opts.Partner && f.c.Target != ""; sure {
		name, _, _ = strings.Cut(f.c.Target, "/")
		return name, true
	}
	name, _, ok := strings.Cut(f.about, "/")
	if !ok {
		return "", false
	}
	return name, false
}

func (f *failure) silentPartner() string {
	partner, sure := f.partner()
	who := fmt.Sprintf("Partner %s has not answered in time", partner)
	if !sure {
		who = fmt.Sprintf("If %s is a partner, it has not answered in time", partner)
	}
	return who + "; the endpoint itself answers. There swpd status shows the link to the partner: a dead one is noticed within 15 s, and then the error says so. " +
		"If the link is up, the partner is slow: allow more time with --timeout."
}

// overMessage reports whether the peer has ended the connection over a message.
func (c *Client) overMessage() bool {
	ctx, cancel := context.WithTimeout(context.Background(), answersIn)
	defer cancel()
	return c.admitted(ctx)
}

// answersIn limits the time for finding out whether the peer answers.
const answersIn = 2 * time.Second

// answers reports whether the peer itself, and not a partner of it, answers now.
func (c *Client) answers() bool {
	if c.peer == nil || c.mute.Load() || c.peer.Context().Err() != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), answersIn)
	defer cancel()
	_, err := rpc.Call(ctx, c.peer, rpc.MethodPing, nil)
	return err == nil || errors.As(err, new(*rpc.Error))
}

// SilentError is why this side has given up a request: nothing came for a time.
type SilentError struct{ For time.Duration }

func (e *SilentError) Error() string {
	return fmt.Sprintf("no answer for %v; allow more with --timeout", e.For)
}

// ended reports whether the peer closed the connection without a reason.
func (f *failure) ended() bool { return farend.Of(f.err) == causes.Unsaid }
