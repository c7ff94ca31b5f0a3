package proc

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"
	"time"
)

// TestTailReadsWhatLiesInThePipeAfterItsDeadline: a process that has ended long
// ago, because its Events were slow to be taken, loses none of them; who else
// holds the pipe open is not waited for.
func TestTailReadsWhatLiesInThePipeAfterItsDeadline(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close(); _ = w.Close() }()
	wrote := bytes.Repeat([]byte("line\n"), 5000)
	if _, err := w.Write(wrote); err != nil {
		t.Fatal(err)
	}
	if err := r.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	read, err := io.ReadAll(NewTail(r))
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	if !bytes.Equal(read, wrote) {
		t.Errorf("read %d octets of %d", len(read), len(wrote))
	}
}

func TestTailDoesNotReadForEver(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			if _, err := w.Write(make([]byte, 4096)); err != nil {
				return
			}
		}
	}()
	if err := r.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, struct{ io.Reader }{NewTail(r)})
	if !errors.Is(err, os.ErrDeadlineExceeded) || n > pipeSize+32<<10 {
		t.Errorf("%d octets, error %v", n, err)
	}
	_ = r.Close()
	<-ended
	_ = w.Close()
}
