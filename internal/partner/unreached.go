package partner

import (
	"errors"
	"net"
	"strings"

	"github.com/slimwire/swp/internal/causes"
	"github.com/slimwire/swp/internal/farend"
	"github.com/slimwire/swp/internal/plain"
	"github.com/slimwire/swp/transport"
)

// refusedError is the refusal of this endpoint by the partner, in words.
type refusedError struct {
	cause causes.Cause
	err   error
	own   string // fault of the certificate of this endpoint, which is why; empty: none is known
}

func (e *refusedError) Error() string {
	do := e.cause.Remedy()
	if e.own != "" {
		do = e.own
	}
	return e.cause.Words("it", "this endpoint") + "; " + do
}

// Unwrap returns the error of the connection.
func (e *refusedError) Unwrap() error { return e.err }

// refusal returns err, in words if it is a refusal.
func refusal(cause causes.Cause, err error) error {
	if cause == causes.None || errors.As(err, new(*refusedError)) {
		return err
	}
	return &refusedError{cause: cause, err: err}
}

// blame returns err, the error of dialling, with the fault of the certificate of this endpoint if the
// partner has refused it.
func (l *Link) blame(err error) error {
	if r, ok := errors.AsType[*refusedError](err); ok && r.cause == causes.Untrusted && l.opts.DialFault != nil {
		r.own = l.opts.DialFault()
	}
	return err
}

// ending returns the cause of the end of a session, in words if the partner has given a reason.
func ending(err error) error {
	cause := farend.Of(err)
	if cause == causes.Unsaid { // its usual end
		return err
	}
	return refusal(cause, err)
}

// causeOf returns the cause of the refusal in an error of a link; None without a refusal.
func causeOf(err error) causes.Cause {
	if refused, ok := errors.AsType[*refusedError](err); ok {
		return refused.cause
	}
	return causes.None
}

// unreachedError is the error of a round of dialling. Its text names addresses with the same
// error together, and each error in short, because logs and status cut long texts.
type unreachedError struct {
	addrs []transport.Addr
	errs  []error // of each address
}

func (e *unreachedError) Error() string {
	var order []string
	where := make(map[string][]string)
	for i, err := range e.errs {
		text := inShort(e.addrs[i], err)
		if where[text] == nil {
			order = append(order, text)
		}
		where[text] = append(where[text], e.addrs[i].String())
	}
	for i, text := range order {
		order[i] = strings.Join(where[text], ", ") + ": " + text
	}
	return strings.Join(order, "; ")
}

// Unwrap returns the error of each address.
func (e *unreachedError) Unwrap() []error { return e.errs }

// inShort returns the text of an error of an address, without the address.
func inShort(addr transport.Addr, err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return plain.Error(op.Err)
	}
	if refused, ok := errors.AsType[*transport.RefusedError](err); ok && !errors.As(err, new(*refusedError)) {
		if text := plain.Error(err); strings.HasSuffix(text, plain.Error(refused)) {
			return plain.Error(refused)
		}
	}
	return strings.TrimPrefix(plain.Error(err), "dial "+addr.HostPort()+": ")
}
