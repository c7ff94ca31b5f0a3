// Package proto holds the schemas of the profiles, one file each. The code that
// reads and writes their messages is made of them by tools/p1gen; nothing else
// than that program and tests imports this package.
package proto

import (
	"context"
	"embed"
	"io"
	"io/fs"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
)

//go:embed *.proto
var sources embed.FS

// Options is the schema of the options that the others use.
const Options = "options.proto"

// Compile returns the schemas with their comments, in the order of their names.
// Options is among them.
func Compile() (linker.Files, error) {
	names, err := fs.Glob(sources, "*.proto")
	if err != nil {
		return nil, err
	}
	compiler := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{
			Accessor: func(path string) (io.ReadCloser, error) { return sources.Open(path) },
		}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	return compiler.Compile(context.Background(), names...)
}
