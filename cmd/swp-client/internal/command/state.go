package command

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/profiles/p1"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/profiles/state"
)

func newState(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "state",
		Short: "Store states at an endpoint, and read them",
		Long: `Store states at an endpoint, and read them. A state is an immutable blob, named by its
SHA-256, with the states that it was made from as its parents. BLOB and DELTA are sent
unchanged; @FILE reads them from a file, - from standard input.`,
		Example: `  tar c notes | swp-client state put swp+tls://127.0.0.1:7777 - --meta 'first notes'
  swp-client state get swp+tls://127.0.0.1:7777 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae | tar t
  swp-client state log swp+quic://127.0.0.1:7777 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae`,
	}
	cmd.AddCommand(newStatePut(f), newStateGet(f), newStateLog(f), newStateDelta(f), newStateDeltas(f), newStateForget(f))
	return cmd
}

// onState connects, runs do within the timeout, and says more about what
// endpoints refuse.
func (f *flags) onState(ctx context.Context, address string, do func(context.Context, *client.Client) error) error {
	err := f.on(ctx, address, do)
	code := answered(err, state.Name).Code
	failed := (*rpc.Error)(nil)
	switch {
	case code == state.CodeParentMissing:
		return advise(err, "Parents are put before their children, and have to be states that this identity may get.")
	case code == state.CodeConflict:
		return advise(err, "A stored state never changes; show it with: "+f.commandLine("state", "get", "--json", address, cmp.Or(f.asked, f.running.Flags().Arg(1))))
	case errors.As(err, &failed) && failed.Code == rpc.CodeUnknownMethod:
		return advise(err, "That endpoint has no such method; it may keep states all the same.")
	}
	return err
}

// stateIDs reads state_ids from the command line.
func stateIDs(what string, texts ...string) ([]state.ID, error) {
	list := make([]state.ID, len(texts))
	for i, text := range texts {
		octets, err := hex.DecodeString(text)
		if err != nil || len(octets) != state.IDSize {
			return nil, &usageError{fmt.Sprintf("%s %.80q: want %d hexadecimal digits", what, text, 2*state.IDSize)}
		}
		copy(list[i][:], octets)
	}
	return list, nil
}

func hexIDs(ids []state.ID) []string {
	list := make([]string, len(ids))
	for i := range ids {
		list[i] = hex.EncodeToString(ids[i][:])
	}
	return list
}

func newStatePut(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "put ADDR[/PARTNER] BLOB|@FILE|-",
		Short: "Put a state and print its id",
		Long: `Put a state, wait until the endpoint has stored it, and print its id: the SHA-256 of
the blob. The same state may be put again. Its parents must be stored before. At an
endpoint that cannot confirm messages the state is read back.`,
		Example: `  swp-client state put swp+tls://127.0.0.1:7777 @plan.json --meta @plan.meta
  swp-client state put swp+tls://127.0.0.1:7777 - --parent 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae <next.json`,
	}
	parents := cmd.Flags().StringArray("parent", nil, "`id` of a parent state (repeatable)")
	meta := cmd.Flags().String("meta", "", "metadata: `text`, - for standard input, or @FILE")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var s state.State
		var err error
		if s.Parents, err = stateIDs("--parent", *parents...); err != nil {
			return err
		}
		if args[1] == "-" && *meta == "-" {
			return &usageError{"standard input is the blob or the metadata, not both"}
		}
		if s.Blob, err = f.readInput(args[1]); err == nil {
			s.Metadata, err = f.readInput(*meta)
		}
		switch {
		case err != nil:
			return err
		case len(s.Blob) == 0:
			return &usageError{"the blob is empty, which no state is"}
		}
		s.ID = state.IDOf(s.Blob)
		f.asked = hex.EncodeToString(s.ID[:])
		err = f.onState(cmd.Context(), args[0], func(ctx context.Context, c *client.Client) error {
			_, err := c.PutStates(ctx, s)
			return err
		})
		return f.sent(err, func(confirmed bool) error {
			if f.asJSON {
				p := describe(&s, false)
				p.Confirmed = &confirmed
				return f.printJSON(p)
			}
			f.printf("%x\n", s.ID)
			return nil
		})
	}
	return cmd
}

