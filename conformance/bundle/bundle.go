// Package bundle writes and reads the archive that a conformance claim is
// published with: a gzipped tar file that holds the same octets whenever it is
// made of the same files.
//
// Specification: docs/publication-artifact-index.md.
package bundle

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// File is a file of the archive.
type File struct {
	Name    string // a path with slashes, relative, without dots
	Content []byte
}

// Write writes an archive. Files come in the order of their names, belong to
// nobody, can be read by everybody and were changed at the given time; the
// header of gzip is empty. Names that are not as they should be, or there twice,
// are an error.
func Write(w io.Writer, files []File, changed time.Time) error {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	for i, f := range files {
		if err := checkName(f.Name); err != nil {
			return err
		}
		if i > 0 && files[i-1].Name == f.Name {
			return fmt.Errorf("bundle: %q is there twice", f.Name)
		}
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: f.Name, Size: int64(len(f.Content)), Mode: 0o644, ModTime: changed.UTC().Truncate(time.Second), Format: tar.FormatUSTAR,
		}
		if err := t.WriteHeader(header); err != nil {
			return fmt.Errorf("bundle: %q: %w", f.Name, err)
		}
		if _, err := t.Write(f.Content); err != nil {
			return fmt.Errorf("bundle: %q: %w", f.Name, err)
		}
	}
	return errors.Join(t.Close(), z.Close())
}

// maxSize bounds what Read takes, in octets of all files together.
const maxSize = 256 << 20

// Read returns the files of an archive, in their order. Anything that Write would
// not have written is an error: links, directories, names that lead out of it.
func Read(r io.Reader) ([]File, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	all := &io.LimitedReader{R: z, N: maxSize}
	t := tar.NewReader(all)
	var files []File
	for {
		header, err := t.Next()
		if errors.Is(err, io.EOF) {
			// The checksum is behind what the tar file needs.
			if _, err := io.Copy(io.Discard, all); err != nil {
				return nil, fmt.Errorf("bundle: %w", err)
			}
			return files, nil
		}
		if err != nil {
			return nil, fmt.Errorf("bundle: %w", err)
		}
		if err := checkName(header.Name); err != nil {
			return nil, err
		}
		if header.Typeflag != tar.TypeReg {
			return nil, fmt.Errorf("bundle: %q is no plain file", header.Name)
		}
		content, err := io.ReadAll(t)
		if err != nil {
			return nil, fmt.Errorf("bundle: %q: %w", header.Name, err)
		}
		files = append(files, File{header.Name, content})
	}
}

func checkName(name string) error {
	if !fs.ValidPath(name) || name == "." || path.Clean(name) != name || strings.Contains(name, `\`) {
		return fmt.Errorf("bundle: name %q, want a relative path", name)
	}
	return nil
}
