// Package abuse measures what hostile peers cost: built programs in processes
// of their own, without the race detector, over loopback. Each test is a row of
// the catalogue of abuse and has three tries, of which the best counts. While it
// runs a well-behaved peer makes one exchange after the other.
//
// The package has no code but tests, and they need the build tag abuse:
//
//	make abuse
package abuse
