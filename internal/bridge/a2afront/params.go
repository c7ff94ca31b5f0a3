package a2afront

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/profiles/a2a"
)

// paramPrefix is what the names of headers begin with that are service parameters of
// A2A itself.
const paramPrefix = "a2a-"

// token is a name that a header can have.
var token = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$")

// kept are the names and beginnings of names of headers that are not passed on: they
// are between the client and this front (R3, ABUSE TL-11).
var kept = []string{
	"authorization", "proxy-", "cookie", "set-cookie", "host", "origin", "referer", "connection", "keep-alive", "te", "trailer",
	"transfer-encoding", "upgrade", "content-", "accept", "forwarded", "x-forwarded-", "x-real-ip", "sec-", "swp-",
}

// CheckParam checks whether a header name can be a service parameter.
func CheckParam(name string) error {
	lower := strings.ToLower(name)
	if !token.MatchString(name) {
		return fmt.Errorf("a2afront: service parameter %q: not a name of a header", name)
	}
	for _, k := range kept {
		if lower == k || strings.HasSuffix(k, "-") && strings.HasPrefix(lower, k) {
			return fmt.Errorf("a2afront: service parameter %q: that header stays at this front", name)
		}
	}
	return nil
}

// serviceParams returns the service parameters of a request as name=value, in the order
// of their names.
func (f *Front) serviceParams(r *http.Request) []string {
	var list []string
	terms := f.terms.Load()
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		lower := strings.ToLower(name)
		if lower == a2abinding.ParamVersion || !strings.HasPrefix(lower, paramPrefix) && !terms.params[lower] {
			continue
		}
		for _, value := range r.Header[name] {
			list = append(list, lower+"="+value)
		}
	}
	return append(list, a2abinding.ParamVersion+"="+a2abinding.Version)
}

// checkParams bounds them: a frame has room for so many (mcp-a2a mapping §2).
func checkParams(params []string, agent string) bool {
	ext := e1.AppendExtension(nil, a2a.ExtAgent, []byte(agent))
	for _, p := range params {
		ext = e1.AppendExtension(ext, a2a.ExtParam, []byte(p))
	}
	return len(params) <= maxParams && len(ext) <= maxExtensions
}

const (
	maxParams = 256

	// maxExtensions leaves room for those that come on the way: the deadline, the
	// cursor, the chain of credentials, the hops.
	maxExtensions = 4096 - 512
)

// checkVersion wants the version of A2A that is spoken here, in a header or in the
// query. None at all means 0.3.
func checkVersion(r *http.Request) error {
	said := r.Header.Values(a2abinding.ParamVersion)
	if len(said) == 0 {
		for name, values := range r.URL.Query() {
			if strings.EqualFold(name, a2abinding.ParamVersion) {
				said = append(said, values...)
			}
		}
	}
	version := strings.TrimSpace(strings.Join(said, ","))
	switch version {
	case a2abinding.Version:
		return nil
	case "":
		return a2abinding.Fail(a2abinding.CodeVersion, "A2A-Version is missing, which means 0.3; this agent speaks "+a2abinding.Version)
	}
	return a2abinding.Fail(a2abinding.CodeVersion, fmt.Sprintf("A2A-Version %.32q is not spoken here; this agent speaks %s", version, a2abinding.Version))
}

// checkExtensions wants what the card of the agent requires. An agent without a card
// requires nothing here; it sees itself what was offered.
func (f *Front) checkExtensions(ctx context.Context, r *http.Request, link Link, agent string) error {
	card, err := link.Card(ctx, agent)
	if err != nil {
		return ctx.Err()
	}
	var says struct {
		Capabilities a2abinding.Capabilities `json:"capabilities"`
	}
	_ = json.Unmarshal(card.Payload, &says) // as far as it can be read: it is not for the front to judge a card
	offered := make(map[string]bool)
	for _, line := range r.Header.Values(a2abinding.ParamExtensions) {
		for uri := range strings.SplitSeq(line, ",") {
			offered[strings.TrimSpace(uri)] = true
		}
	}
	for _, e := range says.Capabilities.Extensions {
		if e.Required && !offered[e.URI] {
			return a2abinding.Fail(a2abinding.CodeNeedsExtension, fmt.Sprintf("A2A-Extensions has to name %.256q, which this agent requires", e.URI))
		}
	}
	return nil
}
