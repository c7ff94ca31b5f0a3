package proc

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// openGroups opens groups, and returns which processes that has ended.
func openGroups(t *testing.T, dir string) (g *Groups, ended []int) {
	t.Helper()
	g, err := OpenGroups(GroupsOptions{Dir: dir, Ended: func(pid int) { ended = append(ended, pid) }, Failed: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	return g, ended
}

// parent starts a program that starts another one and tells its process id.
func parent(t *testing.T, g *Groups) (p *Process, child int) {
	t.Helper()
	program, err := Resolve(Config{Command: "/bin/sh", Args: []string{"-c", `trap "" TERM; sleep 600 & echo $!; wait`}, Path: os.Getenv("PATH"), Groups: g})
	if err != nil {
		t.Fatal(err)
	}
	if p, err = program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	line, err := bufio.NewReader(p.Stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if child, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(child, syscall.SIGKILL) })
	return p, child
}

// crash does what the kernel does when this process is killed: the program ends, and nobody
// ends its group.
func crash(t *testing.T, p *Process) {
	t.Helper()
	cmd := p.body.(local).cmd
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
}

// runs reports whether a process runs.
func runs(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestGW11AGroupThatACrashHasLeftIsEnded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "groups")
	g, ended := openGroups(t, dir)
	if len(ended) > 0 {
		t.Errorf("ended %v of no group", ended)
	}
	p, child := parent(t, g)
	crash(t, p)
	if !runs(child) {
		t.Fatal("the child ended with the program: there is nothing to test")
	}
	if _, ended = openGroups(t, dir); !slices.Equal(ended, []int{child}) {
		t.Errorf("ended %v, want %d", ended, child)
	}
	for deadline := time.Now().Add(time.Minute); runs(child) && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if runs(child) {
		t.Error("the child runs")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// The crash may come while a program is started, before its process group is kept.
func TestGW11AGroupThatWasOnlyAnnouncedIsEnded(t *testing.T) {
	for name, half := range map[string]int{"no file": 0, "half a file": 10} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			g, _ := openGroups(t, dir)
			p, child := parent(t, g)
			file := g.path(p.PID())
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var of group
			if err := json.Unmarshal(text, &of); err != nil {
				t.Fatal(err)
			}
			g.write(announced+of.Mark, g.start, of.Mark)
			if err := os.WriteFile(file, text[:half], 0o600); err != nil {
				t.Fatal(err)
			}
			if half == 0 {
				_ = os.Remove(file)
			}
			crash(t, p)
			if _, ended := openGroups(t, dir); !slices.Equal(ended, []int{child}) {
				t.Errorf("ended %v, want %d", ended, child)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("%v is left, %v", left, err)
			}
		})
	}
}

func TestAProgramThatCannotStartLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	g, _ := openGroups(t, dir)
	file := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(file, []byte("#!/does/not/exist"), 0o700); err != nil {
		t.Fatal(err)
	}
	program, err := Resolve(Config{Command: file, Path: os.Getenv("PATH"), Groups: g})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := program.Start(); err == nil {
		t.Fatal("it has started")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

func TestAProgramThatEndsLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	g, _ := openGroups(t, dir)
	p, _ := parent(t, g)
	if kept, err := os.ReadDir(dir); err != nil || len(kept) != 1 {
		t.Errorf("kept %v while it runs, %v", kept, err)
	}
	stop := make(chan struct{})
	close(stop)
	_ = p.Wait(stop, func() time.Duration { return 0 })
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// An id may belong to somebody else by now.
func TestGW11AProcessOfOthersIsNotEnded(t *testing.T) {
	dir := t.TempDir()
	g, _ := openGroups(t, dir)
	p, child := parent(t, g)
	file := g.path(p.PID())
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	crash(t, p)
	for name, change := range map[string]func(*group){
		"another boot":   func(g *group) { g.Boot = "x" + g.Boot },
		"a later start":  func(g *group) { g.Start += 1 << 40 },
		"another mark":   func(g *group) { g.Mark += "x" },
		"without a mark": func(g *group) { g.Mark = "" },
	} {
		t.Run(name, func(t *testing.T) {
			var of group
			if err := json.Unmarshal(text, &of); err != nil {
				t.Fatal(err)
			}
			change(&of)
			changed, err := json.Marshal(of)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, changed, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, ended := openGroups(t, dir); len(ended) > 0 || !runs(child) {
				t.Errorf("ended %v", ended)
			}
		})
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ended := openGroups(t, dir); len(ended) != 1 {
		t.Errorf("unchanged: ended %v", ended)
	}
}

// While a process executes another program, for some microseconds it has no environment.
func TestTheEnvironmentIsThatOfTheProgramThatBegins(t *testing.T) {
	g, _ := openGroups(t, t.TempDir())
	for range 20 {
		_, child := parent(t, g)
		for range 100 {
			if len(environOf(child)) == 0 {
				t.Fatal("the program has no environment")
			}
		}
	}
}
