package tooldisc

import (
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// The message types, which are also the numbers of the members of the wrapper.
const (
	TypeListReq  = 1
	TypeListResp = 2
	TypeGetReq   = 3
	TypeGetResp  = 4
	TypeErr      = 5

	members = TypeErr
)

// Bounds on what a message carries. Those of texts and of a descriptor_payload
// are in octets.
const (
	MaxText       = 1024    // of a tool_id, a name, a version or a schema_ref
	MaxFilter     = 256     // of a filter
	MaxToken      = 4096    // of a page_token
	MaxDescriptor = 1 << 20 // of a descriptor_payload
	MaxTools      = 1024    // in a page that is received; those that are sent have 100
)

// The messages below are views. Decode reads a payload, wrapper included, and
// the slices alias it; the error is an *profiles.Error of InvalidProfilePayload
// for what is malformed, for a required field that is absent, for a schema_ref
// that CheckRef refuses and for what is above a bound. Append appends a payload
// of Size octets and checks nothing.

// Descriptor describes one version of a tool.
type Descriptor struct {
	ToolID            []byte // required, UTF-8
	Name              []byte // required, UTF-8
	Version           []byte // required, UTF-8
	SchemaRef         []byte // required, UTF-8; see CheckRef
	DescriptorPayload []byte // opaque
}

func (m *Descriptor) decode(body []byte) error {
	*m = Descriptor{}
	f := p1.Read(body)
	for f.Next() {
		switch f.Num() {
		case 1:
			f.Text(&m.ToolID)
		case 2:
			f.Text(&m.Name)
		case 3:
			f.Text(&m.Version)
		case 4:
			f.Text(&m.SchemaRef)
		case 5:
			f.Bytes(&m.DescriptorPayload)
		}
	}
	if f.Err() != nil {
		return f.Err()
	}
	for _, field := range []struct {
		name string
		text []byte
	}{{"tool_id", m.ToolID}, {"name", m.Name}, {"version", m.Version}, {"schema_ref", m.SchemaRef}} {
		if len(field.text) == 0 {
			return p1.Missing(field.name)
		}
		if err := bounded(field.name, field.text, MaxText); err != nil {
			return err
		}
	}
	if err := bounded("descriptor_payload", m.DescriptorPayload, MaxDescriptor); err != nil {
		return err
	}
	return CheckRef(string(m.SchemaRef))
}

func (m *Descriptor) size() int {
	return p1.SizeBytes(1, m.ToolID) + p1.SizeBytes(2, m.Name) + p1.SizeBytes(3, m.Version) +
		p1.SizeBytes(4, m.SchemaRef) + p1.SizeBytes(5, m.DescriptorPayload)
}

func (m *Descriptor) append(dst []byte) []byte {
	dst = p1.AppendHeader(dst, 1, m.size())
	dst = p1.AppendBytes(dst, 1, m.ToolID)
	dst = p1.AppendBytes(dst, 2, m.Name)
	dst = p1.AppendBytes(dst, 3, m.Version)
	dst = p1.AppendBytes(dst, 4, m.SchemaRef)
	return p1.AppendBytes(dst, 5, m.DescriptorPayload)
}

func bounded(field string, octets []byte, limit int) error {
	if len(octets) > limit {
		return profiles.Errorf(profiles.InvalidProfilePayload, "tooldisc: %s: %d octets, want at most %d", field, len(octets), limit)
	}
	return nil
}

// ListReq asks for a page of the tools.
type ListReq struct {
	PageSize  uint32 // 0: what the receiver likes
	PageToken []byte // UTF-8: of the page before, empty for the first
	Filter    []byte // UTF-8
}

// Decode reads m from a payload.
func (m *ListReq) Decode(payload []byte) error {
	*m = ListReq{}
	body, err := p1.Body(payload, TypeListReq, members)
	if err != nil {
		return err
	}
	f := p1.Read(body)
	for f.Next() {
		switch f.Num() {
		case 1:
			f.Uint32(&m.PageSize)
		case 2:
			f.Text(&m.PageToken)
		case 3:
			f.Text(&m.Filter)
		}
	}
	if f.Err() != nil {
		return f.Err()
	}
	if err := bounded("page_token", m.PageToken, MaxToken); err != nil {
		return err
	}
	return bounded("filter", m.Filter, MaxFilter)
}

func (m *ListReq) size() int {
	return p1.SizeUint(1, uint64(m.PageSize)) + p1.SizeBytes(2, m.PageToken) + p1.SizeBytes(3, m.Filter)
}

// Size returns how many octets Append will add.
func (m *ListReq) Size() int { return p1.SizeHeader(TypeListReq, m.size()) }

// Append appends the payload to dst.
func (m *ListReq) Append(dst []byte) []byte {
	dst = p1.AppendHeader(dst, TypeListReq, m.size())
	dst = p1.AppendUint(dst, 1, uint64(m.PageSize))
	dst = p1.AppendBytes(dst, 2, m.PageToken)
	return p1.AppendBytes(dst, 3, m.Filter)
}

// ListResp is a page of the tools.
type ListResp struct {
	Tools         []Descriptor
	NextPageToken []byte // UTF-8; empty on the last page
}

// Decode reads m from a payload.
func (m *ListResp) Decode(payload []byte) error {
	*m = ListResp{Tools: m.Tools[:0]}
	body, err := p1.Body(payload, TypeListResp, members)
	if err != nil {
		return err
	}
	if err := p1.Check(body, p1.Limit{Field: 1, Max: MaxTools}); err != nil {
		return err
	}
	f := p1.Read(body)
	for f.Next() {
		switch f.Num() {
		case 1:
			var tool []byte
			if f.Bytes(&tool); f.Err() != nil {
				break
			}
			var d Descriptor
			if err := d.decode(tool); err != nil {
				return err
			}
			m.Tools = append(m.Tools, d)
		case 2:
			f.Text(&m.NextPageToken)
		}
	}
	if f.Err() != nil {
		return f.Err()
	}
	return bounded("next_page_token", m.NextPageToken, MaxToken)
}

func (m *ListResp) size() int {
	n := p1.SizeBytes(2, m.NextPageToken)
	for i := range m.Tools {
		n += p1.SizeHeader(1, m.Tools[i].size())
	}
	return n
}

// Size returns how many octets Append will add.
func (m *ListResp) Size() int { return p1.SizeHeader(TypeListResp, m.size()) }

// Append appends the payload to dst.
func (m *ListResp) Append(dst []byte) []byte {
	dst = p1.AppendHeader(dst, TypeListResp, m.size())
	for i := range m.Tools {
		dst = m.Tools[i].append(dst)
	}
	return p1.AppendBytes(dst, 2, m.NextPageToken)
}

// GetReq asks for one tool.
type GetReq struct {
	ToolID  []byte // required, UTF-8
	Version []byte // UTF-8; empty: the highest
}

// Decode reads m from a payload.
func (m *GetReq) Decode(payload []byte) error {
	*m = GetReq{}
	if err := decodeTexts(payload, TypeGetReq, "tool_id", &m.ToolID, &m.Version); err != nil {
		return err
	}
	if err := bounded("tool_id", m.ToolID, MaxText); err != nil {
		return err
	}
	return bounded("version", m.Version, MaxText)
}

// Size returns how many octets Append will add.
func (m *GetReq) Size() int { return sizeTexts(TypeGetReq, m.ToolID, m.Version) }

// Append appends the payload to dst.
func (m *GetReq) Append(dst []byte) []byte { return appendTexts(dst, TypeGetReq, m.ToolID, m.Version) }

// GetResp is one tool.
type GetResp struct {
	Tool Descriptor // required
}

// Decode reads m from a payload.
func (m *GetResp) Decode(payload []byte) error {
	body, err := p1.Body(payload, TypeGetResp, members)
	if err != nil {
		return err
	}
	var tool []byte
	f := p1.Read(body)
	for f.Next() {
		if f.Num() == 1 {
			f.Message(&tool)
		}
	}
	switch {
	case f.Err() != nil:
		return f.Err()
	case tool == nil:
		return p1.Missing("tool")
	}
	return m.Tool.decode(tool)
}

// Size returns how many octets Append will add.
func (m *GetResp) Size() int { return p1.SizeHeader(TypeGetResp, p1.SizeHeader(1, m.Tool.size())) }

// Append appends the payload to dst.
func (m *GetResp) Append(dst []byte) []byte {
	return m.Tool.append(p1.AppendHeader(dst, TypeGetResp, p1.SizeHeader(1, m.Tool.size())))
}

// Err says why there is no answer.
type Err struct {
	Code    []byte // required, UTF-8; see the Code constants
	Message []byte // UTF-8
}

// Decode reads m from a payload.
func (m *Err) Decode(payload []byte) error {
	*m = Err{}
	return decodeTexts(payload, TypeErr, "code", &m.Code, &m.Message)
}

// Size returns how many octets Append will add.
func (m *Err) Size() int { return sizeTexts(TypeErr, m.Code, m.Message) }

// Append appends the payload to dst.
func (m *Err) Append(dst []byte) []byte { return appendTexts(dst, TypeErr, m.Code, m.Message) }

// decodeTexts reads a message of two strings, the first of which is required.
func decodeTexts(payload []byte, msgType uint64, required string, first, second *[]byte) error {
	body, err := p1.Body(payload, msgType, members)
	if err != nil {
		return err
	}
	f := p1.Read(body)
	for f.Next() {
		switch f.Num() {
		case 1:
			f.Text(first)
		case 2:
			f.Text(second)
		}
	}
	switch {
	case f.Err() != nil:
		return f.Err()
	case len(*first) == 0:
		return p1.Missing(required)
	}
	return nil
}

func sizeTexts(msgType uint64, first, second []byte) int {
	return p1.SizeHeader(msgType, p1.SizeBytes(1, first)+p1.SizeBytes(2, second))
}

func appendTexts(dst []byte, msgType uint64, first, second []byte) []byte {
	dst = p1.AppendHeader(dst, msgType, p1.SizeBytes(1, first)+p1.SizeBytes(2, second))
	return p1.AppendBytes(p1.AppendBytes(dst, 1, first), 2, second)
}
