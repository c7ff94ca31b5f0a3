package tooldisc

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// ExtUnread is a repeatable extension of a LIST_RESP that is a first page: an Unread, as
// name=reason.
const ExtUnread = 17

// Limits of ExtUnread: octets of a reason, and of all extensions of a page.
const (
	maxReason = 240
	maxUnread = 3 << 10
)

// Unread is an MCP server, or a partner, that could not be asked for its tools: they are not
// listed, or may be outdated.
type Unread struct {
	Name   string // with which its tool_ids begin; empty: several, for which there was no room
	Reason string
}

// appendUnread appends as much of a list to the extensions of a LIST_RESP as there is room
// for.
func appendUnread(ext e1.Extensions, list []Unread) e1.Extensions {
	for i, u := range list {
		if len(ext)+len(u.Name)+maxReason > maxUnread {
			return e1.AppendExtension(ext, ExtUnread, fmt.Appendf(nil, "=%d more", len(list)-i))
		}
		ext = e1.AppendExtension(ext, ExtUnread, []byte(u.Name+"="+strings.ToValidUTF8(u.Reason[:min(len(u.Reason), maxReason)], "")))
	}
	return ext
}

// unreadOf reads what appendUnread has written.
func unreadOf(ext e1.Extensions) (list []Unread) {
	for typ, value := range ext.All() {
		if name, reason, ok := strings.Cut(string(value), "="); typ == ExtUnread && ok {
			list = append(list, Unread{strings.ToValidUTF8(name, ""), strings.ToValidUTF8(reason, "")})
		}
	}
	return list
}

// withoutUnread returns extensions without what they say of the servers that hide selects.
func withoutUnread(ext e1.Extensions, hide func(server string) bool) (rest e1.Extensions) {
	for typ, value := range ext.All() {
		if name, _, _ := strings.Cut(string(value), "="); typ != ExtUnread || !hide(name) {
			rest = e1.AppendExtension(rest, typ, value)
		}
	}
	return rest
}

// unread returns which of the servers could not be read, and of the partners those that an
// identity may use: partners that could not be asked, and servers that they could not read.
func (s *Service) unread(identity string, servers map[string]*watch, partners []Unread) (list []Unread) {
	for name, w := range servers {
		if reason := w.unread(); reason != "" {
			list = append(list, Unread{name, reason})
		}
	}
	if s.opts.Partner == nil || !s.opts.Partner(identity) {
		s.mu.Lock()
		for _, behind := range s.behind {
			partners = append(partners, behind...)
		}
		s.mu.Unlock()
		for _, u := range partners {
			if s.reaches(identity, u.Name) {
				list = append(list, u)
			}
		}
	}
	slices.SortFunc(list, func(a, b Unread) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Reason, b.Reason)) })
	return list
}

// reaches reports whether an identity may use something of a server or a partner.
func (s *Service) reaches(identity, name string) bool {
	rules, ok := s.opts.Access.(profiles.Reacher)
	return !ok || rules.Reaches(identity, "mcp", name) || rules.Reaches(identity, Name, name)
}
