package slip

import (
	"testing"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/profiles/agdisc"
)

func TestSlipLeavesASignedCard(t *testing.T) {
	const signed = `{"name":"signed","signatures":[{"protected":"x"}]}`
	source := signedCards{agdisc.Card{AgentID: "billing", Payload: []byte(signed), ETag: agdisc.HashOf([]byte(signed))}}
	s, err := NewA2A("billing", &config.SlipA2A{Mismatch: "refuse"}, nil, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	var got agdisc.Card
	if !s.Source(source).Card("billing", func(card agdisc.Card, err error) {
		if got = card; err != nil {
			t.Error(err)
		}
	}) || string(got.Payload) != signed || got.ETag != source.card.ETag {
		t.Errorf("%+v", got)
	}
}

// signedCards is a source with one card.
type signedCards struct{ card agdisc.Card }

func (s signedCards) Agents() []agdisc.Entry { return []agdisc.Entry{{AgentID: s.card.AgentID}} }

func (s signedCards) Card(_ string, found func(agdisc.Card, error)) bool {
	found(s.card, nil)
	return true
}
