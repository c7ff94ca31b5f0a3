// Command pack makes what a conformance claim is published with, out of the
// reports and logs of two runs: the claims, and with -out an archive of
// everything. It is run from the root of the repository.
//
//	go run ./conformance/pack [-dir DIR] [-config swpd.yaml] [-version V] [-out FILE DOCUMENT...]
//
// docs/publication-artifact-index.md says what is in the archive.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run returns 0, 1 where something is missing or wrong, or 2 for bad flags.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	p := packer{}
	flags := flag.NewFlagSet("pack", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&p.dir, "dir", filepath.Join("artifacts", "conformance"), "`directory` of the logs, and of what is written")
	for i, name := range reports {
		flags.StringVar(&p.reports[i], name, "", "`file` of this report (default "+name+".json in the directory)")
	}
	flags.StringVar(&p.config, "config", "", "configuration `file` of the deployment that is claimed for (default: the built-in one)")
	flags.StringVar(&p.version, "version", "unknown", "`version` of the program")
	out := flags.String("out", "", "archive to write; without it the claims are printed")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	p.documents = flags.Args()
	if err := p.make(ctx, *out, stdout); err != nil {
		fmt.Fprintln(stderr, "pack:", err)
		return 1
	}
	return 0
}
