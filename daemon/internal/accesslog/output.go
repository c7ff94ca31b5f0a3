package accesslog

import (
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
)

// output writes lines to a file, or to the fallback if there is no file.
type output struct {
	fallback io.Writer
	failed   atomic.Uint64 // lines that could not be written

	mu   sync.Mutex
	file *os.File
}

// Reopen directs lines to a file, or to the Output if name is empty. It creates the
// file or appends to it. After a rotation it starts a new file of the same name. If
// Reopen fails the output does not change.
func (l *Log) Reopen(name string) error {
	var file *os.File
	if name != "" {
		var err error
		if file, err = os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640); err != nil {
			return fmt.Errorf("log.access_file: %w", err)
		}
	}
	o := &l.out
	o.mu.Lock()
	old := o.file
	o.file = file
	o.mu.Unlock()
	if old != nil {
		_ = old.Close()
	}
	return nil
}

// write writes complete lines. It counts those that cannot be written; the count is a
// metric.
func (o *output) write(lines []byte) {
	if len(lines) == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	var err error
	if o.file != nil {
		_, err = o.file.Write(lines)
	} else {
		_, err = o.fallback.Write(lines)
	}
	if err != nil {
		o.failed.Add(count(lines))
	}
}

func count(lines []byte) (n uint64) {
	for _, b := range lines {
		if b == '\n' {
			n++
		}
	}
	return n
}

func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file != nil {
		_ = o.file.Close()
		o.file = nil
	}
}
