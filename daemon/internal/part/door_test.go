package part

import (
	"errors"
	"testing"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// house is what a door leads to.
type house struct{ denied error }

func (*house) Options(bool) endpoint.Options {
	return endpoint.Options{Registry: new(profiles.Registry)}
}
func (h *house) Deny(string) error          { return h.denied }
func (*house) HangUp(transport.Conn, error) {}

// The rules deny an identity before its pipes end.
func TestTL12APipeOfADeniedIdentityIsNotUsedAgain(t *testing.T) {
	h := new(house)
	d, err := NewDoor(DoorOptions{Self: func() string { return "self" }, Endpoints: h, Keeper: h}, all.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.Open(4); err != nil {
		t.Fatal(err)
	}
	defer d.End()
	near, err := d.Pass("http:a")
	if err != nil || !d.Serves("http:a", near) {
		t.Fatalf("a pipe of an identity that is let in: %v", err)
	}
	h.denied = errors.New("denied")
	if near.Context().Err() != nil || d.Serves("http:a", near) {
		t.Error("the pipe of a denied identity is used again")
	}
}
