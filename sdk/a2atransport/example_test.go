package a2atransport_test

import (
	"context"
	"fmt"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/sdk/a2atransport"
)

// A client of the SDK that reaches an agent by the URL in its card. The connection is
// kept: it is made anew when it was idle for too long, or the endpoint was away.
func ExampleFactory() {
	me := client.Options{Identity: client.Identity{Cert: "me.pem", Key: "me.key", CA: "ca.pem"}}
	var peers []*client.Kept
	defer func() {
		for _, peer := range peers {
			peer.Close()
		}
	}()
	connect := a2atransport.Factory(func(ctx context.Context, at *sdk.AgentInterface) (*a2atransport.Client, error) {
		_, agent, err := client.SplitTarget(at.URL)
		if err != nil {
			return nil, err
		}
		peer := client.Keep(client.KeepOptions{Dial: client.To(at.URL, me)})
		peers = append(peers, peer)
		if _, err := peer.Get(ctx); err != nil { // to know at once; else the first operation says it
			return nil, err
		}
		return &a2atransport.Client{Peer: peer, Agent: agent}, nil
	})
	_, err := a2aclient.NewFromEndpoints(context.Background(), []*sdk.AgentInterface{{
		URL: "swp+tls://localhost:7777/weather", ProtocolBinding: a2atransport.Protocol, ProtocolVersion: sdk.Version,
	}}, a2aclient.WithTransport(a2atransport.Protocol, connect))
	fmt.Println(err != nil) // there are no such files
	// Output: true
}
