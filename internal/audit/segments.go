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

// maxLine limits a line of a trail, in octets. Records are far shorter.
const maxLine = 64 << 10

// lastLine returns the last sealed line of a segment and its end. After a kill during a
// write, half a line may follow.
func lastLine(path string) (s sealed, end int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return s, 0, err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return s, 0, err
	}
	from := max(0, size-4*maxLine)
	tail, err := io.ReadAll(io.NewSectionReader(f, from, size-from))
	if err != nil {
		return s, 0, err
	}
	for {
		at := bytes.LastIndexByte(tail, '\n')
		if at < 0 {
			return s, 0, errNoRecord
		}
		begins := bytes.LastIndexByte(tail[:at], '\n') + 1
		if s, ok := parse(tail[begins:at]); ok {
			return s, from + int64(at) + 1, nil
		}
		tail = tail[:begins]
	}
}

var errNoRecord = errors.New("audit: no record at the end of the last segment")
