package fronts

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/internal/bridge/a2afront"
	"github.com/slimwire/swp/internal/bridge/gate"
	"github.com/slimwire/swp/internal/bridge/mcpfront"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/rpc"
)

// Paths of the catalog: of the AI Catalog specification, and of Agentic Resource Discovery (ARD).
const (
	catalogPath = "/.well-known/ai-catalog.json"
	ardPath     = "/.well-known/ard.json"
)

// Media types of the catalog and of its entries.
const (
	typeCatalog    = "application/ai-catalog+json"
	typeAgentCard  = "application/a2a-agent-card+json"
	typeServerCard = "application/mcp-server-card+json"
)

const (
	catalogVersion   = "0.9" // of the AI Catalog specification
	serverCardSchema = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
	unknownVersion   = "unknown" // a card names a version, and the server tells its own to those that connect

	catalogWait  = profiles.AnswerWait // for the lists of this endpoint
	catalogWrite = 30 * time.Second    // for the client to take the catalog
)

// catalogDoc is a page of the catalog. It is both an AI Catalog and an ARD manifest.
type catalogDoc struct {
	SpecVersion string         `json:"specVersion"`
	Host        catalogHost    `json:"host"`
	Entries     []catalogEntry `json:"entries"`
}

type catalogHost struct {
	DisplayName string `json:"displayName"`
	Identifier  string `json:"identifier"`
}

// catalogEntry has URL or Data.
type catalogEntry struct {
	Identifier  string      `json:"identifier"`
	DisplayName string      `json:"displayName"`
	Type        string      `json:"type"`
	URL         string      `json:"url,omitempty"`
	Data        *serverCard `json:"data,omitempty"`
}

// serverCard is the card of an MCP server (SEP-2127).
type serverCard struct {
	Schema      string         `json:"$schema"`
	Name        string         `json:"name"`
	Version     string         `json:"version"`
	Description string         `json:"description"`
	Remotes     []serverRemote `json:"remotes"`
}

type serverRemote struct {
	Type string `json:"type"`
	URL  string `json:"url"`
}

// catalog serves the MCP servers and A2A agents that the caller may use. They come from the lists
// that this endpoint gives the session of the caller, so that the same rules decide.
func (f *Fronts) catalog(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "this path is served by GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), catalogWait)
	defer cancel()
	doc, err := f.page(ctx, r)
	if err != nil {
		fault := profiles.AsError(err)
		status := http.StatusServiceUnavailable
		switch fault.Code {
		case profiles.SecurityPolicy:
			status = http.StatusForbidden
		case profiles.InvalidProfilePayload:
			status = http.StatusBadRequest
		default:
			w.Header().Set("Retry-After", "1")
		}
		http.Error(w, fault.Text, status)
		return
	}
	octets, err := json.Marshal(doc)
	if err != nil {
		http.Error(w, "the catalog cannot be written", http.StatusInternalServerError)
		return
	}
	sum := sha256.Sum256(octets)
	h := w.Header()
	h.Set("Content-Type", typeCatalog)
	if r.URL.Path == ardPath {
		h.Set("Content-Type", "application/json")
	}
	h.Set("ETag", `"`+hex.EncodeToString(sum[:16])+`"`)
	h.Set("Cache-Control", "private, no-cache") // it is of this caller, whose rules may change
	h.Add("Vary", "Authorization")
	h.Add("Vary", "Host")
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(catalogWrite))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(octets))
}

// A cursor of the catalog is one of these and a name: the page has what comes after it.
const (
	afterServer = "mcp/"
	afterAgent  = "a2a/"
)

// page returns the page of the catalog that a request asks for: at most profiles.MaxList servers,
// and once there are no more, as many agents. An entry at its end names the next page.
func (f *Fronts) page(ctx context.Context, r *http.Request) (*catalogDoc, error) {
	cursor := r.URL.Query().Get("after")
	server, servers := strings.CutPrefix(cursor, afterServer)
	agent, agents := strings.CutPrefix(cursor, afterAgent)
	if cursor != "" && !servers && !agents {
		return nil, &profiles.Error{Code: profiles.InvalidProfilePayload, Text: "after is that of no catalog"}
	}
	session, err := f.session(gate.Caller(r))
	if err != nil {
		return nil, err
	}
	doc := f.emptyCatalog()
	if !agents {
		more, err := f.addServers(ctx, doc, r, session, server)
		if more || err != nil {
			return doc, err
		}
		agent = ""
	}
	return doc, f.addAgents(ctx, doc, r, session, agent)
}

func (f *Fronts) emptyCatalog() *catalogDoc {
	self := f.o.Door.Self()
	return &catalogDoc{
		SpecVersion: catalogVersion, Host: catalogHost{DisplayName: domainOf(self), Identifier: self}, Entries: []catalogEntry{},
	}
}

