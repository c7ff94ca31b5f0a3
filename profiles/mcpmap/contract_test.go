package mcpmap_test

import (
	"testing"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/profiletest"
)

type contractServer struct{}

func (contractServer) Do(x *mcpmap.Exchange) {
	x.Finish([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}`))
}
func (contractServer) Connect(mcpmap.Counterpart) (mcpmap.Conversation, error) {
	return talk{}, nil
}

type talk struct{}

func (talk) Do(x *mcpmap.Exchange)  { x.Finish([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}`)) }
func (talk) Notify(*mcpmap.Message) {}
func (talk) Close()                 {}

func TestContract(t *testing.T) {
	fresh := func(tb testing.TB) *profiles.Profile {
		table, err := mcpmap.NewTable(map[string]mcpmap.Server{"s": contractServer{}}, "")
		if err != nil {
			tb.Fatal(err)
		}
		m := mcpmap.New(mcpmap.Options{Backend: table})
		tb.Cleanup(m.Close)
		return m.Profile()
	}
	profiletest.Run(t, fresh,
		profiletest.Case{Name: "request", Type: 1, Payload: []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`), Answers: []uint64{2}},
		profiletest.Case{Name: "initialize", Type: 1, Payload: []byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`), Answers: []uint64{2}, Random: true},
		profiletest.Case{Name: "notification", Type: 3, Payload: []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)},
	)
}
