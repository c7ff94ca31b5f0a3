//go:build !linux

package proc

func bootID() string { return "" }

func startOf(int) (uint64, bool) { return 0, false }

func (*group) end(int, func(pid int)) {}
