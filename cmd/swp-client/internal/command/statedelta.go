package command

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/internal/plain"
	"github.com/slimwire/swp/profiles/state"
)

func newStateDelta(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "delta ADDR[/PARTNER] STATE_ID DELTA|@FILE|-",
		Short: "Add a delta to a state",
		Long: `Add a delta to a state and wait until the endpoint has stored it. The endpoint does not
interpret deltas. The same delta may be added again.`,
		Example: `  diff old new | swp-client state delta swp+tls://127.0.0.1:7777 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae -`,
	}
	parents := cmd.Flags().StringArray("parent", nil, "`id` of a parent state (repeatable)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := stateIDs("STATE_ID", args[1])
		if err != nil {
			return err
		}
		from, err := stateIDs("--parent", *parents...)
		if err != nil {
			return err
		}
		delta, err := f.readInput(args[2])
		switch {
		case err != nil:
			return err
		case len(delta) == 0:
			return &usageError{"the delta is empty, which no delta is"}
		}
		return f.sent(f.onState(cmd.Context(), args[0], func(ctx context.Context, c *client.Client) error {
			return c.AddStateDelta(ctx, id[0], delta, from...)
		}), f.showConfirmed)
	}
	return cmd
}

func newStateDeltas(f *flags) *cobra.Command {
	return &cobra.Command{
		Use:     "deltas ADDR[/PARTNER] STATE_ID",
		Short:   "Print the deltas of a state, a line each",
		Example: `  swp-client state deltas swp+tls://127.0.0.1:7777 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := stateIDs("STATE_ID", args[1])
			if err != nil {
				return err
			}
			return f.onState(cmd.Context(), args[0], func(ctx context.Context, c *client.Client) error {
				n := 0
				var failed error
				lost, err := c.StateDeltas(ctx, id[0], func(change *state.Change) bool {
					n++
					if f.asJSON {
						failed = f.printJSON(map[string]any{"delta": readable(change.Delta), "parent_ids": hexIDs(change.Parents)})
					} else {
						f.printLine(change.Delta)
					}
					return failed == nil
				})
				if lost != nil && lost.Deltas > 0 {
					for _, gap := range lost.Gaps {
						f.warnf("%s lost after the first %d: the endpoint does not store them any more", plain.Count(gap.Lost, "delta"), gap.After)
					}
				}
				return f.listed(errors.Join(err, failed), n, "delta")
			})
		},
	}
}

func newStateForget(f *flags) *cobra.Command {
	return &cobra.Command{
		Use:   "forget ADDR[/PARTNER] STATE_ID",
		Short: "Delete a state of this identity",
		Long: `Delete a state of this identity with its deltas, which frees their space. States that
were made from it stay, without this parent. If there is no such state, the exit code
is 1.`,
		Example: `  swp-client state forget swp+tls://127.0.0.1:7777 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae`,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := stateIDs("STATE_ID", args[1])
			if err != nil {
				return err
			}
			return f.onState(cmd.Context(), args[0], func(ctx context.Context, c *client.Client) error {
				was, err := c.ForgetState(ctx, id[0])
				switch {
				case err != nil:
					return err
				case !was:
					return fmt.Errorf("this identity has no state %x there; nothing was deleted", id[0])
				case f.asJSON:
					return f.printJSON(map[string]any{"forgotten": hex.EncodeToString(id[0][:])})
				}
				f.printf("deleted %x\n", id[0])
				return nil
			})
		},
	}
}
