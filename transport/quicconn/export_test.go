package quicconn

// WindowsGrown is what the receive windows of l have grown together.
func (l *Listener) WindowsGrown() uint64 {
	l.windows.mu.Lock()
	defer l.windows.mu.Unlock()
	return l.windows.used
}
