package sdl

import (
	"sync"

	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/schema"
)

// builtIn is the built-in schema of a content type.
type builtIn struct {
	id         string
	compiled   *schema.Schema
	descriptor canonical.Value
}

// Schema returns the descriptor of the built-in schema of a content type, in the form of an
// envelope. It is null for an unknown content type.
func Schema(ct string) canonical.Value { return builtIns()[ct].descriptor }

var builtIns = sync.OnceValue(func() map[string]builtIn {
	all := make(map[string]builtIn)
	for ct, document := range documents {
		compiled, err := schema.Compile(document)
		if err != nil {
			panic(err) // the table below is wrong
		}
		id := canonical.Hash(document)
		all[ct] = builtIn{id, compiled, object(
			member("kind", canonical.String("embedded")),
			member("id", canonical.String(id)),
			member("embedded", document),
		)}
	}
	return all
})

// The parts of built-in schemas.
var (
	anything = object()
	aText    = typed("string")
	aBoolean = typed("boolean")
	anObject = typed("object")
	texts    = list(aText)
	objects  = list(anObject)
)

func typed(name string, more ...canonical.Member) canonical.Value {
	return object(append(more, member("type", canonical.String(name)))...)
}

func atLeast(n int64) canonical.Value { return typed("string", member("minLength", canonical.Int(n))) }

func list(items canonical.Value) canonical.Value { return typed("array", member("items", items)) }

func oneOf(values ...string) canonical.Value {
	return object(member("enum", canonical.Strings(values...)))
}

// field is a property of a record.
type field struct {
	name     string
	required bool
	schema   canonical.Value
}

func must(name string, schema canonical.Value) field { return field{name, true, schema} }
func may(name string, schema canonical.Value) field  { return field{name, false, schema} }

// record returns the schema of an object with these properties; the required
// ones are listed in their order.
func record(fields ...field) canonical.Value {
	properties := object()
	var required []canonical.Value
	for _, f := range fields {
		properties = properties.With(f.name, f.schema)
		if f.required {
			required = append(required, canonical.String(f.name))
		}
	}
	v := typed("object", member("properties", properties))
	if len(required) > 0 {
		v = v.With("required", canonical.Array(required...))
	}
	return v
}

// documents has the built-in schemas (§4.1).
var documents = map[string]canonical.Value{
	CTTask: record(
		must("kind", object(member("const", canonical.String(CTTask)))),
		must("goal", atLeast(1)),
		must("inputs", anObject),
		must("constraints", record(
			must("time_budget_s", typed("integer", member("minimum", canonical.Int(0)))),
			must("compute_budget", oneOf("low", "med", "high")),
			must("safety", anObject),
		)),
		must("deliverables", list(record(
			must("type", oneOf("text", "json", "file", "patch")),
			must("description", aText),
		))),
		must("acceptance", texts),
		must("context", anObject),
	),
	CTToolCall: record(
		must("tool", atLeast(1)),
		must("call_id", atLeast(1)),
		must("args", anObject),
		must("expect", anObject),
		may("authz", record(
			may("scopes", texts),
			may("delegated_by", aText),
			may("reason", aText),
		)),
	),
	CTToolResult: record(
		must("call_id", aText),
		must("ok", aBoolean),
		must("result", anything),
		must("logs", texts),
		must("metrics", anObject),
	),
	CTState: record(
		must("base", aText),
		must("patch", objects),
	),
	CTArtifact: record(
		must("items", objects),
		must("refs", objects),
	),
	CTError: record(
		must("code", oneOf(codes...)),
		must("message", aText),
		must("details", anObject),
		must("retryable", aBoolean),
	),
	CTNegotiation: record(
		must("need", anObject),
		must("have", anObject),
		must("ask", texts),
		must("supported_ct", texts),
		may("session_binding", anObject),
	),
	CTTrustSync: record(
		must("op", oneOf("discover", "propose")),
		may("proposal_id", aText),
		may("merge", aBoolean),
		may("registry", anObject),
		may("signature", aText),
		may("approvals", list(record(
			must("approver", aText),
			must("signature", aText),
		))),
		may("status", oneOf("snapshot", "accepted", "rejected")),
		may("message", aText),
		may("registry_hash", aText),
		may("snapshot", anObject),
		may("source_agent", aText),
		may("approved_by", texts),
		may("quorum", anObject),
	),
	CTSession: record(
		must("op", oneOf("open", "ack")),
		must("profile", anObject),
		must("nonce", atLeast(8)),
		may("expires", aText),
		may("accepted", aBoolean),
		may("binding_id", aText),
		may("binding_sig", aText),
		may("binding_alg", aText),
		may("message", aText),
	),
}
