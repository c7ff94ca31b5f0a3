// Package spiffe has the names of SPIFFE that configurations and programs share.
package spiffe

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
)

// FromEnvironment is the address of a Workload API that stands for the value of the
// environment variable SPIFFE_ENDPOINT_SOCKET. Without it the variable is not read.
const FromEnvironment = "$SPIFFE_ENDPOINT_SOCKET"

// ErrUnset is returned by Socket if the environment has no address.
var ErrUnset = errors.New("the environment variable SPIFFE_ENDPOINT_SOCKET is not set")

// Socket returns the address of a Workload API, unix:///PATH, for an address in a
// configuration: the same, or FromEnvironment.
func Socket(address string) (string, error) {
	if address == FromEnvironment {
		if address = os.Getenv(FromEnvironment[1:]); address == "" {
			return "", ErrUnset
		}
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "unix" || u.Opaque != "" || u.Host != "" || !filepath.IsAbs(u.Path) || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("%.200q is not the address of a SPIFFE Workload API, want unix:///PATH such as unix:///run/spire/agent.sock, or %s; TCP is not used, because every user of the machine could ask over it", address, FromEnvironment)
	}
	return address, nil
}

// CheckEndpoint returns why a bundle endpoint cannot have a URL.
func CheckEndpoint(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.Opaque != "" || u.User != nil || u.Fragment != "" {
		return fmt.Errorf("%.200q is not the URL of a bundle endpoint, want https://host/path without a user and a fragment", text)
	}
	return nil
}
