package client

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/slimwire/swp/internal/disk"
)

// Journal remembers sent tasks, one file each, so that a client that was killed can resume
// them. Only the owner can read the files: they contain the input.
//
// The line of a file is the number of the last printed Event, and whether the Result was
// printed. The text is the task as JSON.
type Journal struct{ dir string }

const (
	// keepDone is how many tasks are remembered after their Result was printed.
	keepDone = 50

	// keepOpen is how long other tasks are remembered.
	keepOpen = 30 * 24 * time.Hour

	// minPrefix is the minimum length of a task_id prefix that names a task, in characters.
	minPrefix = 4

	journalSuffix = ".task"
	markFormat    = "%020d %s"
	markOctets    = 20 + 1 + 4

	markOpen   = "open"
	markDone   = "done"
	markFailed = "fail"
)

// SentTask is a task that was sent.
type SentTask struct {
	Address  string    `json:"address"`
	ID       string    `json:"task_id"` // in hex
	Kind     string    `json:"kind"`
	Agent    string    `json:"agent,omitempty"`
	Params   []string  `json:"params,omitempty"`
	Deadline time.Time `json:"deadline,omitzero"`
	Sent     time.Time `json:"sent"`
	Input    []byte    `json:"input"`
}

// TaskID returns the octets of the task_id.
func (t *SentTask) TaskID() []byte {
	id, _ := hex.DecodeString(t.ID) // checked when it was read
	return id
}

// Entry is a task of a Journal. One goroutine at a time may use it.
type Entry struct {
	SentTask
	After  uint64 // number of the last Event that was printed
	Done   bool   // the Result was printed
	Failed bool   // the Result said that the task has failed

	file checkedFile
	path string
}

// StateDir is where swp-client keeps its journal: $XDG_STATE_HOME/swp-client,
// else ~/.local/state/swp-client.
func StateDir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "swp-client"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("client: neither XDG_STATE_HOME nor HOME is set: %w", err)
	}
	return filepath.Join(home, ".local", "state", "swp-client"), nil
}

// OpenJournal returns the journal below a directory, and creates it if necessary.
func OpenJournal(state string) (*Journal, error) {
	j := &Journal{dir: filepath.Join(state, "tasks")}
	if err := os.MkdirAll(j.dir, 0o700); err != nil {
		return nil, fmt.Errorf("client: journal: %w", err)
	}
	return j, nil
}

// Add records a task before it is sent. The caller closes the entry.
func (j *Journal) Add(t SentTask) (*Entry, error) {
	if err := j.prune(time.Now()); err != nil {
		return nil, err
	}
	octets, err := json.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("client: journal: %w", err)
	}
	content := new(checkedFile).content(fmt.Sprintf(markFormat, 0, markOpen), octets)
	if err := disk.Replace(j.path(t.ID), content, nil); err != nil {
		return nil, fmt.Errorf("client: journal: %w", err)
	}
	return j.open(t.ID)
}

func (j *Journal) path(id string) string { return filepath.Join(j.dir, id+journalSuffix) }

// ErrNoTask is the error for a task that is not in the journal.
var ErrNoTask = errors.New("client: no such task in the journal")

// Find opens the task with an id, in hex, or the only task whose id has that prefix of at
// least four characters. The caller closes the entry.
func (j *Journal) Find(id string) (*Entry, error) {
	if id == "" {
		return nil, fmt.Errorf("%w: the task_id is empty; its first %d characters do", ErrNoTask, minPrefix)
	}
	id = strings.ToLower(id)
	if strings.Trim(id, "0123456789abcdef") != "" || len(id) < minPrefix {
		return nil, fmt.Errorf("%w: %q is not a task_id in hex, of which %d characters do", ErrNoTask, id, minPrefix)
	}
	names, err := j.names()
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, id) })
	switch {
	case len(names) == 0:
		return nil, fmt.Errorf("%w: %s in %s", ErrNoTask, id, j.dir)
	case len(names) > 1 && names[0] != id:
		return nil, fmt.Errorf("%w: %d tasks begin with %s", ErrNoTask, len(names), id)
	}
	return j.open(names[0])
}

