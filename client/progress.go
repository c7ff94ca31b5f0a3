package client

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Progress is a line on a terminal that moves while something is awaited. Its
// methods may be called by any goroutine.
type Progress struct {
	w    io.Writer // nil without a terminal: nothing is shown
	stop chan struct{}
	done chan struct{}

	mu    sync.Mutex
	began time.Time
	text  string
	turn  int
}

// progressPeriod is how often the line moves.
const progressPeriod = 120 * time.Millisecond

// NewProgress shows text, and the time since, on w if that is a terminal. The
// caller stops it.
func NewProgress(w io.Writer, text string) *Progress {
	if !IsTerminal(w) {
		w = nil
	}
	return newProgress(w, text)
}

func newProgress(w io.Writer, text string) *Progress {
	p := &Progress{w: w, text: text, began: time.Now(), stop: make(chan struct{}), done: make(chan struct{})}
	if w == nil {
		close(p.done)
		return p
	}
	go p.run()
	return p
}

func (p *Progress) run() {
	defer close(p.done)
	tick := time.NewTicker(progressPeriod)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			p.mu.Lock()
			p.turn++
			p.draw()
			p.mu.Unlock()
		case <-p.stop:
			p.mu.Lock()
			p.clear()
			p.mu.Unlock()
			return
		}
	}
}

// Print takes the line away while f writes. A new text takes the place of the
// old one; empty keeps it.
func (p *Progress) Print(text string, f func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if text != "" {
		p.text = text
	}
	p.clear()
	err := f()
	p.draw()
	return err
}

var wheel = []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")

// draw and clear write the line and take it away. The caller holds mu.
func (p *Progress) draw() {
	if p.w != nil {
		elapsed := time.Since(p.began).Round(time.Second)
		_, _ = fmt.Fprintf(p.w, "\r\x1b[K%c %s, %v", wheel[p.turn%len(wheel)], p.text, elapsed)
	}
}

func (p *Progress) clear() {
	if p.w != nil {
		_, _ = io.WriteString(p.w, "\r\x1b[K")
	}
}

// Say replaces the text.
func (p *Progress) Say(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = text
}

// Stop takes the line away for good. It must be called once.
func (p *Progress) Stop() {
	close(p.stop)
	<-p.done
}
