// Package disktest has small volumes, for tests of what happens when a disk is full.
package disktest
