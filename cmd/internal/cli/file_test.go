package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestInputEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	silent, writer := io.Pipe() // nobody writes
	defer writer.Close()
	in := newInput(ctx, silent)
	defer in.Close()
	cancel()
	if _, err := io.ReadAll(in); !errors.Is(err, context.Canceled) {
		t.Errorf("ReadAll: %v, want the error of the context", err)
	}
	whole := newInput(t.Context(), strings.NewReader("octets"))
	defer whole.Close()
	if octets, err := io.ReadAll(whole); string(octets) != "octets" || err != nil {
		t.Errorf("ReadAll = %q, %v", octets, err)
	}
}

func TestACommandThatDoesNotReadLeavesItsInputToTheShell(t *testing.T) {
	shared := strings.NewReader("the next command")
	in := newInput(t.Context(), shared)
	if err := in.Close(); err != nil || shared.Len() != len("the next command") {
		t.Errorf("%d octets are left, %v", shared.Len(), err)
	}
}
