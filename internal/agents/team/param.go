package team

import (
	"slices"
	"strings"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
)

// offered returns the extensions in comma-separated service parameters, without duplicates.
func offered(params []string) []string {
	var list []string
	for _, p := range params {
		name, value, _ := strings.Cut(p, "=")
		if !strings.EqualFold(name, a2abinding.ParamExtensions) {
			continue
		}
		for uri := range strings.SplitSeq(value, ",") {
			if uri = strings.Trim(uri, " \t"); uri != "" && !slices.Contains(list, uri) {
				list = append(list, uri)
			}
		}
	}
	return list
}

// paramsFor returns the service parameters for a member: those of the caller, with this
// extension if and only if the member supports it.
func paramsFor(params []string, routes bool) []string {
	extensions := slices.DeleteFunc(offered(params), func(uri string) bool { return uri == URI })
	if routes {
		extensions = append(extensions, URI)
	}
	out := slices.DeleteFunc(slices.Clone(params), func(p string) bool {
		name, _, _ := strings.Cut(p, "=")
		return strings.EqualFold(name, a2abinding.ParamExtensions)
	})
	if len(extensions) > 0 {
		out = append(out, a2abinding.ParamExtensions+"="+strings.Join(extensions, ","))
	}
	return out
}
