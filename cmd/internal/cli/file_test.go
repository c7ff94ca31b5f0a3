package cli_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/slimwire/swp/cmd/internal/cli"
)

func TestInputEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	silent, writer := io.Pipe() // nobody writes
	defer writer.Close()
	in := cli.Input(ctx, silent)
	defer in.Close()
	cancel()
	if _, err := io.ReadAll(in); !errors.Is(err, context.Canceled) {
		t.Errorf("ReadAll: %v, want the error of the context", err)
	}
	whole := cli.Input(t.Context(), strings.NewReader("octets"))
	defer whole.Close()
	if octets, err := io.ReadAll(whole); string(octets) != "octets" || err != nil {
		t.Errorf("ReadAll = %q, %v", octets, err)
	}
}
