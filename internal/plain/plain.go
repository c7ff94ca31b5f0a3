// Package plain writes errors for users, without the package names that error texts begin
// with.
package plain

import (
	"errors"
	"strings"
)

// names are the packages of this module whose error texts begin with their name, and the
// common ones of the standard library. A test compares the list with the sources.
var names = []string{
	"a2a", "a2abinding", "a2afront", "a2ahttp", "a2aowners", "a2atransport", "access", "agdisc", "archive", "artifact", "audit", "caller",
	"canonical", "check", "client", "cred", "e1", "endpoint", "events", "fetch", "filestore", "frame", "gate", "hosting",
	"mcpfront", "mcphttp", "mcpmap", "mcpstdio", "mcptools", "mcptransport", "memory", "netcut", "nslip", "obs", "p1", "partner", "passing", "pgstore", "pgtest",
	"policyhint", "proc", "profiles", "quicconn", "relay", "rpc", "rpchttp", "schema", "sdl", "sdlagent", "sdlaudit", "sdlfront", "seal",
	"serve", "sharedblobs", "slip", "slipa2a", "slipstream", "sqlstore", "state", "store", "team", "tls", "tlsconn", "token",
	"tooldisc", "transport", "trust", "ucr", "upstream", "worker", "x509",
}

// Verbatim is an error that contains text of another program, which must stay unchanged.
type Verbatim interface {
	error

	// Verbatim returns that part of the error text; empty if there is none.
	Verbatim() string
}

// Error returns the text of an error for users.
func Error(err error) string {
	text := err.Error()
	if other, ok := errors.AsType[Verbatim](err); ok {
		if said := other.Verbatim(); said != "" {
			if before, after, found := strings.Cut(text, said); found {
				return Text(before) + said + Text(after)
			}
		}
	}
	return Text(text)
}

// Text is Error for the text of an error.
func Text(text string) string {
	var b strings.Builder
	for rest := text; ; {
		rest = trim(rest)
		next := boundary(rest)
		b.WriteString(rest[:next])
		if rest = rest[next:]; rest == "" {
			return b.String()
		}
	}
}

// trim removes package names from the start of text.
func trim(text string) string {
	for {
		name, rest, ok := strings.Cut(text, ": ")
		if !ok || !listed[name] {
			return text
		}
		text = rest
	}
}

var listed = func() map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}()

// Args replaces errors in the arguments of a format by their text from Error.
func Args(args []any) []any {
	out := make([]any, len(args))
	for i, arg := range args {
		if err, ok := arg.(error); ok {
			arg = Error(err)
		}
		out[i] = arg
	}
	return out
}

// boundary returns the position where the next error of a chain may begin.
func boundary(text string) int {
	end := len(text)
	for _, mark := range []string{": ", "; ", "(", "\n"} {
		if at := strings.Index(text[:end], mark); at >= 0 {
			end = at + len(mark)
		}
	}
	return end
}
