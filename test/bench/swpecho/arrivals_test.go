package swpecho

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func TestAnExchangeIsOverWhenTheLastReceiverHasIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newArrivals()
		wait := a.expect("a", []byte("one"), 2)
		var got []byte
		over := make(chan error, 1)
		go func() {
			over <- wait(context.Background(), func(answer []byte) error { got = answer; return nil })
		}()
		for receiver := range 2 {
			synctest.Wait()
			if len(over) > 0 {
				t.Fatalf("over after %d of 2 receivers", receiver)
			}
			if err := a.came([]byte("a"), []byte("one")); err != nil {
				t.Fatal(err)
			}
		}
		if err := <-over; err != nil || string(got) != "one" {
			t.Errorf("%q, %v", got, err)
		}
		if err := a.came([]byte("a"), []byte("one")); err == nil {
			t.Error("came again, no error")
		}
	})
}

func TestOtherOctetsThanThoseSentAreAnError(t *testing.T) {
	a := newArrivals()
	a.expect("a", []byte("one"), 1)
	if err := a.came([]byte("a"), []byte("two")); err == nil {
		t.Error("no error")
	}
	if err := a.came([]byte("b"), []byte("one")); err == nil {
		t.Error("an unknown id, no error")
	}
}

func TestAnExchangeFailsWithItsReceiverAndWithItsContext(t *testing.T) {
	use := func([]byte) error { return nil }
	a := newArrivals()
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("over")
	cancel(cause)
	if err := a.expect("a", nil, 1)(ctx, use); !errors.Is(err, cause) {
		t.Errorf("%v, want %v", err, cause)
	}
	lost := errors.New("lost")
	a.fail(lost)
	if err := a.expect("b", nil, 1)(t.Context(), use); !errors.Is(err, lost) {
		t.Errorf("%v, want %v", err, lost)
	}
}
