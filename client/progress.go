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

// Progress is an animated line on a terminal, shown during a wait. Any goroutine may call
// its methods.
type Progress struct {
	w    io.Writer // nil without a terminal: nothing is shown
	stop chan struct{}
	done chan struct{}

	mu    sync.Mutex
	began time.Time
	text  string
	turn  int
}

// progressPeriod is how often the line is redrawn.
const progressPeriod = 120 * time.Millisecond

// NewProgress shows text and the elapsed time on w if w is a terminal. The caller stops it.
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

// Print removes the line while f writes. A non-empty text replaces the present one.
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

// draw and clear write and remove the line. The caller holds mu.
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

// Stop removes the line. It must be called once.
func (p *Progress) Stop() {
	close(p.stop)
	<-p.done
}
