package crash

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// entry is a line of a journal. What is about to be done is written before it is
// done, and what has happened before anything follows from it.
type entry struct {
	At      int64         `json:"at"` // of clock
	Op      uint64        `json:"op"` // what belongs together in a journal
	What    string        `json:"what"`
	ID      string        `json:"id,omitempty"`
	Topic   string        `json:"topic,omitempty"`
	Payload string        `json:"payload,omitempty"` // digest
	TTL     time.Duration `json:"ttl,omitempty"`
	Conn    uint64        `json:"conn,omitempty"`  // Op of the connection
	Since   int64         `json:"since,omitempty"` // when it was begun, if it was not written then
	Text    string        `json:"text,omitempty"`
}

// What an entry says. Of a publisher:
const (
	didPublish  = "publish" // is about to, under an Op of its own
	didOwe      = "owe"     // a process before this one published it and had no answer
	hadAnswer   = "answer"  // to the publish of this Op: Text
	didAsk      = "ask"     // has asked, Since, how a delivery stands: Text
	hadNotice   = "notice"  // it is dead; Text is the reason
	sawFault    = "fault"   // what must not happen: Text
	answerFresh = "custody"
	answerTwice = "duplicate"
	answerClash = "conflict"
	answerNone  = "not found"
)

// Of a consumer:
const (
	didConnect = "connected" // Op is the number of the connection
	didDrop    = "drop"      // is about to end the connection of this Op
	wasDropped = "lost"      // the connection of this Op has ended: Text
	didGet     = "got"       // a delivery, under an Op of its own
	didAck     = "ack"       // is about to answer the delivery of this Op
	didNack    = "nack"
	didReject  = "reject"
	didIgnore  = "ignore" // will not answer it
)

// clock is one that all processes of a machine share, and that nobody sets.
func clock() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err)
	}
	return now.Nano()
}

// journal is what one process says of itself, in a file that outlives it. It is
// safe for concurrent use.
type journal struct {
	file *os.File
	ops  atomic.Uint64
}

// ending is that of the names of journals.
const ending = ".journal"

func openJournal(dir, name string) (*journal, error) {
	f, err := os.OpenFile(filepath.Join(dir, name+ending), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	return &journal{file: f}, err
}

// begin writes an entry under an Op of its own, which it returns.
func (j *journal) begin(e entry) uint64 {
	e.Op = j.ops.Add(1)
	j.write(e)
	return e.Op
}

// write writes an entry, as of now. A process whose journal cannot be written
// must not do what it cannot say.
func (j *journal) write(entries ...entry) {
	var lines []byte
	for _, e := range entries {
		e.At = clock()
		line, err := json.Marshal(e)
		if err != nil {
			panic(err)
		}
		lines = append(append(lines, line...), '\n')
	}
	if _, err := j.file.Write(lines); err != nil {
		panic(err)
	}
}

// readJournal calls yield with each entry. One that is not whole was cut off by
// the end of the process, and what it speaks of did not happen.
func readJournal(dir, name string, yield func(*entry)) error {
	f, err := os.Open(filepath.Join(dir, name+ending))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewReaderSize(f, 1<<20); ; {
		line, err := lines.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("crash: journal %s: %w", name, err)
		}
		var e entry
		if err := json.Unmarshal(bytes.TrimSuffix(line, []byte("\n")), &e); err != nil {
			return fmt.Errorf("crash: journal %s: %w", name, err)
		}
		yield(&e)
	}
}

// journals lists the journals in a directory.
func journals(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*"+ending))
	for i := range files {
		files[i] = strings.TrimSuffix(filepath.Base(files[i]), ending)
	}
	return files, err
}
