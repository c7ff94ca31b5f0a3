package a2atransport

import (
	"encoding/json"
	"errors"
	"maps"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/errordetails"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
)

// codes are the SDK's errors and their codes on the wire.
var codes = [...]struct {
	err  error
	code int
}{
	{a2a.ErrParseError, a2abinding.CodeParse},
	{a2a.ErrInvalidRequest, a2abinding.CodeInvalidRequest},
	{a2a.ErrMethodNotFound, a2abinding.CodeUnknownMethod},
	{a2a.ErrInvalidParams, a2abinding.CodeInvalidParams},
	{a2a.ErrTaskNotFound, a2abinding.CodeTaskNotFound},
	{a2a.ErrTaskNotCancelable, a2abinding.CodeNotCancelable},
	{a2a.ErrPushNotificationNotSupported, a2abinding.CodeNoPush},
	{a2a.ErrUnsupportedOperation, a2abinding.CodeUnsupported},
	{a2a.ErrUnsupportedContentType, a2abinding.CodeContentType},
	{a2a.ErrInvalidAgentResponse, a2abinding.CodeInvalidResponse},
	{a2a.ErrExtendedCardNotConfigured, a2abinding.CodeNoExtendedCard},
	{a2a.ErrExtensionSupportRequired, a2abinding.CodeNeedsExtension},
	{a2a.ErrVersionNotSupported, a2abinding.CodeVersion},
}

// failureOf converts the error of a handler for the client.
func failureOf(err error) *a2abinding.Failure {
	if f, ok := errors.AsType[*a2abinding.Failure](err); ok {
		return f
	}
	f := &a2abinding.Failure{Code: a2abinding.CodeInternal, Message: err.Error()}
	base := a2a.ErrInternalError
	for _, c := range codes {
		if errors.Is(err, c.err) {
			f.Code, base = c.code, c.err
			break
		}
	}
	metadata := make(map[string]string)
	var details []*errordetails.Typed
	if told, ok := errors.AsType[*a2a.Error](err); ok {
		if len(told.Details) > 0 {
			details = append(details, errordetails.NewFromStruct(told.Details))
		}
		for _, d := range told.TypedDetails {
			if d.TypeURL == errordetails.ErrorInfoType {
				maps.Copy(metadata, metadataOf(d))
			} else {
				details = append(details, d)
			}
		}
	}
	details = append(details, errordetails.NewErrorInfo(a2a.ErrorReason(base), a2abinding.DomainA2A, metadata))
	if data, err := json.Marshal(details); err == nil {
		f.Data = data
	}
	return f
}

// errorOf converts a failure for the SDK's client: errors.Is finds the SDK's error, and its
// details have everything that the peer has added.
func errorOf(f *a2abinding.Failure) error {
	base := a2a.ErrInternalError
	for _, c := range codes {
		if c.code == f.Code {
			base = c.err
		}
	}
	message := f.Message
	if message == "" {
		message = base.Error()
	}
	told := a2a.NewError(base, message)
	var details []*errordetails.Typed
	if json.Unmarshal(f.Data, &details) != nil {
		return told
	}
	for _, d := range details {
		switch {
		case d.TypeURL != errordetails.ErrorInfoType || d.Value["domain"] != a2abinding.DomainA2A:
			if d.TypeURL == errordetails.StructType && told.Details == nil {
				told = told.WithDetails(d.Value)
			}
			told = told.WithTypedDetails(d)
		case len(metadataOf(d)) > 0:
			told = told.WithErrorInfoMeta(metadataOf(d))
		}
	}
	return told
}

// metadataOf returns the metadata of an ErrorInfo of either form.
func metadataOf(d *errordetails.Typed) map[string]string {
	found := make(map[string]string)
	switch metadata := d.Value["metadata"].(type) {
	case map[string]string:
		return metadata
	case map[string]any:
		for name, value := range metadata {
			if text, ok := value.(string); ok {
				found[name] = text
			}
		}
	}
	return found
}
