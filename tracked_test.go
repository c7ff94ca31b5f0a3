package swp_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// maxTracked is the largest file, in octets, that the repository may track.
const maxTracked = 1 << 20

// programHeads are the first octets of programs, by their format.
var programHeads = map[string][]byte{
	"ELF":                {0x7f, 'E', 'L', 'F'},
	"PE":                 {'M', 'Z'},
	"Mach-O, 32 bits":    {0xce, 0xfa, 0xed, 0xfe},
	"Mach-O, 64 bits":    {0xcf, 0xfa, 0xed, 0xfe},
	"Mach-O, big-endian": {0xfe, 0xed, 0xfa},
	"Mach-O, universal":  {0xca, 0xfe, 0xba, 0xbe},
}

// untrackable returns why a file of this size with these first octets does not belong into
// the repository, or nil.
func untrackable(size int64, head []byte) error {
	if size > maxTracked {
		return fmt.Errorf("%d octets, at most %d are allowed", size, maxTracked)
	}
	for format, octets := range programHeads {
		if bytes.HasPrefix(head, octets) {
			return fmt.Errorf("it is a program (%s)", format)
		}
	}
	return nil
}

func TestTheRepositoryTracksNoProgramsAndNoLargeFiles(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat(".git"); err != nil {
		t.Skip("this tree has no index of git:", err)
	}
	out, err := exec.CommandContext(t.Context(), "git", "ls-files", "-z").Output()
	if err != nil {
		t.Fatal("git ls-files:", err)
	}
	names := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	if len(names) < 100 {
		t.Fatalf("git's index has %d files: that is not this repository", len(names))
	}
	for _, name := range names {
		info, err := os.Lstat(name)
		switch {
		case errors.Is(err, os.ErrNotExist): // removed, and not yet from the index
			continue
		case err != nil:
			t.Fatal(err)
		case !info.Mode().IsRegular():
			continue
		}
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		head := make([]byte, 4)
		n, err := io.ReadFull(file, head)
		file.Close()
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatal(err)
		}
		if err := untrackable(info.Size(), head[:n]); err != nil {
			t.Errorf("%s: %v: remove it with git rm --cached, and list it in .gitignore", name, err)
		}
	}
}

func TestUntrackableFiles(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		size  int64
		head  string
		wrong bool
	}{
		"at the limit":       {maxTracked, "text", false},
		"above the limit":    {maxTracked + 1, "text", true},
		"empty":              {0, "", false},
		"a script":           {100, "#!/b", false},
		"ELF":                {100, "\x7fELF", true},
		"PE":                 {100, "MZ\x90\x00", true},
		"Mach-O":             {100, "\xcf\xfa\xed\xfe", true},
		"Mach-O, big-endian": {100, "\xfe\xed\xfa\xcf", true},
		"Mach-O, universal":  {100, "\xca\xfe\xba\xbe", true},
	} {
		if err := untrackable(c.size, []byte(c.head)); (err != nil) != c.wrong {
			t.Errorf("%s: %v", name, err)
		}
	}
}
