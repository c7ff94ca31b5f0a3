package sdl

import "github.com/slimwire/swp/sdl/canonical"

// Head is the part of an envelope that says between whom it is. It is in clear in every
// mode of security.
type Head struct {
	From, To string // agent_ids, none of them empty
}

// ReadHead reads the head of the body of a message for those who pass it on: nothing else
// of it is kept or checked. A body that is no object, or that names its sender or its
// receiver not at all or twice, is refused, so that no two readers see another one.
func ReadHead(body []byte, form Form, limits Limits) (h Head, refused *Error) {
	if refused = limits.Body(len(body)); refused != nil {
		return h, refused
	}
	if !opens(body, form) {
		return h, Refuse(UnsupportedEncoding, "the body is no object")
	}
	seen := make(map[string]int)
	skim := canonical.SkimJSON
	if form == CBOR {
		skim = canonical.SkimCBOR
	}
	err := skim(body, func(parent, name string, v canonical.Value) {
		switch {
		case parent == "" && (name == "from" || name == "to"):
			seen[name]++
		case parent == "from" && name == "agent_id":
			h.From, _ = v.Text()
			seen["from.agent_id"]++
		case parent == "to" && name == "agent_id":
			h.To, _ = v.Text()
			seen["to.agent_id"]++
		}
	})
	if err != nil {
		return Head{}, Refuse(codeOf(err, body, form), "%v", err)
	}
	for _, path := range []string{"from", "to", "from.agent_id", "to.agent_id"} {
		if seen[path] > 1 {
			return Head{}, bad(path, "is there twice")
		}
	}
	switch {
	case h.From == "":
		return Head{}, bad("from.agent_id", "is no text or empty")
	case h.To == "":
		return Head{}, bad("to.agent_id", "is no text or empty")
	}
	return h, nil
}

// TypeOf returns the type that the body of a message says, or "" if it says none or several, or
// cannot be read. Nothing of it is checked.
func TypeOf(body []byte, form Form) string {
	if !opens(body, form) {
		return ""
	}
	skim := canonical.SkimJSON
	if form == CBOR {
		skim = canonical.SkimCBOR
	}
	typ, n := "", 0
	err := skim(body, func(parent, name string, v canonical.Value) {
		if parent == "" && name == "type" {
			typ, _ = v.Text()
			n++
		}
	})
	if err != nil || n != 1 {
		return ""
	}
	return typ
}
