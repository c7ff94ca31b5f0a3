package a2afront

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
)

// place is what a path of a request means.
type place struct {
	agent  string // name or partner/name
	tenant string
	id     string // of a task
	config string // of a push notification configuration
	serves []served
}

// served is what a method of HTTP does at a place.
type served struct {
	method string
	what   string // the name of an operation, or one of those below
}

// Paths besides the operations of REST.
const (
	rpcEndpoint  = "JSON-RPC"
	cardHere     = "card"
	cardOriginal = "original card"
)

// find says what a path means. Its segments are told apart before they are decoded: a
// task_id may have a slash or a colon in it.
func (f *Front) find(path string) (place, bool) {
	terms := f.terms.Load()
	if path == CardPath {
		return place{agent: terms.Default, serves: get(cardHere)}, terms.Default != ""
	}
	rest, ok := strings.CutPrefix(path, Path+"/")
	if !ok {
		return place{}, false
	}
	segments := strings.Split(rest, "/")
	n := 1
	if name, ok := decode(segments[0]); ok && f.opts.Partner != nil && f.opts.Partner(name) {
		n = 2
	}
	if len(segments) < n {
		return place{}, false
	}
	names := make([]string, n)
	for i := range names {
		if names[i], ok = decode(segments[i]); !ok || strings.Contains(names[i], "/") {
			return place{}, false
		}
	}
	agent, segments := strings.Join(names, "/"), segments[n:]
	if f.opts.Single && agent != terms.Default {
		return place{}, false
	}
	if len(segments) > 0 && segments[0] == "v1" && !terms.TenantV1 {
		segments = segments[1:]
	}
	if len(segments) == 1 && segments[0] == "" {
		segments = nil
	}
	at, ok := below(segments)
	if !ok && len(segments) > 1 {
		if at, ok = below(segments[1:]); ok {
			at.tenant, ok = decode(segments[0])
			_, operation := a2abinding.Named(at.serves[0].what)
			ok = ok && operation
		}
	}
	at.agent = agent
	return at, ok
}

// below parses the path after that of an agent or a tenant.
func below(s []string) (at place, ok bool) {
	switch {
	case len(s) == 0:
		at.serves = post(rpcEndpoint)
	case slices.Equal(s, []string{".well-known", "agent-card.json"}):
		at.serves = get(cardHere)
	case slices.Equal(s, []string{"agent-card.original.json"}):
		at.serves = get(cardOriginal)
	case s[0] == "message:send" && len(s) == 1:
		at.serves = post(a2abinding.SendMessage)
	case s[0] == "message:stream" && len(s) == 1:
		at.serves = post(a2abinding.SendStreamingMessage)
	case s[0] == "extendedAgentCard" && len(s) == 1:
		at.serves = get(a2abinding.GetExtendedAgentCard)
	case s[0] == "tasks":
		return belowTasks(s[1:])
	}
	return at, at.serves != nil
}

func belowTasks(s []string) (at place, ok bool) {
	if len(s) == 0 {
		at.serves = get(a2abinding.ListTasks)
		return at, true
	}
	id := s[0]
	switch {
	case len(s) == 1:
		if cut, found := strings.CutSuffix(id, ":cancel"); found {
			id, at.serves = cut, post(a2abinding.CancelTask)
		} else if cut, found := strings.CutSuffix(id, ":subscribe"); found {
			id, at.serves = cut, append(post(a2abinding.SubscribeToTask), get(a2abinding.SubscribeToTask)...)
		} else {
			at.serves = get(a2abinding.GetTask)
		}
	case s[1] != "pushNotificationConfigs":
		return at, false
	case len(s) == 2:
		at.serves = append(post(a2abinding.CreatePushConfig), get(a2abinding.ListPushConfigs)...)
	case len(s) == 3:
		at.serves = append(get(a2abinding.GetPushConfig), served{http.MethodDelete, a2abinding.DeletePushConfig})
		if at.config, ok = decode(s[2]); !ok {
			return at, false
		}
	default:
		return at, false
	}
	at.id, ok = decode(id)
	return at, ok
}

func get(what string) []served  { return []served{{http.MethodGet, what}} }
func post(what string) []served { return []served{{http.MethodPost, what}} }

// decode returns what a segment says. Dots alone are nobody's name: others on the way
// may take the path for another one.
func decode(segment string) (string, bool) {
	text, err := url.PathUnescape(segment)
	return text, err == nil && text != "" && text != "." && text != ".."
}
