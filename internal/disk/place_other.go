//go:build !linux

package disk

// ofKernel reports whether a directory is in a file system of the kernel, which only Linux has.
func ofKernel(string) bool { return false }