// addServers adds the MCP servers after a name, and reports whether there are more.
func (f *Fronts) addServers(ctx context.Context, doc *catalogDoc, r *http.Request, s profiles.Session, after string) (more bool, err error) {
	var info rpc.Info
	if err := rpc.CallJSON(ctx, s, rpc.MethodInfo, nil, &info); err != nil {
		return false, err
	}
	slices.Sort(info.Targets)
	names := slices.DeleteFunc(slices.Compact(info.Targets), func(name string) bool { return name <= after })
	domain := doc.Host.DisplayName
	for i, name := range names {
		if i == profiles.MaxList {
			f.addNext(doc, r, afterServer+names[i-1])
			return true, nil
		}
		doc.Entries = append(doc.Entries, catalogEntry{
			Identifier: urn(domain, "mcp", name), DisplayName: name, Type: typeServerCard,
			Data: &serverCard{
				Schema: serverCardSchema, Name: reversed(domain) + "/" + segment(name), Version: unknownVersion,
				Description: fmt.Sprintf("MCP server %.40s at %.40s", name, domain),
				Remotes:     []serverRemote{{"streamable-http", f.origin(r) + mcpfront.Path + escaped(name)}},
			},
		})
	}
	return false, nil
}

// addAgents adds the agents after an agent_id whose card the caller may get, and that it may give
// tasks.
func (f *Fronts) addAgents(ctx context.Context, doc *catalogDoc, r *http.Request, s profiles.Session, after string) error {
	var list agdisc.ListResult
	if err := rpc.CallJSON(ctx, s, agdisc.MethodList, agdisc.ListParams{After: after}, &list); err != nil {
		return err
	}
	for _, a := range list.Agents {
		if a.Card != nil && !*a.Card || !f.served(a.AgentID) || !f.mayUse(gate.Caller(r), a.AgentID) {
			continue
		}
		doc.Entries = append(doc.Entries, catalogEntry{
			Identifier: urn(doc.Host.DisplayName, "a2a", a.AgentID), DisplayName: a.AgentID, Type: typeAgentCard,
			URL: f.origin(r) + a2afront.Path + escaped(a.AgentID) + a2afront.CardPath,
		})
	}
	if list.Next != "" {
		f.addNext(doc, r, afterAgent+list.Next)
	}
	return nil
}

// served reports whether a path can name an agent: AGENT, or PARTNER/AGENT.
func (f *Fronts) served(agent string) bool {
	first, rest, behind := strings.Cut(agent, "/")
	if !behind {
		return first != "" && first != "." && first != ".."
	}
	return f.o.Partner(first) && rest != "" && rest != "." && rest != ".." && !strings.Contains(rest, "/")
}

// mayUse reports whether a rule allows a caller tasks of an agent: by its name, or for one that
// has declared itself by the kind alone.
func (f *Fronts) mayUse(caller, agent string) bool {
	return slices.ContainsFunc(a2abinding.Kinds(), func(kind string) bool {
		named := f.o.Access.Would(caller, "a2a", "task", agent+"/"+kind)
		return named || !f.named(agent) && f.o.Access.Would(caller, "a2a", "task", kind)
	})
}

// named reports whether rules call the tasks of an agent by its name.
func (f *Fronts) named(agent string) bool {
	c := f.o.Running()
	_, byURL := c.A2A.Agents[agent]
	_, team := c.Teams[agent]
	return byURL || team || strings.Contains(agent, "/")
}

// addNext adds the entry of the next page, a nested catalog.
func (f *Fronts) addNext(doc *catalogDoc, r *http.Request, cursor string) {
	doc.Entries = append(doc.Entries, catalogEntry{
		Identifier: urn(doc.Host.DisplayName, "catalog", cursor), DisplayName: "more of this catalog", Type: typeCatalog,
		URL: f.origin(r) + r.URL.Path + "?after=" + url.QueryEscape(cursor),
	})
}

// origin is where the client of a request reaches the fronts.
func (f *Fronts) origin(r *http.Request) string { return a2afront.Origin(r, f.o.Running().HTTP.URL) }

// escaped returns the path of a name, from the slash before it.
func escaped(name string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(name, "/") {
		b.WriteString("/" + url.PathEscape(part))
	}
	return b.String()
}

// urn returns the identifier of an entry: urn:air:DOMAIN:KIND:NAME, or
// urn:air:DOMAIN:KIND:PARTNER:NAME.
func urn(domain, kind, name string) string {
	parts := []string{"urn:air", domain, kind}
	for part := range strings.SplitSeq(name, "/") {
		parts = append(parts, segment(part))
	}
	return strings.Join(parts, ":")
}

// segment returns a name with the characters of an identifier: other octets, and _ before two
// hexadecimal digits, become _ and two hexadecimal digits. Different names stay different.
func segment(name string) string {
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		switch {
		case c == '_' && i+2 < len(name) && isHex(name[i+1]) && isHex(name[i+2]):
			b.WriteString("_5f")
		case plainOctet(c), c == '_':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	return cmp.Or(b.String(), "_")
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' }

func plainOctet(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '.' || c == '-'
}

// domainOf returns the domain in an identity: the host of a URI, the first part of a did:web, or
// a name of DNS. Characters that no domain has become hyphens.
func domainOf(identity string) string {
	domain := identity
	if rest, web := strings.CutPrefix(identity, "did:web:"); web {
		domain, _, _ = strings.Cut(rest, ":")
		domain, _, _ = strings.Cut(domain, "%")
	} else if u, err := url.Parse(identity); err == nil && u.Host != "" {
		domain = u.Hostname()
	}
	return strings.Map(func(c rune) rune {
		if c < 0x80 && plainOctet(byte(c)) {
			return c
		}
		return '-'
	}, domain)
}

// reversed returns a domain with its labels in the opposite order.
func reversed(domain string) string {
	labels := strings.Split(domain, ".")
	slices.Reverse(labels)
	return strings.Join(labels, ".")
}
