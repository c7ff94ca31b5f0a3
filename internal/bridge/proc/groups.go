package proc

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// markName is the environment variable with the mark of a group. The programs that a
// program starts inherit it.
const markName = "SWPD_PROCESS_GROUP"

// Groups keeps the process groups of running programs as files. After a crash of this
// process the kernel kills the programs, but not what they have started: the next process
// ends that. It is safe for concurrent use; a nil *Groups keeps nothing.
type Groups struct {
	opts GroupsOptions
	mark string
	boot string
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

// group is the content of a file. Its name is the id of the group.
type group struct {
	Boot  string `json:"boot"`  // of the machine
	Start uint64 `json:"start"` // of the first process, in ticks since then
	Mark  string `json:"mark"`
}

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
	g := &Groups{opts: o, mark: rand.Text(), boot: boot}
	entries, err := os.ReadDir(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("proc: %w", err)
	}
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil || id <= 1 {
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

// environ is what a program needs in its environment.
func (g *Groups) environ() []string {
	if g == nil {
		return nil
	}
	return []string{markName + "=" + g.mark}
}

func (g *Groups) path(id int) string { return filepath.Join(g.opts.Dir, strconv.Itoa(id)) }

// keep keeps the group of a program that was just started.
func (g *Groups) keep(id int) {
	if g == nil {
		return
	}
	start, _ := startOf(id) // 0 if it has ended already
	text, err := json.Marshal(group{Boot: g.boot, Start: start, Mark: g.mark})
	if err == nil {
		err = os.WriteFile(g.path(id), text, 0o600)
	}
	if err != nil {
		g.opts.Failed(fmt.Errorf("proc: %w", err))
	}
}

// forget forgets a group that has ended.
func (g *Groups) forget(id int) {
	if g == nil {
		return
	}
	if err := os.Remove(g.path(id)); err != nil && !os.IsNotExist(err) {
		g.opts.Failed(fmt.Errorf("proc: %w", err))
	}
}
