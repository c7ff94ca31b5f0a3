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
	"sync"
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
	Kind    string        `json:"kind,omitempty"`  // of work
	Seq     uint64        `json:"seq,omitempty"`   // a number in an order that ID names
	Again   bool          `json:"again,omitempty"` // a process before this one wrote it: it is still so
}

// What an entry says. Of a publisher:
const (
	didPublish  = "publish"   // is about to, under an Op of its own
	didOwe      = "owe"       // a process before this one published it and had no answer
	hadAnswer   = "answer"    // to the publish of this Op: Text
	didAsk      = "ask"       // has asked, Since, how a delivery stands: Text
	didAskAll   = "ask all"   // asks from Since on, of the clock of swpd, how everything stands
	hadNotice   = "notice"    // it is dead; Text is the reason
	sawFault    = "fault"     // what must not happen: Text
	hadTrouble  = "trouble"   // what may happen, for those who read the journal: Text
	tookOver    = "took over" // what the processes before this one have left is all written down
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

// Of those whose work has a kind and a name, ID:
const (
	didBegin  = "begin"  // is about to, under an Op of its own: up to Seq, or Payload
	didReach  = "reach"  // Seq was acknowledged, or was seen and is not asked for again
	didSee    = "see"    // an event of the subscription of this Op
	didEnd    = "end"    // the one outcome is Text, with Payload
	didLook   = "look"   // has looked for it, Since: Text, with Payload
	didRun    = "run"    // an executor is about to carry it out, under an Op of its own
	didFinish = "finish" // what was run under this Op
)

// The kinds of work.
const (
	anEvent       = "event"        // of the producer ID, numbered
	aState        = "state"        // of the writer ID, numbered
	aDelta        = "delta"        // of that state
	anArtifact    = "artifact"     // ID
	aSubscription = "subscription" // durable: its subscriber keeps the cursor with what it saw
	aListener     = "listener"     // a subscription that is live only
	aTask         = "task"
	aCall         = "call" // under a key: it may be repeated
	anExecutor    = "executor"
	aToolCall     = "tool" // it may not
)

// How work ends, and what somebody who looks for it finds; another text says why it failed.
const (
	endOK   = "ok"
	endNone = "not found"
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

	mu              sync.Mutex
	written, synced uint64 // calls of write; those whose entries are on disk
	syncing         *sync.Cond
	busy            bool // somebody syncs
}

// ending is that of the names of journals.
const ending = ".journal"

func openJournal(dir, name string) (*journal, error) {
	f, err := os.OpenFile(filepath.Join(dir, name+ending), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	j := &journal{file: f}
	j.syncing = sync.NewCond(&j.mu)
	return j, err
}

// begin writes an entry under an Op of its own, which it returns.
func (j *journal) begin(e entry) uint64 {
	e.Op = j.ops.Add(1)
	j.write(e)
	return e.Op
}

// write writes entries, as of now, and returns when they are on disk. A process whose
// journal cannot be written must not do what it cannot say.
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
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := j.file.Write(lines); err != nil {
		panic(err)
	}
	j.written++
	j.sync(j.written)
}

// note writes an entry that outlives the process, without waiting for the disk.
func (j *journal) note(e entry) {
	e.Op, e.At = j.ops.Add(1), clock()
	line, err := json.Marshal(e)
	if err == nil {
		j.mu.Lock()
		_, err = j.file.Write(append(line, '\n'))
		j.mu.Unlock()
	}
	if err != nil {
		panic(err)
	}
}

// sync returns when what was written so far is on disk, for all who wait for that at
// once. The caller holds mu.
func (j *journal) sync(mark uint64) {
	for j.synced < mark {
		if j.busy {
			j.syncing.Wait()
			continue
		}
		j.busy = true
		all := j.written
		j.mu.Unlock()
		err := unix.Fdatasync(int(j.file.Fd()))
		j.mu.Lock()
		if err != nil {
			panic(err)
		}
		j.busy, j.synced = false, all
		j.syncing.Broadcast()
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
