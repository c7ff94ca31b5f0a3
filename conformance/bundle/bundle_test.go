package bundle_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/conformance/bundle"
)

var at = time.Date(2026, 11, 21, 1, 2, 3, 4, time.FixedZone("", 3600))

func files() []bundle.File {
	return []bundle.File{{"docs/b.md", []byte("b")}, {"a.json", []byte("{}\n")}, {"docs/empty", []byte{}}}
}

func written(t *testing.T, f []bundle.File) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := bundle.Write(&b, f, at); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestArchiveHoldsWhatWasPutIn(t *testing.T) {
	got, err := bundle.Read(bytes.NewReader(written(t, files())))
	if err != nil {
		t.Fatal(err)
	}
	want := []bundle.File{{"a.json", []byte("{}\n")}, {"docs/b.md", []byte("b")}, {"docs/empty", []byte{}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The same files make the same octets, in whatever order they are handed in.
func TestArchiveIsReproducible(t *testing.T) {
	reversed := files()
	slices.Reverse(reversed)
	a := written(t, files())
	if !bytes.Equal(a, written(t, reversed)) {
		t.Error("the order of the files shows")
	}
	z, err := gzip.NewReader(bytes.NewReader(a))
	if err != nil {
		t.Fatal(err)
	}
	if !z.ModTime.IsZero() || z.Name != "" || z.Comment != "" {
		t.Errorf("gzip header %+v", z.Header)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.Gname != "" || h.Mode != 0o644 || !h.ModTime.Equal(at.Truncate(time.Second)) {
			t.Errorf("%+v", h)
		}
	}
}

func TestNamesThatLeadElsewhereAreRefused(t *testing.T) {
	if err := bundle.Write(io.Discard, []bundle.File{{Name: "a/"}}, at); err == nil {
		t.Error("a directory was written")
	}
	for _, name := range []string{"", ".", "..", "../a", "/a", "a/../b", "a//b", `a\b`} {
		if err := bundle.Write(io.Discard, []bundle.File{{Name: name}}, at); err == nil {
			t.Errorf("%q was written", name)
		}
		if _, err := bundle.Read(archive(t, &tar.Header{Typeflag: tar.TypeReg, Name: name})); err == nil {
			t.Errorf("%q was read", name)
		}
	}
	if err := bundle.Write(io.Discard, append(files(), files()[0]), at); err == nil || !strings.Contains(err.Error(), "there twice") {
		t.Errorf("%v", err)
	}
}

func TestWhatIsNoPlainFileIsRefused(t *testing.T) {
	for _, kind := range []byte{tar.TypeSymlink, tar.TypeLink, tar.TypeDir, tar.TypeFifo} {
		if _, err := bundle.Read(archive(t, &tar.Header{Typeflag: kind, Name: "a", Linkname: "b"})); err == nil {
			t.Errorf("type %q was read", kind)
		}
	}
	whole := written(t, files())
	for n := range whole {
		if _, err := bundle.Read(bytes.NewReader(whole[:n])); err == nil {
			t.Fatalf("%d of %d octets were read", n, len(whole))
		}
	}
}

// archive is one that Write would not write.
func archive(t *testing.T, h *tar.Header) io.Reader {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	if err := w.WriteHeader(h); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return &b
}
