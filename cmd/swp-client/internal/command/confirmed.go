package command

import (
	"errors"

	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/profiles"
)

// ExitUnconfirmed is the exit code if messages may be lost: the other end has neither
// confirmed nor refused it.
const ExitUnconfirmed = 3

// exitCode is the exit code for an error.
func exitCode(err error) int {
	if errors.As(err, new(*profiles.UnconfirmedError)) {
		return ExitUnconfirmed
	}
	return cli.ExitFailed
}

// sent ends a command that has sent messages: it prints the result, which says whether they
// are confirmed. If the other end cannot confirm them, that is a remark; if it has hung up
// instead, an error with ExitUnconfirmed.
func (f *flags) sent(err error, show func(confirmed bool) error) error {
	unsure, ok := errors.AsType[*profiles.UnconfirmedError](err)
	if err != nil && !ok {
		return err
	}
	if failed := show(err == nil); failed != nil {
		return failed
	}
	if ok && !unsure.Lost {
		f.warnf("%v", unsure)
		return nil
	}
	return err
}

// showConfirmed is for sent in a command that has no other result.
func (f *flags) showConfirmed(confirmed bool) error {
	if !f.asJSON {
		return nil
	}
	return f.printJSON(map[string]bool{"confirmed": confirmed})
}
