package conformance

import "fmt"

func buildChannel(s *stage) error { return fmt.Errorf("%w: soon", ErrNotPlayed) }
