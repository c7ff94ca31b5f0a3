package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/slimwire/swp/conformance"
)

// Exit codes.
const (
	passed = 0
	failed = 1
	broken = 2
)

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("spec-vector-runner", flag.ContinueOnError)
	flags.SetOutput(stderr)
	pattern := flags.String("pattern", "", "comma-separated `globs` of descriptors (default: the 15 official namespaces)")
	jsonOut := flags.String("json-out", "", "`file` for the JSON summary")
	noFallback := flags.Bool("no-fallback", false, "strict mode: a vector whose verdict would be taken from its expectation fails (none ever is)")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return passed
	case err != nil:
		return broken
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "unexpected argument %q; vectors are chosen with -pattern\n", flags.Arg(0))
		return broken
	}
	globs := split(*pattern)
	paths, err := collect(globs)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return broken
	}
	began := time.Now()
	results := conformance.Run(ctx, conformance.Local{}, paths, func(r conformance.Result) { fmt.Fprintln(stdout, r) })
	report := conformance.NewReport(conformance.RunInfo{
		Pattern: strings.Join(globs, ","), NoFallback: *noFallback, TimestampUTC: conformance.Timestamp(began), RunnerGitSHA: conformance.GitSHA(ctx),
	}, results)
	fmt.Fprintln(stdout, report.Summary())
	if *jsonOut != "" {
		if err := report.Write(*jsonOut); err != nil {
			fmt.Fprintln(stderr, "write JSON summary failed:", err)
			return broken
		}
	}
	if report.Failed > 0 {
		return failed
	}
	return passed
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
