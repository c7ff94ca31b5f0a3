package sqlstore

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/checksum"
)

// mark is a small file beside the database with the number of acknowledged transactions.
// SQLite treats a truncated or damaged write-ahead log as if the log ended there. Without
// the mark, the store would lose acknowledged transactions silently.
//
// It is written after each commit, before the acknowledgements, and is not synced. It is
// exact after the end of a process. After a power cut it may be older than the database,
// never newer; checkLog then finds damage of the log with transactions behind it. A log that
// was cut off in addition to a power cut is detected up to the number in the mark.
type mark struct {
	commits int64
	level   store.Durability // of the last transaction
	boot    string           // boot id of the machine, if available
}

// A mark is one line of fixed size within one disk sector, so that it is replaced
// completely or not at all.
const (
	markFormat = "swp-store-1 %-7s %-36s %020d "
	markSize   = len("swp-store-1 ") + 7 + 1 + 36 + 1 + 20 + 1 + 8 + 1
)

func (m mark) append(b []byte) []byte {
	b = fmt.Appendf(b, markFormat, m.level, m.boot, m.commits)
	return fmt.Appendf(b, "%08x\n", crc32.Checksum(b, checksum.Castagnoli))
}

var errMark = errors.New("not the mark of a store")

func decodeMark(b []byte) (m mark, err error) {
	fields := strings.Fields(string(b))
	if len(b) != markSize || len(fields) < 4 {
		return m, errMark
	}
	m.level = store.Durability(fields[1])
	if len(fields) == 5 {
		m.boot = fields[2]
	}
	m.commits, err = strconv.ParseInt(fields[len(fields)-2], 10, 64)
	if err != nil || !bytes.Equal(m.append(nil), b) {
		return m, errMark
	}
	return m, nil
}

// marker is the open file of a mark.
type marker struct {
	file *os.File
	boot string
	buf  []byte
}

// openMark opens and reads a mark. present is false if there was none.
func openMark(path string) (mk *marker, m mark, present bool, err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, m, false, err
	}
	mk = &marker{file: file, boot: bootID()}
	b, err := io.ReadAll(io.LimitReader(file, int64(markSize)+1))
	if err == nil && len(b) > 0 {
		present = true
		m, err = decodeMark(b)
	}
	return mk, m, present, err
}

// write replaces the mark.
func (mk *marker) write(commits int64, level store.Durability) error {
	mk.buf = mark{commits, level, mk.boot}.append(mk.buf[:0])
	_, err := mk.file.WriteAt(mk.buf, 0)
	return err
}

// bootID identifies the current run of the machine, if the system provides that.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || len(id) > 37 {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// lost returns how many acknowledged transactions are missing in a store with the given
// number of commits. After a reboot, transactions with durability process do not count.
func (m mark) lost(commits int64, boot string) (missing int64, promised bool) {
	missing = max(m.commits-commits, 0)
	return missing, m.level != store.Process || m.boot == "" || m.boot == boot
}
