package command

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/sdl/check"
)

func newSDLCheck(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check [--keys FILE] [FILE]...",
		Short: "Play data files against this implementation, offline",
		Long: `Play data files of A2A-SDL against this implementation, offline, and print one JSON
object a line for each case: its name, whether it passes, the result of each delivery,
and every difference. The members of a file determine its kind: an expectation
(*.expect.json, with its body_file in the same directory), or rows of canonical forms,
wrapped keys, flows or divergences, for which the recommendations are expected.

Every case has a new server with a stopped clock. The server is as permissive as the
reference: it believes what a message claims about itself. A member of a case that is
neither compared nor used counts as a difference. Files may also be named with
--expect.

Exit status: 0 when every case passes, 1 when one fails, 2 when a file or a case cannot
be read or has an unknown kind: it is named, and all others are played.`,
		Example: `  swp-client sdl check cases/*.expect.json
  swp-client sdl check --keys keys.json flows.jsonl divergence.jsonl | jq -c 'select(.pass | not)'`,
	}
	var expect fileList
	keys := cmd.Flags().String("keys", "", "`file` with the keys that flows name (default keys.json in the directory of each file)")
	// It hides the --expect of commands that connect, and takes the files after it
	// as well.
	cmd.Flags().Var(&expect, "expect", "the same as naming the files without a flag")
	cmd.Flags().Lookup("expect").NoOptDefVal = noFile
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return f.checkSDL(cmd.Context(), *keys, append(expect, args...))
	}
	return cmd
}

// fileList is a flag that names files.
type fileList []string

// noFile is the value of a flag without one.
const noFile = "FILE"

func (l *fileList) Set(file string) error {
	if file != noFile {
		*l = append(*l, file)
	}
	return nil
}

func (l *fileList) String() string { return strings.Join(*l, " ") }

// Type makes help leave the value out, as for a flag that needs none.
func (l *fileList) Type() string { return "bool" }

func (f *flags) checkSDL(ctx context.Context, keyFile string, files []string) error {
	if len(files) == 0 {
		return &usageError{"name at least one file of cases"}
	}
	var keys *check.Keys
	if keyFile != "" {
		var err error
		if keys, err = check.LoadKeys(keyFile); err != nil {
			return &usageError{err.Error()}
		}
	}
	var cases []check.Case
	var unread []error
	for _, file := range files {
		list, err := check.Load(file, keys)
		if err != nil {
			unread = append(unread, err)
		}
		cases = append(cases, list...)
	}
	failed := 0
	for i := range cases {
		report := cases[i].Play(ctx)
		if !report.Pass {
			failed++
		}
		if err := f.printJSON(report); err != nil {
			return err
		}
	}
	if len(unread) > 0 {
		return &usageError{fmt.Sprintf("%d of %d cases fail, and not all could be read: %v", failed, len(cases), errors.Join(unread...))}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d cases fail", failed, len(cases))
	}
	return nil
}
