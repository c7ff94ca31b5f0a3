// Package a2ajson reads from JSON objects of A2A 1.0 the members that decide about
// the route and the owner of a message. The octets are passed on unchanged.
//
// Two parsers may read one object in two ways. For what decides about access that is
// refused, see Object.One and Object.Find.
package a2ajson

import (
	"slices"
	"strings"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/internal/jsonobject"
)

// Object is the members of a JSON object, in order.
type Object jsonobject.Object

// Parse reads a JSON object. Its error is an *a2abinding.Failure.
func Parse(octets []byte) (Object, error) {
	o, err := jsonobject.Parse(octets)
	if err != nil {
		return nil, a2abinding.Fail(a2abinding.CodeInvalidParams, err.Error())
	}
	return Object(o), nil
}

// Find returns the value of a member of an object that an agent wrote, in either spelling of
// ProtoJSON, nil if it is absent. The error says that a client could read another value.
func (o Object) Find(name string) ([]byte, error) {
	m, err := jsonobject.Object(o).FindField(name)
	if err != nil || m == nil {
		return nil, err
	}
	return m.Value, nil
}

// One returns the value of a member of an object that a caller wrote, nil if it is
// absent or null, in either spelling of ProtoJSON: taskId or task_id. Agents differ about
// names that are repeated, in both spellings or in another one; One refuses them, because
// these members decide about access.
func (o Object) One(name string) ([]byte, error) {
	value, err := jsonobject.Object(o).Get(name)
	if err != nil {
		return nil, a2abinding.Fail(a2abinding.CodeInvalidParams, "member "+name+" is ambiguous: "+err.Error())
	}
	return value, nil
}

// MaxID bounds the id of a task, in octets.
const MaxID = 1024

// Text returns a member that is a string, empty if it is not there.
func (o Object) Text(name string) (string, error) {
	raw, err := o.One(name)
	if err != nil || raw == nil {
		return "", err
	}
	s, ok := jsonobject.String(raw)
	if !ok || len(s) > MaxID || strings.ContainsRune(s, '\uFFFD') {
		return "", a2abinding.Fail(a2abinding.CodeInvalidParams, "member "+name+" is no string of at most 1024 octets")
	}
	return s, nil
}

// Scalar returns a member as it stands in a query, empty if it is not there.
func (o Object) Scalar(name string) (string, error) {
	raw, err := o.One(name)
	switch {
	case err != nil || raw == nil:
		return "", err
	case raw[0] == '"':
		return o.Text(name)
	case raw[0] == '{' || raw[0] == '[':
		return "", a2abinding.Fail(a2abinding.CodeInvalidParams, "member "+name+" is no value for a query")
	}
	return string(raw), nil
}

// Inner returns a member that is an object, nil if it is not there.
func (o Object) Inner(name string) (Object, error) {
	raw, err := o.One(name)
	if err != nil || raw == nil {
		return nil, err
	}
	return Parse(raw)
}

// Replace returns a JSON object with another value for a member, if it has that.
func Replace(octets []byte, name string, value []byte) ([]byte, error) {
	o, err := jsonobject.Parse(octets)
	if err != nil {
		return nil, err
	}
	m, err := o.FindField(name)
	if err != nil || m == nil {
		return octets, err
	}
	return slices.Concat(octets[:m.To-len(m.Value)], value, octets[m.To:]), nil
}
