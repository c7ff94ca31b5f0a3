package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/conformance"
)

// errVectors ends a run in which a vector failed; the lines of the run say which.
var errVectors = errors.New("not every vector passed")

// brokenError is why nothing was run, or why its report is not there.
type brokenError struct{ error }

// run runs a command line and returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	p := cli.Program{Root: newRoot(), Version: version, Code: func(err error) int {
		if errors.As(err, new(brokenError)) {
			return cli.ExitUsage
		}
		return cli.ExitFailed
	}}
	return p.Main(twoDashes(args), strings.NewReader(""), stdout, stderr)
}

// twoDashes has flags with one dash, as the draft prints them, read as those with two.
func twoDashes(args []string) []string {
	out := slices.Clone(args)
	for i, arg := range out {
		if len(arg) > 2 && arg[0] == '-' && arg[1] != '-' {
			out[i] = "-" + arg
		}
	}
	return out
}

// options say what is played.
type options struct {
	pattern, jsonOut, samples string
	noFallback, poc           bool
}

func newRoot() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "spec-vector-runner",
		Short: "Play conformance vectors and report",
		Long: `Play conformance vectors through the endpoint that swpd runs, print a line for each and
a summary, and optionally write a report as JSON. Vectors are read by their path in the
repository, so run it from the root of the repository. Flags may have one dash.

Exit status: 0 when every vector passed, 1 when one failed, 2 when nothing could be run
or the report could not be written, 130 after Ctrl-C.`,
		Example: `  spec-vector-runner -no-fallback -pattern 'conformance/vectors/core_*.json' -json-out core.json
  spec-vector-runner --pattern 'conformance/vectors/e1_*.json,conformance/vectors/mcp_*.json'
  spec-vector-runner version --json`,
	}
	var o options
	cmd.Flags().StringVar(&o.pattern, "pattern", "", "comma-separated `globs` of descriptors (default: the 15 official namespaces)")
	cmd.Flags().StringVar(&o.jsonOut, "json-out", "", "`file` for the JSON summary")
	cmd.Flags().BoolVar(&o.noFallback, "no-fallback", false, "strict mode: a vector whose verdict would be taken from its expectation fails (none ever is)")
	cmd.Flags().StringVar(&o.samples, "samples", "", "`file` for verdicts and security events of each vector, a line of JSON each")
	cmd.Flags().BoolVar(&o.poc, "poc", false, "play poc_ vectors, and print the lines of the kit's runner for them")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if o.poc && o.pattern == "" {
			o.pattern = "conformance/vectors/poc_*.json"
		}
		return play(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), o)
	}
	return cmd
}

func play(ctx context.Context, stdout, stderr io.Writer, o options) error {
	globs := split(o.pattern)
	paths, err := collect(globs)
	if err != nil {
		return brokenError{err}
	}
	began := time.Now()
	sampler, samples := conformance.Sampler{Target: conformance.Local{}}, new(bytes.Buffer)
	results := conformance.Run(ctx, &sampler, paths, func(r conformance.Result) {
		err = errors.Join(err, sampler.Write(samples, r))
		if ctx.Err() == nil { // later results are those of vectors that were not played
			o.show(stdout, stderr, r)
		}
	})
	if err := ctx.Err(); err != nil {
		return err
	}
	if o.samples != "" && err == nil {
		err = os.WriteFile(o.samples, samples.Bytes(), 0o644) //nolint:gosec // for publication
	}
	if err != nil {
		return brokenError{fmt.Errorf("write samples failed: %w", err)}
	}
	report := conformance.NewReport(conformance.RunInfo{
		Pattern: strings.Join(globs, ","), NoFallback: o.noFallback, TimestampUTC: conformance.Timestamp(began), RunnerGitSHA: conformance.GitSHA(ctx), Dirty: conformance.Dirty(ctx),
	}, results)
	o.sum(stdout, stderr, report)
	if o.jsonOut != "" {
		if err := report.Write(o.jsonOut); err != nil {
			return brokenError{fmt.Errorf("write JSON summary failed: %w", err)}
		}
	}
	if report.Failed > 0 {
		return errVectors
	}
	return nil
}

// show prints the line of a result.
func (o *options) show(stdout, stderr io.Writer, r conformance.Result) {
	switch {
	case !o.poc:
		_, _ = fmt.Fprintln(stdout, r)
	case r.Pass:
		_, _ = fmt.Fprintf(stdout, "PASS %s\n", filepath.Base(r.Path))
	default:
		_, _ = fmt.Fprintf(stderr, "FAIL %s: %s\n", filepath.Base(r.Path), r.Detail)
	}
}

// sum prints the last line.
func (o *options) sum(stdout, stderr io.Writer, report *conformance.Report) {
	switch {
	case !o.poc:
		_, _ = fmt.Fprintln(stdout, report.Summary())
	case report.Failed == 0:
		_, _ = fmt.Fprintf(stdout, "all %d vectors passed\n", report.Total)
	default:
		_, _ = fmt.Fprintf(stderr, "%d vector(s) failed\n", report.Failed)
	}
}

// split returns the globs of a -pattern, the default ones if it is empty.
func split(pattern string) []string {
	var globs []string
	for glob := range strings.SplitSeq(pattern, ",") {
		if glob = strings.TrimSpace(glob); glob != "" && !slices.Contains(globs, glob) {
			globs = append(globs, glob)
		}
	}
	if globs == nil {
		for _, ns := range conformance.Namespaces() {
			globs = append(globs, "conformance/vectors/"+ns.Name+"_*.json")
		}
	}
	return globs
}

// collect returns the descriptors that globs match, once each, in the order of
// their paths.
func collect(globs []string) ([]string, error) {
	var paths []string
	for _, glob := range globs {
		found, err := filepath.Glob(glob)
		if err != nil {
			return nil, fmt.Errorf("collect vectors failed: %q: %w", glob, err)
		}
		paths = append(paths, found...)
	}
	if len(paths) == 0 {
		return nil, errors.New("no vectors matched")
	}
	slices.Sort(paths)
	return slices.Compact(paths), nil
}
