package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

var markdown = goldmark.New(goldmark.WithExtensions(extension.Table), goldmark.WithParserOptions(parser.WithAutoHeadingID()))

// page is a document.
type page struct {
	file   string // in the repository
	out    string // in the site
	title  string
	source []byte
	root   ast.Node
}

// heading is a heading with its fragment.
type heading struct {
	ID, Text string
	level    int
}

// section is what a search finds: the text below a heading.
type section struct {
	URL  string `json:"url"`
	Page string `json:"page"`
	Head string `json:"head"`
	Text string `json:"text"`
}

func parse(file, out string, source []byte) *page {
	p := &page{file: file, out: out, title: path.Base(file), source: source}
	p.root = markdown.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(fragments{}))))
	if first := p.headings(1); len(first) > 0 {
		p.title = first[0].Text
	}
	return p
}

// resolve points the links of the page to pages and files of the site; a link whose text is
// the name of a document shows its title. Files that links and
// images name are added to made. The link to another file of the repository becomes its text.
func (p *page) resolve(root fs.FS, pages []*page, made map[string][]byte) error {
	var faults []error
	var texts []*ast.Link
	_ = ast.Walk(p.root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		var to *[]byte
		link, isLink := n.(*ast.Link)
		if isLink {
			to = &link.Destination
		} else if image, ok := n.(*ast.Image); ok {
			to = &image.Destination
		} else {
			block, isBlock := n.(*ast.HTMLBlock)
			comment := isBlock && block.HTMLBlockType == ast.HTMLBlockType2
			if (isBlock || n.Kind() == ast.KindRawHTML) && !comment {
				faults = append(faults, fmt.Errorf("%s: HTML is not shown: write it as code", p.file))
			}
			return ast.WalkContinue, nil
		}
		dest := string(*to)
		if strings.Contains(dest, "://") && isLink {
			return ast.WalkContinue, nil
		}
		name, fragment, _ := strings.Cut(dest, "#")
		file := p.file
		if name != "" {
			file = path.Join(path.Dir(p.file), name)
		}
		if i := slices.IndexFunc(pages, func(o *page) bool { return o.file == file }); i >= 0 {
			o := pages[i]
			if fragment != "" && !slices.ContainsFunc(o.headings(0), func(h heading) bool { return h.ID == fragment }) {
				faults = append(faults, fmt.Errorf("%s: link %q: there is no such heading", p.file, dest))
			}
			*to = []byte(strings.TrimSuffix(o.out+"#"+fragment, "#"))
			if isLink && p.words(n) == path.Base(name) { // the title says more than the file
				link.RemoveChildren(link)
				link.AppendChild(link, ast.NewString([]byte(o.title)))
			}
			return ast.WalkContinue, nil
		}
		switch info, err := fs.Stat(root, file); {
		case err != nil || fragment != "" || !isLink && (info.IsDir() || !strings.HasPrefix(file, "docs/")):
			faults = append(faults, fmt.Errorf("%s: link %q leads nowhere", p.file, dest))
		case strings.HasPrefix(file, "docs/"):
			octets, err := fs.ReadFile(root, file)
			if err != nil {
				faults = append(faults, fmt.Errorf("%s: link %q: %w", p.file, dest, err))
			}
			inSite := strings.TrimPrefix(file, "docs/")
			made[inSite], *to = octets, []byte(inSite)
		default:
			texts = append(texts, link)
		}
		return ast.WalkContinue, nil
	})
	for _, link := range texts {
		parent := link.Parent()
		for link.FirstChild() != nil {
			parent.InsertBefore(parent, link, link.FirstChild())
		}
		parent.RemoveChild(parent, link)
	}
	return errors.Join(faults...)
}

func (p *page) render() (string, error) {
	var b bytes.Buffer
	err := markdown.Renderer().Render(&b, p.source, p.root)
	return b.String(), err
}

// headings returns the headings of a level, or of all for 0.
func (p *page) headings(level int) []heading {
	var found []heading
	for n := p.root.FirstChild(); n != nil; n = n.NextSibling() {
		if h, ok := n.(*ast.Heading); ok && (level == 0 || h.Level == level) {
			found = append(found, p.heading(h))
		}
	}
	return found
}

func (p *page) heading(h *ast.Heading) heading {
	id, _ := h.AttributeString("id")
	octets, _ := id.([]byte)
	return heading{string(octets), p.words(h), h.Level}
}

// sections returns the text of the page by its headings.
func (p *page) sections() []section {
	var found []section
	for n := p.root.FirstChild(); n != nil; n = n.NextSibling() {
		if h, ok := n.(*ast.Heading); ok {
			head := p.heading(h)
			url := p.out + "#" + head.ID
			if head.level == 1 {
				url = p.out
			}
			found = append(found, section{URL: url, Page: p.title, Head: head.Text})
		} else if len(found) > 0 {
			last := &found[len(found)-1]
			last.Text = strings.TrimSpace(last.Text + " " + p.words(n))
		}
	}
	return found
}

// words returns the text of a node, with single spaces.
func (p *page) words(n ast.Node) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if n.Type() == ast.TypeBlock {
			b.WriteByte(' ')
		}
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Text:
			b.Write(n.Segment.Value(p.source))
			if n.SoftLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(n.Value)
		case *ast.CodeBlock, *ast.FencedCodeBlock:
			b.Write(n.Lines().Value(p.source))
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(b.String()), " ")
}

var noise = regexp.MustCompile("[^a-z0-9 _-]")

// fragments gives headings the fragments that Git forges give them, which the links of the
// documents have. It counts how often each was given.
type fragments map[string]int

// Generate implements parser.IDs.
func (f fragments) Generate(value []byte, _ ast.NodeKind) []byte {
	id := strings.ReplaceAll(noise.ReplaceAllString(strings.ToLower(string(value)), ""), " ", "-")
	n := f[id]
	f[id]++
	if n > 0 {
		id += "-" + strconv.Itoa(n)
	}
	return []byte(id)
}

// Put implements parser.IDs, for headings that set their own.
func (f fragments) Put(value []byte) { f[string(value)]++ }
