package claims

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// JSON is the document for machines.
func (d *Document) JSON() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(d); err != nil {
		panic(err) // text, numbers and booleans
	}
	return b.Bytes()
}

// Statement is the claim in one line: the classes, or that there is none.
func (d *Document) Statement() string {
	if len(d.Classes) == 0 {
		return "no class is claimed"
	}
	names := make([]string, len(d.Classes))
	for i, c := range d.Classes {
		names[i] = c.Claim
	}
	return strings.Join(names, ", ")
}

// Markdown is the document for people.
func (d *Document) Markdown() []byte {
	p := &page{}
	p.line("# Conformance claims")
	p.line("")
	p.line("**%s**", d.Statement())
	p.line("")
	p.line("Written by `make conformance-pack` from the reports of two runs and the values in force; claims.json beside it says the same.")
	p.line("docs/conformance.md says what a verdict rests on.")
	p.table("build", "")
	p.row("version", d.Build.Version)
	p.row("commit", d.Build.GitSHA)
	p.row("Go", d.Build.GoVersion+", "+d.Build.Platform)
	p.row("date of the strict run", d.Date)
	for _, c := range d.Commands {
		p.row("command", "`"+c+"`")
	}

	p.section("Claims")
	p.table("claim", "what", "namespaces", "vectors", "evidence")
	for _, list := range [][]Claim{d.Classes, d.Others} {
		for _, c := range list {
			p.row(c.Claim, c.Title, strings.Join(c.Namespaces, " "), count(c.Vectors), strings.Join(c.Evidence, "; "))
		}
	}
	if len(d.Profiles) > 0 {
		p.section("Profiles")
		p.table("profile", "profile_id", "version", "payload", "vectors", "evidence")
		for _, x := range d.Profiles {
			p.row(x.Name, x.ID, x.Version, x.Payload, x.Vectors, strings.Join(x.Evidence, "; "))
		}
	}
	if len(d.Refused) > 0 {
		p.section("Not claimed")
		for _, r := range d.Refused {
			p.line("- **%s**", r.Claim)
			for _, why := range r.Reasons {
				p.line("  - %s", cell.Replace(why))
			}
		}
	}
	p.section("Versions")
	p.table("domain", "what", "version")
	for _, v := range d.Versions {
		p.row(v.Domain, v.What, v.Version)
	}
	p.section("Vectors")
	p.table("namespace", "vectors", "passed, default", "passed, strict", "reject codes")
	for _, s := range d.Namespaces {
		p.row(s.Namespace, s.Vectors, s.Default, s.Strict, strings.Join(s.Codes, " "))
	}
	d.Deployment.write(p)
	return p.Bytes()
}

func (d *Deployment) write(p *page) {
	p.section("Peer authentication")
	p.line("Configuration: %s.", d.Configuration)
	p.table("transport", "TLS", "ALPN", "certificate of the peer", "identity", "tickets", "error path")
	for _, c := range d.Channels {
		p.row(c.Transport, strings.Join(c.Versions, ", "), strings.Join(c.ALPN, ", "), c.Certificate, c.Identity, c.Tickets, c.ErrorPath)
	}
	p.section("Values that the specification leaves open")
	p.line("Sizes are in octets.")
	p.table("about", "value", "is", "from", "shown by")
	for _, o := range d.Open {
		for _, v := range o.Values {
			p.row(o.About, v.Name, v.Value, "`"+v.Source+"`", strings.Join(o.Vectors, " "))
		}
	}
	p.section("All settings")
	p.table("key", "value")
	for _, v := range d.Settings {
		p.row("`"+v.Name+"`", v.Value)
	}
}

// count leaves out what was not counted.
func count(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// page writes Markdown.
type page struct{ bytes.Buffer }

func (p *page) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

func (p *page) section(title string) { p.line("\n## %s\n", title) }

func (p *page) table(columns ...string) {
	if !bytes.HasSuffix(p.Bytes(), []byte("\n\n")) {
		p.line("")
	}
	p.line("| %s |\n|%s", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
}

// cell escapes text so that it stays in one cell.
var cell = strings.NewReplacer("|", "\\|", "\n", " ", "\r", " ")

func (p *page) row(cells ...any) {
	text := make([]string, len(cells))
	for i, c := range cells {
		text[i] = cell.Replace(fmt.Sprint(c))
	}
	p.line("| %s |", strings.Join(text, " | "))
}
