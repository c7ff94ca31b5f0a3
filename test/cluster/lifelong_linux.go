package cluster

import "syscall"

// lifelong has a process end with this one.
func lifelong() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
