package conformance

import (
	"bytes"
	"context"
	"errors"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/tooldisc"
)

// tooldiscProfiles are the TOOLDISC profile. The application has the tools that
// the script gives it, and asks peers for theirs.
func tooldiscProfiles(s *stage) ([]*profiles.Profile, error) {
	service, err := tooldisc.New(tooldisc.Options{Now: s.clock.now, Wait: never})
	if err != nil {
		return nil, err
	}
	s.onClose(service.Close)
	desk := &toolDesk{s: s, service: service}
	s.app.opens = desk.opens
	return []*profiles.Profile{witnessed(s, service.Profile())}, nil
}

// toolDesk is the application.
type toolDesk struct {
	s       *stage
	service *tooldisc.Service
}

// opens takes what the script has the application say: a TOOLDISC_LIST_RESP is
// the tools that it has from now on, a request a question to the peer.
func (d *toolDesk) opens(_ context.Context, conn string, env *e1.Envelope) (opened bool, err error) {
	payload := bytes.Clone(env.Payload)
	switch env.MsgType {
	case tooldisc.TypeListResp:
		return true, d.take(payload)
	case tooldisc.TypeGetReq:
		var in tooldisc.GetReq
		if err := in.Decode(payload); err != nil {
			return false, err
		}
		return true, d.s.asks(conn, func(ctx context.Context, on profiles.Session) error {
			tool, err := tooldisc.Find(ctx, on, string(in.ToolID), string(in.Version))
			if !d.failed(err) {
				m := tooldisc.GetResp{Tool: describe(&tool)}
				d.s.app.record(tooldisc.ProfileID, tooldisc.TypeGetResp, m.Append(nil))
			}
			return err
		})
	case tooldisc.TypeListReq:
		var in tooldisc.ListReq
		if err := in.Decode(payload); err != nil {
			return false, err
		}
		return true, d.s.asks(conn, func(ctx context.Context, on profiles.Session) error {
			tools, next, err := tooldisc.Page(ctx, on, tooldisc.Query{
				Filter: string(in.Filter), PageSize: in.PageSize, PageToken: string(in.PageToken),
			})
			if !d.failed(err) {
				m := tooldisc.ListResp{NextPageToken: []byte(next)}
				for i := range tools {
					m.Tools = append(m.Tools, describe(&tools[i]))
				}
				d.s.app.record(tooldisc.ProfileID, tooldisc.TypeListResp, m.Append(nil))
			}
			return err
		})
	}
	return false, nil
}

func (d *toolDesk) take(payload []byte) error {
	var m tooldisc.ListResp
	if err := m.Decode(payload); err != nil {
		return err
	}
	var list []tooldisc.Configured
	for i := range m.Tools {
		t := &m.Tools[i]
		list = append(list, tooldisc.Configured{Tool: tooldisc.Tool{
			ID: string(t.ToolID), Name: string(t.Name), Version: string(t.Version), SchemaRef: string(t.SchemaRef), Payload: t.DescriptorPayload,
		}})
	}
	return d.service.Set(nil, list)
}

// failed tells the application that the peer has no answer. Of one that is
// refused it is told nothing.
func (d *toolDesk) failed(err error) bool {
	if none := (*profiles.PeerError)(nil); errors.As(err, &none) {
		m := tooldisc.Err{Code: []byte(none.Code), Message: []byte(none.Message)}
		d.s.app.record(tooldisc.ProfileID, tooldisc.TypeErr, m.Append(nil))
	}
	return err != nil
}

func describe(t *tooldisc.Tool) tooldisc.Descriptor {
	return tooldisc.Descriptor{
		ToolID: []byte(t.ID), Name: []byte(t.Name), Version: []byte(t.Version), SchemaRef: []byte(t.SchemaRef), DescriptorPayload: t.Payload,
	}
}
