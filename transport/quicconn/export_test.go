package quicconn

// WindowsGrown is what the receive windows of l have grown together.
func (l *Listener) WindowsGrown() uint64 {
	l.windows.mu.Lock()
	defer l.windows.mu.Unlock()
	return l.windows.used
}

// Crash takes the socket away, as the end of a process would: nobody is told.
func (l *Listener) Crash() { _ = l.udp.Close() }