// names returns the ids of all tasks, in order.
func (j *Journal) names() ([]string, error) {
	files, err := os.ReadDir(j.dir)
	if err != nil {
		return nil, fmt.Errorf("client: journal: %w", err)
	}
	var names []string
	for _, file := range files {
		if name, ok := strings.CutSuffix(file.Name(), journalSuffix); ok {
			names = append(names, name)
		}
	}
	return names, nil
}

func (j *Journal) open(id string) (*Entry, error) {
	file, err := os.OpenFile(j.path(id), os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("client: journal: %w", err)
	}
	e := &Entry{file: checkedFile{file: file}, path: file.Name()}
	if err := e.read(id); err != nil {
		_ = file.Close()
		return nil, err
	}
	return e, nil
}

func (e *Entry) read(id string) error {
	octets, err := io.ReadAll(e.file.file)
	if err != nil {
		return fmt.Errorf("client: journal: %w", err)
	}
	line, text, err := e.file.parse(octets, markOctets, "to forget the task")
	if err != nil {
		return fmt.Errorf("client: journal: %w", err)
	}
	var state string
	if _, err := fmt.Sscanf(line, "%d %s", &e.After, &state); err != nil {
		return fmt.Errorf("client: journal: %s: mark: %w", e.path, err)
	}
	if err := json.Unmarshal(text, &e.SentTask); err != nil {
		return fmt.Errorf("client: journal: %s: %w", e.path, err)
	}
	if _, err := hex.DecodeString(e.ID); err != nil || e.ID != id {
		return fmt.Errorf("client: journal: %s: task_id %q", e.path, e.ID)
	}
	e.Done, e.Failed = state == markDone || state == markFailed, state == markFailed
	return nil
}

// Mark records that the Event with a number was printed.
func (e *Entry) Mark(seq uint64) error {
	e.After = seq
	return e.mark()
}

// Finish records that the Result was printed, and whether the task succeeded.
func (e *Entry) Finish(ok bool) error {
	e.Done, e.Failed = true, !ok
	return e.mark()
}

func (e *Entry) mark() error {
	state := markOpen
	switch {
	case e.Failed:
		state = markFailed
	case e.Done:
		state = markDone
	}
	if err := e.file.move(fmt.Sprintf(markFormat, e.After, state)); err != nil {
		return fmt.Errorf("client: journal: %w", err)
	}
	return nil
}

// Forget removes the entry of a task that was never sent.
func (e *Entry) Forget() error {
	if err := os.Remove(e.path); err != nil {
		return fmt.Errorf("client: journal: %w", err)
	}
	return nil
}

// Close closes the entry; the journal keeps it.
func (e *Entry) Close() { _ = e.file.file.Close() }

// List returns all readable tasks, the newest first. The entries are closed. The error names
// the files that cannot be read; the list has the others.
func (j *Journal) List() (list []*Entry, err error) {
	names, err := j.names()
	if err != nil {
		return nil, err
	}
	var unread []error
	for _, name := range names {
		e, err := j.open(name)
		switch {
		case err == nil:
			e.Close()
			list = append(list, e)
		case !errors.Is(err, fs.ErrNotExist): // it was not just removed
			unread = append(unread, err)
		}
	}
	slices.SortStableFunc(list, func(a, b *Entry) int { return b.Sent.Compare(a.Sent) })
	return list, errors.Join(unread...)
}

// prune forgets old tasks. Of the tasks with a printed Result it keeps the latest keepDone;
// other tasks it keeps for keepOpen.
func (j *Journal) prune(now time.Time) error {
	list, _ := j.List() // without the files that cannot be read: they stop no new task
	done := 0
	for _, e := range list {
		if e.Done {
			done++
		}
		if e.Done && done >= keepDone || now.Sub(e.Sent) > keepOpen {
			if err := os.Remove(j.path(e.ID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("client: journal: %w", err)
			}
		}
	}
	return nil
}
