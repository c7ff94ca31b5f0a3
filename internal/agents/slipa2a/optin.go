package slipa2a

import (
	"mime"
	"slices"
	"strings"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
)

// Param is the service parameter for opting in, for clients that send no other extension.
const Param = a2abinding.ParamExtensions + "=" + URI

// OptedIn reports whether service parameters, each as "name=value", opt in: the URI is in
// the comma-separated list of an a2a-extensions parameter.
func OptedIn(params []string) bool {
	return slices.ContainsFunc(params, func(p string) bool {
		return slices.Contains(extensionsOf(p), URI)
	})
}

// extensionsOf returns the URIs in a service parameter; nil if it is another parameter.
func extensionsOf(param string) (uris []string) {
	name, value, _ := strings.Cut(param, "=")
	if !strings.EqualFold(name, a2abinding.ParamExtensions) {
		return nil
	}
	for uri := range strings.SplitSeq(value, ",") {
		if uri = strings.Trim(uri, " \t"); uri != "" {
			uris = append(uris, uri)
		}
	}
	return uris
}

// optedOut removes the URI from service parameters, and a parameter without other URIs.
func optedOut(params []string) (out []string) {
	for _, p := range params {
		uris := extensionsOf(p)
		if !slices.Contains(uris, URI) {
			out = append(out, p)
			continue
		}
		uris = slices.DeleteFunc(uris, func(uri string) bool { return uri == URI })
		if len(uris) > 0 {
			out = append(out, a2abinding.ParamExtensions+"="+strings.Join(uris, ","))
		}
	}
	return out
}

// takes reports whether the output modes in the input of a send include SLIP. A client
// without output modes accepts any.
func takes(input *object) (bool, error) {
	configuration, err := input.inner("configuration")
	if err != nil || configuration == nil {
		return err == nil, err
	}
	at, ok, err := configuration.get("acceptedOutputModes")
	if err != nil || !ok {
		return err == nil, err
	}
	modes, err := parseArray(input.doc, at)
	if err != nil {
		return false, err
	}
	return len(modes) == 0 || slices.ContainsFunc(modes, func(at span) bool {
		mode, _ := text(input.doc, at)
		kind, _, err := mime.ParseMediaType(mode)
		return err == nil && (kind == MediaType || kind == "text/*" || kind == "*/*")
	}), nil
}
