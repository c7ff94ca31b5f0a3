package disk

import (
	"slices"
	"syscall"
)

// kernelFileSystems are the types, in statfs(2), of file systems that hold no files of
// programs: proc, sysfs, cgroup, cgroup2, debugfs, tracefs, securityfs and devpts.
var kernelFileSystems = []int64{0x9fa0, 0x62656572, 0x27e0eb, 0x63677270, 0x64626720, 0x74726163, 0x73636673, 0x1cd1}

// ofKernel reports whether a directory is in such a file system.
func ofKernel(dir string) bool {
	var at syscall.Statfs_t
	if syscall.Statfs(dir, &at) != nil {
		return false
	}
	return slices.Contains(kernelFileSystems, int64(at.Type)) //nolint:unconvert // it is int32 on some architectures
}
