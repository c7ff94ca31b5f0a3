package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// segment is one file of a trail.
type segment struct {
	number int
	size   int64
}

const segmentEnd = ".jsonl"

func segmentName(number int) string { return fmt.Sprintf("%08d%s", number, segmentEnd) }

// segments lists the segments of a trail, oldest first.
func segments(dir string) ([]segment, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var list []segment
	for _, e := range entries {
		digits, ok := strings.CutSuffix(e.Name(), segmentEnd)
		number, err := strconv.Atoi(digits)
		if !ok || err != nil || segmentName(number) != e.Name() {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		list = append(list, segment{number, info.Size()})
	}
	slices.SortFunc(list, func(a, b segment) int { return a.number - b.number })
	return list, nil
}

// maxLine limits a line of a trail, in octets. That of the largest receipt is shorter, and
// records of exchanges are far shorter.
const maxLine = 512 << 10

// ending is what stands at the end of a segment.
type ending struct {
	last   sealed // the last record
	record int64  // end of that record
	line   int64  // end of the last whole line; after a kill during a write, half a line follows

	damaged bool // half a line follows that was written as a whole one
}

// readEnding reads the end of a segment. With errNoRecord, only line and damaged are known.
func readEnding(path string) (e ending, err error) {
	f, err := os.Open(path)
	if err != nil {
		return e, err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return e, err
	}
	from := max(0, size-4*maxLine)
	tail, err := io.ReadAll(io.NewSectionReader(f, from, size-from))
	if err != nil {
		return e, err
	}
	whole := bytes.LastIndexByte(tail, '\n') + 1
	e.damaged = damagedEnd(tail[whole:])
	tail = tail[:whole]
	e.line = from + int64(len(tail))
	for len(tail) > 0 {
		begins := bytes.LastIndexByte(tail[:len(tail)-1], '\n') + 1
		if s, ok := parse(tail[begins : len(tail)-1]); ok {
			e.last, e.record = s, from+int64(len(tail))
			return e, nil
		}
		tail = tail[:begins]
	}
	return e, errNoRecord
}

var errNoRecord = errors.New("audit: no record at the end of the last segment")
