package part

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/slimwire/swp/daemon/config"
)

// ReadUpTo reads a file of at most limit octets.
func ReadUpTo(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, config.Unreadable(name, err)
	}
	octets, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if int64(len(octets)) > limit {
		return nil, fmt.Errorf("%s has more than %d octets", name, limit)
	}
	return octets, nil
}

// Stamp describes the state of files without opening them. It changes when a file is
// replaced.
func Stamp(names ...string) string {
	var b strings.Builder
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			b.WriteString("missing;")
			continue
		}
		fmt.Fprintf(&b, "%d %d %v;", info.Size(), info.ModTime().UnixNano(), info.Mode())
	}
	return b.String()
}
