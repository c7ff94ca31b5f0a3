package conformance

import "fmt"

func buildMCP(setup string) (func(*stage) error, error) {
	return nil, fmt.Errorf("%w: setup %q", ErrNotPlayed, setup)
}
