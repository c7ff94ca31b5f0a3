package proc

import (
	"os/exec"
	"testing"
	"time"
)

func TestOthersAreNeitherThisProcessNorItsChildren(t *testing.T) {
	const busy = 300 * time.Millisecond
	start := time.Now()
	before, err := Now()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command("sh", "-c", "while :; do :; done")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	for used := time.Duration(0); used < busy; {
		if used, err = CPU(child.Process.Pid); err != nil {
			t.Fatal(err)
		}
	}
	after, err := Now()
	took := time.Since(start)
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
	if err != nil {
		t.Fatal(err)
	}
	if own := after.own - before.own; own < busy {
		t.Errorf("own time %v, want that of the child, %v at least", own, busy)
	}
	if others := after.Others(before, took); others < 0 || others > 1.1 {
		t.Errorf("others took %.2f of the machine", others)
	}
	if got := (Machine{all: 3 * time.Second, own: time.Second}).Others(Machine{}, time.Hour); got <= 0 || got > 0.001 {
		t.Errorf("2 s of others in an hour are %v", got)
	}
}
