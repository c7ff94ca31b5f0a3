package proc

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// markName is the environment variable with the mark of a group. The programs that a
// program starts inherit it.
const markName = "SWPD_PROCESS_GROUP"

// Groups keeps the process groups of running programs as files. After a crash of this
// process the kernel kills the programs, but not what they have started: the next process
// ends that. It is safe for concurrent use; a nil *Groups keeps nothing.
type Groups struct {
	opts  GroupsOptions
	boot  string
	start uint64 // of this process, in ticks since boot
}

// GroupsOptions configure OpenGroups. All fields are required.
type GroupsOptions struct {
	Dir string // created if missing; no other process may use it

	// Ended is called for each process of an earlier group that was killed.
	Ended func(pid int)

	// Failed is called when a group could not be kept or forgotten. Its program runs all
	// the same.
	Failed func(error)
}

// group is the content of a file. Its name is the id of the group, or is the mark with the
// prefix announced, which is 0 as an id, for a program that is about to start.
type group struct {
	Boot  string `json:"boot"`  // of the machine
	Start uint64 `json:"start"` // of the first process or earlier, in ticks since then
	Mark  string `json:"mark"`
}

const announced = "start-"

// OpenGroups ends what is left of the groups that an earlier process has kept: processes of
// the same group, of the same boot of the machine, that have started after the group and
// have its mark in their environment. Systems other than Linux keep no groups.
func OpenGroups(o GroupsOptions) (*Groups, error) {
	boot := bootID()
	if boot == "" {
		return nil, nil
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("proc: %w", err)
	}
	g := &Groups{opts: o, boot: boot}
	g.start, _ = startOf(os.Getpid())
	entries, err := os.ReadDir(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("proc: %w", err)
	}
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		switch {
		case strings.HasPrefix(e.Name(), announced):
			id = 0
		case err != nil || id <= 1:
			continue
		}
		path := filepath.Join(o.Dir, e.Name())
		left := new(group)
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("proc: %w", err)
		}
		if json.Unmarshal(text, left) == nil && left.Boot == boot && left.Mark != "" {
			left.end(id, o.Ended)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("proc: %w", err)
		}
	}
	return g, nil
}

// announce keeps the mark of a program that is about to start: its group has no id yet, and
// this process may be killed before keep. It returns the mark; empty if nothing is kept.
func (g *Groups) announce() (mark string) {
	if g == nil {
		return ""
	}
	mark = rand.Text()
	g.write(announced+mark, g.start, mark)
	return mark
}

// environ is what a program with a mark needs in its environment.
func environ(mark string) []string {
	if mark == "" {
		return nil
	}
	return []string{markName + "=" + mark}
}

func (g *Groups) path(id int) string { return filepath.Join(g.opts.Dir, strconv.Itoa(id)) }

// keep keeps the group of a program that was announced and has started. An id of 0 means
// that it could not be started.
func (g *Groups) keep(id int, mark string) {
	if g == nil {
		return
	}
	if id > 0 {
		start, _ := startOf(id) // 0 if it has ended already
		g.write(strconv.Itoa(id), start, mark)
	}
	g.remove(filepath.Join(g.opts.Dir, announced+mark))
}

func (g *Groups) write(name string, start uint64, mark string) {
	text, err := json.Marshal(group{Boot: g.boot, Start: start, Mark: mark})
	if err == nil {
		err = os.WriteFile(filepath.Join(g.opts.Dir, name), text, 0o600)
	}
	if err != nil {
		g.opts.Failed(fmt.Errorf("proc: %w", err))
	}
}

// forget forgets a group that has ended.
func (g *Groups) forget(id int) {
	if g != nil {
		g.remove(g.path(id))
	}
}

func (g *Groups) remove(path string) {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		g.opts.Failed(fmt.Errorf("proc: %w", err))
	}
}
