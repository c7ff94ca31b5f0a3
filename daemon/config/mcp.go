package config

import (
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/slimwire/swp/profiles"
)

// MCP are the servers of profile 1.
type MCP struct {
	Servers map[string]MCPServer `yaml:"servers"`
}

// MCPServer is a program that speaks MCP on its standard input and output, or a
// server at a URL that speaks Streamable HTTP.
type MCPServer struct {
	Command     string            `yaml:"command"`
	Args        []string          `yaml:"args"`
	Env         map[string]string `yaml:"env"`
	Dir         string            `yaml:"dir"`
	URL         string            `yaml:"url" form:"url"` // this or Command
	Headers     map[string]string `yaml:"headers"`        // of every request, such as credentials
	HeadersFrom map[string]string `yaml:"headers_from"`   // files that hold values, read for each request
	Timeout     time.Duration     `yaml:"timeout"`        // without a message of a call

	Timeouts map[string]time.Duration `yaml:"timeouts"` // the same for the calls of a tool

	Idle        time.Duration `yaml:"idle"`
	SessionIdle time.Duration `yaml:"session_idle"`
	Lifetime    time.Duration `yaml:"lifetime"` // 0 = no end
	MaxChildren int           `yaml:"max_children"`
	Nodes       string        `yaml:"nodes"` // where children run: NodesActive or NodesAll
	Probe       bool          `yaml:"probe"` // a child is started to see whether the command works
	Default     bool          `yaml:"default"`
	Hints       Hints         `yaml:"hints"`
}

// defaultServer has the defaults of an entry.
var defaultServer = MCPServer{Dir: "/", Timeout: profiles.WorkWait, Idle: 10 * time.Minute, SessionIdle: 24 * time.Hour, MaxChildren: 64, Nodes: NodesActive}

// resolveServers makes the paths absolute.
func (c *Config) resolveServers(dir string) {
	for name, s := range c.MCP.Servers {
		resolveProgram(dir, &s.Command, &s.Dir)
		c.MCP.Servers[name] = s
		for header, file := range s.HeadersFrom {
			if file != "" && !filepath.IsAbs(file) {
				s.HeadersFrom[header] = filepath.Join(dir, file)
			}
		}
	}
}

// resolveProgram makes the path of a program and its working directory absolute. A bare
// name is looked up in PATH later.
func resolveProgram(dir string, command, cwd *string) {
	if strings.ContainsRune(*command, filepath.Separator) && !filepath.IsAbs(*command) {
		*command = filepath.Join(dir, *command)
	}
	if *cwd != "" && !filepath.IsAbs(*cwd) {
		*cwd = filepath.Join(dir, *cwd)
	}
}

func (c *Config) checkServers(p *problems) {
	first := ""
	for _, name := range slices.Sorted(maps.Keys(c.MCP.Servers)) {
		s, key := c.MCP.Servers[name], "mcp.servers."+name
		checkName(p, key, name, "; '/' separates a server from its tool")
		switch {
		case s.Command != "" && s.URL != "":
			p.add(key, "has command and url; keep one")
		case s.URL != "":
			s.checkURL(p, key)
		default:
			s.checkCommand(p, key)
			c.checkNodes(p, key+".nodes", s.Nodes)
		}
		if s.Idle <= 0 || s.SessionIdle <= 0 {
			p.add(key, "idle and session_idle are durations above 0, such as 10m")
		}
		checkTimeout(p, key+".timeout", s.Timeout)
		for _, tool := range slices.Sorted(maps.Keys(s.Timeouts)) {
			checkTimeout(p, key+".timeouts."+tool, s.Timeouts[tool])
			if strings.Contains(tool, "*") {
				p.add(key+".timeouts", "%.200q is a pattern, want the name of a tool in full", tool)
			}
		}
		if s.Default && first != "" {
			p.add(key+".default", "is true for %s too; one server at most is the default", first)
		}
		if s.Default {
			first = name
		}
	}
}

// checkTimeout refuses a timeout that ends every call at once, or that is above profiles.MostWork.
func checkTimeout(p *problems, key string, d time.Duration) {
	if d <= 0 || d > profiles.MostWork {
		p.add(key, "is %v, want a duration above 0 and at most %v, such as 10m", d, profiles.MostWork)
	}
}

func (s *MCPServer) checkCommand(p *problems, key string) {
	checkCommand(p, key+".command", s.Command)
	checkProgram(p, key, s.Args, s.Env, s.Dir)
	if s.MaxChildren < 1 {
		p.add(key+".max_children", "is %d, want at least 1", s.MaxChildren)
	}
	for _, k := range []string{"headers", "headers_from"} {
		if p.isSet(key + "." + k) {
			p.add(key+"."+k, "is for a url; remove it")
		}
	}
}

func (s *MCPServer) checkURL(p *problems, key string) {
	for _, k := range []string{"args", "env", "dir", "idle", "lifetime", "max_children", "nodes", "probe"} {
		if p.isSet(key + "." + k) {
			p.add(key+"."+k, "is for a command; remove it")
		}
	}
	seen := make(map[string]bool)
	checkHeaders(p, key+".headers", s.Headers, seen)
	checkHeaders(p, key+".headers_from", s.HeadersFrom, seen)
	for _, header := range slices.Sorted(maps.Keys(s.HeadersFrom)) {
		file, at := s.HeadersFrom[header], key+".headers_from."+header
		if file == "" {
			p.add(at, "missing; name the file that holds the value")
		}
		private(p, at, file)
	}
}

// checkHeaders refuses headers that the configuration cannot set, and repeated ones. seen
// are the names so far.
func checkHeaders(p *problems, key string, headers map[string]string, seen map[string]bool) {
	for _, header := range slices.Sorted(maps.Keys(headers)) {
		canonical := http.CanonicalHeaderKey(header)
		switch {
		case !headerName.MatchString(header):
			p.add(key, "%.80q is no name of a header", header)
		case slices.Contains(managed, canonical) || strings.HasPrefix(canonical, "Mcp-"):
			p.add(key+"."+header, "cannot be set: it controls how requests are sent")
		case seen[canonical]:
			p.add(key+"."+header, "is set twice, in another spelling")
		case !headerValue.MatchString(headers[header]):
			p.add(key+"."+header, "contains a character that no header can")
		}
		seen[canonical] = true
	}
}
