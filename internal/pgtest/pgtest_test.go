//go:build unix

package pgtest

import (
	"testing"
	"time"
)

func TestAServerThatHasJustBegunIsStopped(t *testing.T) {
	s, err := New("")
	Must(t, err)
	defer func() { _ = s.Close() }()
	s.Stop()
	for range 3 {
		if err := s.launch(); err != nil {
			t.Fatal(err)
		}
		stopped := make(chan struct{})
		go func() {
			s.Stop()
			close(stopped)
		}()
		select {
		case <-stopped:
		case <-time.After(patience):
			t.Fatal("it goes on")
		}
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
}

func TestAServerThatWasKilledStartsAgain(t *testing.T) {
	s, err := New("")
	Must(t, err)
	defer func() { _ = s.Close() }()
	for range 3 {
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
	}
}
