// Swp-bench measures SWP against raw TLS, raw QUIC, gRPC and NATS, side by side
// on this machine, and holds the ratios against the promises of the design.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/slimwire/swp/test/bench/suite"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == suite.RoleCommand {
		exit(suite.Role(os.Args[2:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exit(run(ctx, os.Args[1:]))
}

func exit(err error) {
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	}
	fmt.Fprintln(os.Stderr, "swp-bench:", err)
	if errors.Is(err, suite.ErrDisturbed) {
		os.Exit(3)
	}
	os.Exit(1)
}

// partsHelp is the help of -parts.
func partsHelp() string {
	all, quick := suite.Parts(false), suite.Parts(true)
	left := slices.DeleteFunc(slices.Clone(all), func(part string) bool { return slices.Contains(quick, part) })
	return "what to measure, of " + strings.Join(all, ",") + " (default all; with -quick all but " + strings.Join(left, ",") + ")"
}

func run(ctx context.Context, args []string) error {
	var (
		opts  = suite.Options{Progress: os.Stderr}
		flags = flag.NewFlagSet("swp-bench", flag.ContinueOnError)
		list  = func(to *[]string) func(string) error {
			return func(s string) error { *to = strings.Split(s, ","); return nil }
		}
		out     = flags.String("out", "", "write the figures to this file as JSON")
		inside  = flags.Bool("in-process", false, "use a server of this program, built from the packages of swpd, instead of swpd")
		quietly = flags.Bool("quiet", false, "say nothing while measuring")
		guard   = flags.String("guard", "", "only hold the processor time of the main loads against the figures of this file")
		update  = flags.Bool("guard-update", false, "write new figures to the file of -guard")
	)
	growth := flags.Bool("growth", false, "only measure rates and memory as a backlog grows; plots go beside -out")
	most := flags.Uint64("backlog", 10_000_000, "the largest backlog of -growth")
	flags.Func("parts", partsHelp(), list(&opts.Parts))
	flags.Func("systems", "echo only these systems, such as raw-tls,grpc-unary; each brings ours it is compared with", list(&opts.Systems))
	flags.Func("cells", "echo only under these loads, such as 64B/64x1: payload, in flight, connections", list(&opts.Cells))
	flags.BoolVar(&opts.Quick, "quick", false, "only loads with a promise, fewer rounds, 2,000 idle connections (the promise is about 10,000)")
	flags.IntVar(&opts.Rounds, "rounds", 0, "rounds of loads with a promise; others have a third (default 5, quick 3)")
	flags.DurationVar(&opts.Warmup, "warmup", 0, "before each window (default 250ms)")
	flags.DurationVar(&opts.Duration, "duration", 0, "of each window (default 500ms)")
	flags.IntVar(&opts.Idle, "idle", 0, "idle connections to hold (default 10000, quick 2000)")
	flags.DurationVar(&opts.Silence, "silence", 0, "before idle connections are weighed (default 10s)")
	flags.StringVar(&opts.SWPD, "swpd", "bin/swpd", "the swpd to measure")
	flags.StringVar(&opts.CPUProfile, "cpuprofile", "", "write a CPU profile of each process into this folder; implies -in-process")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if *inside || opts.CPUProfile != "" {
		opts.SWPD = ""
	}
	if *quietly {
		opts.Progress = nil
	}
	switch {
	case *guard != "":
		if err := only(flags, "guard", "guard-update", "swpd", "warmup", "duration", "quiet"); err != nil {
			return err
		}
		return runGuard(ctx, opts, *guard, *update)
	case *update:
		return errors.New("-guard-update wants the file of -guard")
	case *growth:
		if err := only(flags, "growth", "backlog", "swpd", "quiet", "out"); err != nil {
			return err
		}
		return runGrowth(ctx, opts, *most, *out)
	case given(flags, "backlog"):
		return errors.New("-backlog has no effect without -growth")
	}
	report, err := suite.Run(ctx, opts)
	if err != nil {
		return err
	}
	if err := report.WriteTable(os.Stdout); err != nil {
		return err
	}
	if *out != "" {
		if err := write(*out, report); err != nil {
			return err
		}
	}
	if n := len(report.Failures); n > 0 {
		return fmt.Errorf("%d parts could not be measured", n)
	}
	return nil
}

// given reports whether a flag is on the command line.
func given(flags *flag.FlagSet, name string) (found bool) {
	flags.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

// only refuses flags that have no effect beside the first.
func only(flags *flag.FlagSet, with ...string) (err error) {
	flags.Visit(func(f *flag.Flag) {
		if !slices.Contains(with, f.Name) {
			err = errors.Join(err, fmt.Errorf("-%s has no effect with -%s", f.Name, with[0]))
		}
	})
	return err
}

// runGuard holds the figures of a file against this machine's, or writes them.
func runGuard(ctx context.Context, opts suite.Options, path string, update bool) error {
	guard, err := suite.ReadGuard(path)
	if err != nil {
		return err
	}
	report, err := suite.RunGuard(ctx, opts, guard)
	if err != nil {
		return err
	}
	switch err := report.WriteTable(os.Stdout); {
	case err != nil:
		return err
	case !update:
		return report.Check()
	}
	if err := report.Check(); errors.Is(err, suite.ErrDisturbed) {
		return err
	}
	return suite.WriteGuard(path, guard, report)
}

// runGrowth measures backlogs, and draws plots beside the file of its figures.
func runGrowth(ctx context.Context, opts suite.Options, most uint64, out string) error {
	report, err := suite.RunGrowth(ctx, opts, most)
	if err != nil {
		return err
	}
	if err := report.WriteTable(os.Stdout); err != nil || out == "" {
		return err
	}
	return errors.Join(write(out, report), report.WritePlots(filepath.Dir(out)))
}

func write(path string, report any) error {
	raw, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	return os.WriteFile(path, append(raw, '\n'), 0o600)
}
