//go:build unix && !linux

package cluster

import "syscall"

func lifelong() *syscall.SysProcAttr { return nil }
