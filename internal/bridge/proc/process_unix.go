//go:build unix && !linux

package proc

import (
	"os/exec"
	"syscall"
)

// confine gives the child its own process group.
func confine(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// reap waits for the child to exit, collects it and ends what is left of its
// group, whose members, if there are any, still hold its id.
func reap(cmd *exec.Cmd) error {
	pid := cmd.Process.Pid
	err := cmd.Wait()
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	return err
}
