package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/profiles/state"
)

func TestRefusalsSayTheirCodeAndWhoseTheyAre(t *testing.T) {
	by := Author{Endpoint: "spiffe://b/swpd", Partner: "b"}
	mcp := func(data string) error { return &MCPError{Data: json.RawMessage(data), Author: by} }
	if !said(&profiles.PeerError{Profile: artifact.Name}) {
		t.Error("what a peer said without a code is not said")
	}
	for _, row := range []struct {
		err  error
		code string // empty: no refusal
		by   Author
	}{
		{&profiles.PeerError{Profile: state.Name, Code: "X"}, "X", Author{}},
		{&profiles.PeerError{Profile: state.Name, Code: "X", Endpoint: by.Endpoint}, "X", Author{Endpoint: by.Endpoint}},
		{&Explained{Err: &profiles.PeerError{Profile: artifact.Name, Code: "TOO_LARGE"}}, "TOO_LARGE", Author{}},
		{&Explained{Err: profiles.Errorf(profiles.SecurityPolicy, "no")}, "ERR_SECURITY_POLICY", Author{}},
		{fmt.Errorf("more: %w", &AnswerError{Code: "unauthorized", By: by}), "unauthorized", by},
		{mcp(`{"code":"ERR_SECURITY_POLICY","endpoint":"spiffe://b/swpd"}`), "ERR_SECURITY_POLICY", by},
		{mcp(`{"code":-32602}`), "", Author{}},                       // of the server
		{profiles.Errorf(profiles.InvalidFrame, "no"), "", Author{}}, // of this side
		{&Explained{Err: &rpc.Error{Code: "unauthorized", Endpoint: by.Endpoint}}, "unauthorized", Author{Endpoint: by.Endpoint}},
		{&Explained{Err: errors.New("connection refused")}, "", Author{}},
	} {
		code, author, ok := Refusal(row.err)
		if ok != (row.code != "") || code != row.code || ok && author != row.by {
			t.Errorf("%T %v: %q by %v, %v; want %q by %v", row.err, row.err, code, author, ok, row.code, row.by)
		}
	}
}
