// Package netcut makes hosts, each with its address, on this machine, for tests that cut the links
// between them. Each host is a network namespace. The network of the tests is the router of all hosts,
// and drops the packets of a cut link without notice, as a switch without power does.
package netcut
