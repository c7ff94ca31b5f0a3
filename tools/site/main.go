// Site makes web pages of the documents: make site.
//
// The pages of a version are in OUT/VERSION, and OUT/index.html lists the versions. They load
// nothing from elsewhere and can be read from a disk. A link that leads nowhere is an error.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	root := flag.String("root", ".", "directory of the repository")
	out := flag.String("out", "bin/site", "directory of all versions")
	version := flag.String("version", "dev", "name of this version")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "site: no arguments are expected, only flags: -h lists them")
		os.Exit(2)
	}
	if err := Build(os.DirFS(*root), *out, *version); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}
