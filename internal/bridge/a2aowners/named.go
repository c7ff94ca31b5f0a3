package a2aowners

import (
	"encoding/json"
	"errors"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/internal/bridge/a2ajson"
	"github.com/slimwire/swp/internal/jsonobject"
)

// maxReferences bounds the tasks that one message may refer to.
const maxReferences = 64

// named returns the ids of the tasks in the input of an operation, within its tenant.
func named(o a2abinding.Operation, tenant string, input a2ajson.Object) (ids []string, err error) {
	text := func(o a2ajson.Object, name string) string {
		value, fault := o.Text(name)
		err = errors.Join(err, fault)
		return value
	}
	add := func(o a2ajson.Object, name string) {
		if id := text(o, name); id != "" {
			ids = append(ids, id)
		}
	}
	inner := func(o a2ajson.Object, name string) a2ajson.Object {
		in, fault := o.Inner(name)
		err = errors.Join(err, fault)
		return in
	}
	switch o.Name {
	case a2abinding.GetTask, a2abinding.CancelTask, a2abinding.SubscribeToTask:
		add(input, "id")
	case a2abinding.CreatePushConfig, a2abinding.GetPushConfig, a2abinding.ListPushConfigs, a2abinding.DeletePushConfig:
		add(input, "taskId")
	case a2abinding.SendMessage, a2abinding.SendStreamingMessage:
		message := inner(input, "message")
		add(message, "taskId")
		push := inner(inner(input, "configuration"), "taskPushNotificationConfig")
		add(push, "taskId")
		if in := text(push, "tenant"); in != "" && in != tenant {
			return nil, a2abinding.Fail(a2abinding.CodeInvalidParams, "member tenant is ambiguous: the request and its taskPushNotificationConfig differ")
		}
		raw, fault := message.One("referenceTaskIds")
		if err = errors.Join(err, fault); raw == nil {
			break
		}
		var references []string
		if json.Unmarshal(raw, &references) != nil || len(references) > maxReferences {
			return nil, a2abinding.Fail(a2abinding.CodeInvalidParams, "member referenceTaskIds is no list of at most 64 ids")
		}
		ids = append(ids, references...)
	}
	return ids, err
}

// TaskOf returns the id of the task that a StreamResponse or a SendMessageResponse is
// about, empty if it is about none. The error is an *a2abinding.Failure: a client could
// read another id.
func TaskOf(response a2ajson.Object) (string, error) {
	for _, m := range response {
		name := "taskId"
		switch m.Name {
		case "task":
			name = "id"
		case "message", "statusUpdate", "status_update", "artifactUpdate", "artifact_update":
		default:
			continue
		}
		if _, err := response.Find(m.Name); err != nil {
			return "", repeated(m.Name, err)
		}
		about, err := a2ajson.Parse(m.Value)
		if err != nil {
			continue
		}
		value, err := about.Find(name)
		if err != nil {
			return "", repeated(name, err)
		}
		if id, ok := jsonobject.String(value); ok && id != "" {
			return id, nil
		}
	}
	return "", nil
}
