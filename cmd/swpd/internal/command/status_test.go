package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

func TestFollowingGoesOnWhenSwpdDoesNotAnswer(t *testing.T) {
	for clear, want := range map[bool][2]string{
		true:  {"\x1b[H\x1b[2J1\n\x1b[H\x1b[2Jswpd: no answer\n\x1b[H\x1b[2J3\n", ""},
		false: {"1\n3\n", "swpd: no answer\n"},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*watchEvery+time.Millisecond)
			defer cancel()
			asked := 0
			var out, errs bytes.Buffer
			err := follow(ctx, &out, &errs, clear, func(w io.Writer) error {
				if asked++; asked == 2 {
					return errors.New("no answer")
				}
				_, err := fmt.Fprintln(w, asked)
				return err
			})
			if err != nil || out.String() != want[0] || errs.String() != want[1] {
				t.Errorf("clear %v: %q and %q, %v; want %q", clear, out.String(), errs.String(), err, want)
			}
		})
	}
}
