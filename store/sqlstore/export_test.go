package sqlstore

// WaitChecked waits until structure and rows of a store were checked.
func (s *Store) WaitChecked() { s.checks.done.Wait() }
