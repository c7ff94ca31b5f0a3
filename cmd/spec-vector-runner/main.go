// Command spec-vector-runner plays conformance vectors and reports.
//
//	spec-vector-runner [-pattern GLOBS] [-no-fallback] [-json-out FILE]
//
// It is run from the root of the repository. The exit code is 0 if every vector
// passed, 1 if one failed, 2 if nothing could be run or the report not be
// written. docs/spec-vector-runner-output.md describes the output.
package main

import "os"

// version is set by the build: -ldflags "-X main.version=…".
var version string

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }
