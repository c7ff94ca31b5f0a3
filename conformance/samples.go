package conformance

import (
	"context"
	"encoding/json"
	"io"
)

// Sampler is a Target that keeps the reports of another one, as samples for the archive of a
// claim. One goroutine at a time may use it. Target is required.
type Sampler struct {
	Target Target

	plays []samplePlay // since the last Write
}

// samplePlay is one scene: the vector itself, or a sibling.
type samplePlay struct {
	Steps []sampleStep `json:"steps"`
}

// sampleStep is what the endpoint reported in a step.
type sampleStep struct {
	Verdicts       []sampleVerdict `json:"verdicts,omitempty"`
	SecurityEvents []string        `json:"security_events,omitempty"` // reasons
	Closed         bool            `json:"closed,omitempty"`          // the endpoint ended the connection
	SentOctets     int             `json:"sent_octets,omitempty"`     // of a frame that the endpoint sent
}

// sampleVerdict is how a frame ended, as logs and metrics have it.
type sampleVerdict struct {
	Code      string `json:"err_code"`
	Detail    string `json:"detail,omitempty"`
	ProfileID uint64 `json:"profile_id"`
	MsgType   uint64 `json:"msg_type"`
}

// maxSampled bounds the verdicts of one step in a sample.
const maxSampled = 16

// Play implements Target.
func (s *Sampler) Play(ctx context.Context, in *Input) (*Observation, error) {
	seen, err := s.Target.Play(ctx, in)
	if err != nil {
		return nil, err
	}
	var p samplePlay
	for _, step := range seen.Steps {
		out := sampleStep{SecurityEvents: step.Events, Closed: step.Closed, SentOctets: len(step.Frame)}
		for _, v := range step.Verdicts[:min(len(step.Verdicts), maxSampled)] {
			out.Verdicts = append(out.Verdicts, sampleVerdict{v.Code, v.Detail, v.ProfileID, v.MsgType})
		}
		p.Steps = append(p.Steps, out)
	}
	s.plays = append(s.plays, p)
	return seen, nil
}

// Write writes one line of JSON with the result of a vector and the plays since the last call.
func (s *Sampler) Write(w io.Writer, r Result) error {
	plays := s.plays
	s.plays = nil
	return json.NewEncoder(w).Encode(struct {
		VectorID string       `json:"vector_id"`
		Pass     bool         `json:"pass"`
		Plays    []samplePlay `json:"plays"`
	}{r.VectorID, r.Pass, plays})
}
