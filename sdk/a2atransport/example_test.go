package a2atransport_test

import (
	"context"
	"fmt"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/sdk/a2atransport"
)

// A client of the SDK that reaches an agent by the URL in its card.
func ExampleFactory() {
	connect := a2atransport.Factory(func(ctx context.Context, at *sdk.AgentInterface) (*a2atransport.Client, error) {
		c, err := client.Dial(ctx, at.URL, client.Options{Identity: client.Identity{Cert: "me.pem", Key: "me.key", CA: "ca.pem"}})
		if err != nil {
			return nil, err
		}
		return &a2atransport.Client{
			Session: func(context.Context) (profiles.Session, error) { return c.Session, nil },
			A2A:     c.A2A(),
			Agent:   c.Target,
		}, nil
	})
	_, err := a2aclient.NewFromEndpoints(context.Background(), []*sdk.AgentInterface{{
		URL: "swp+tls://localhost:7777/weather", ProtocolBinding: a2atransport.Protocol, ProtocolVersion: sdk.Version,
	}}, a2aclient.WithTransport(a2atransport.Protocol, connect))
	fmt.Println(err != nil) // there are no such files
	// Output: true
}