// printedState is a state as JSON.
type printedState struct {
	ID       string   `json:"state_id"`
	Octets   int      `json:"octets"`
	Parents  []string `json:"parent_ids"`
	Metadata any      `json:"metadata,omitempty"`
	Blob     any      `json:"blob,omitempty"`

	Confirmed *bool `json:"confirmed,omitempty"` // of one that was put
}

func describe(s *state.State, blob bool) printedState {
	p := printedState{ID: hex.EncodeToString(s.ID[:]), Octets: len(s.Blob), Parents: hexIDs(s.Parents)}
	if len(s.Metadata) > 0 {
		p.Metadata = readable(s.Metadata)
	}
	if blob {
		p.Blob = readable(s.Blob)
	}
	return p
}

func newStateGet(f *flags) *cobra.Command {
	return &cobra.Command{
		Use:   "get ADDR[/PARTNER] STATE_ID",
		Short: "Get a state and write its blob",
		Long: `Get a state, verify its digest and write its blob to standard output, unchanged unless
that is a terminal. With --json the output also has its parents and metadata.`,
		Example: `  swp-client state get swp+tls://127.0.0.1:7777 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae >plan.json
  swp-client state get swp+tls://127.0.0.1:7777 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := stateIDs("STATE_ID", args[1])
			if err != nil {
				return err
			}
			return f.onState(cmd.Context(), args[0], func(ctx context.Context, c *client.Client) error {
				s, err := c.GetState(ctx, id[0])
				if err != nil {
					return err
				}
				if f.asJSON {
					return f.printJSON(describe(s, true))
				}
				f.printOctets(s.Blob)
				return nil
			})
		},
	}
}

func newStateLog(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "log ADDR[/PARTNER] STATE_ID",
		Short: "Print a state and its ancestors",
		Long: `Print a state and its ancestors, a line each: the id, the size of the blob, the prefixes
of the ids of its parents, and the metadata if it is text. Nearer ancestors come before
farther ones. An ancestor that the endpoint does not have, or does not show, is missing.
Each state is downloaded completely.`,
		Example: `  swp-client state log swp+tls://127.0.0.1:7777 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae --max 20
  swp-client state log swp+tls://127.0.0.1:7777 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae --json | jq -r .state_id`,
	}
	most := cmd.Flags().Int("max", 100, "maximum number of states to print")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := stateIDs("STATE_ID", args[1])
		if err != nil {
			return err
		}
		if *most < 1 {
			return &usageError{fmt.Sprintf("--max %d: want at least 1", *most)}
		}
		return f.onState(cmd.Context(), args[0], func(ctx context.Context, c *client.Client) error {
			var failed error
			more, err := c.StateLog(ctx, id[0], *most, func(l state.Logged) bool {
				failed = f.printLogged(&l)
				return failed == nil
			})
			if more && err == nil && failed == nil && !f.asJSON {
				f.warnf("there are more; print them with --max")
			}
			return errors.Join(err, failed)
		})
	}
	return cmd
}

// shortID is how many digits stand for an id that is printed elsewhere in full.
const shortID = 12

// maxSummary is how much of metadata a line shows, in octets.
const maxSummary = 80

func (f *flags) printLogged(l *state.Logged) error {
	if l.State == nil {
		if f.asJSON {
			return f.printJSON(map[string]any{"state_id": hex.EncodeToString(l.ID[:]), "missing": true})
		}
		f.printf("%x missing\n", l.ID)
		return nil
	}
	if f.asJSON {
		return f.printJSON(describe(l.State, false))
	}
	f.printf("%x %d", l.ID, len(l.State.Blob))
	for _, parent := range hexIDs(l.State.Parents) {
		f.printf(" %s", parent[:shortID])
	}
	if meta := l.State.Metadata; len(meta) > 0 && utf8.Valid(meta) {
		line, _, _ := strings.Cut(string(meta), "\n")
		f.printf(" %s", visible(p1.Clip(line, maxSummary)))
	}
	f.printf("\n")
	return nil
}
