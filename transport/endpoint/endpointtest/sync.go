package endpointtest

import (
	"context"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

const syncID = 900

// Sync is a profile that answers after all earlier messages of the stream are done, like
// the method swp.sync.
var Sync = &profiles.Profile{
	ID: syncID, Name: "sync",
	Types: []profiles.Type{{ID: 1, Name: "REQ", Role: profiles.Initiating}, {ID: 2, Name: "ANS", Role: profiles.Answer}},
	Handler: profiles.HandlerFunc(func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
		after := req.After
		_, w, err := req.Hold()
		if err != nil {
			return err
		}
		answer := func() { _ = w.Finish(e1.Envelope{MsgType: 2}) }
		if !after(answer) {
			answer()
		}
		return nil
	}),
}

// CallSync waits until a peer that serves Sync has processed all earlier messages of a
// lane.
func CallSync(ctx context.Context, lane profiles.Lane) error {
	call, err := lane.Call(ctx, e1.Envelope{ProfileID: syncID, MsgType: 1})
	if err != nil {
		return err
	}
	defer call.Close()
	_, err = call.Recv(ctx)
	return err
}

// Deaf is an Observer that ignores everything. Tests embed it and override single methods.
type Deaf struct{}

// Verdict implements endpoint.Observer.
func (Deaf) Verdict(endpoint.Verdict) {}

// Security implements endpoint.Observer.
func (Deaf) Security(transport.SecurityEvent) {}

// Opened implements endpoint.Observer.
func (Deaf) Opened(*endpoint.Session) {}

// Refused implements endpoint.Observer.
func (Deaf) Refused(*transport.Peer) {}

// Closed implements endpoint.Observer.
func (Deaf) Closed(*endpoint.Session, error) {}
