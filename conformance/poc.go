package conformance

import (
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/vectors"
)

// PoC is the category of descriptors in the poc_ form, which name none.
const PoC = "poc"

// parsePoC reads a poc_ descriptor as one of the usual form.
func parsePoC(text []byte) (*vectors.Descriptor, error) {
	p, err := vectors.ParsePoC(text)
	if err != nil {
		return nil, err
	}
	d := &vectors.Descriptor{VectorID: p.Name, Category: PoC}
	e := &d.Expected
	e.EvidenceType, e.Fixture.BinFile, e.Code, e.Outcome = "runtime", p.Bin, p.Expect.Code, "accept"
	if !p.Expect.OK {
		e.Outcome = "reject"
		if code, ok := profiles.ParseCode(p.Expect.Code); ok {
			e.ErrorCode = code.String()
		}
	}
	e.Assertions = &vectors.Assertions{Envelope: &vectors.Envelope{
		Version: p.Expect.Version, ProfileID: p.Expect.ProfileID, MsgType: p.Expect.MsgType, MinPayloadLen: p.Expect.MinPayloadLen,
	}}
	return d, nil
}
