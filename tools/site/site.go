package main

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

//go:embed page.html versions.html style.css search.js
var files embed.FS

var templates = template.Must(template.ParseFS(files, "*.html"))

// versionName is the form of a version, which names a directory.
var versionName = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.+_-]*$`)

// outside are the documents that are not in docs.
var outside = []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"}

// Build writes the pages of the documents below root into out/version, in place of older
// ones there, and the list of versions into out. Nothing is written if a document has a
// link that leads nowhere; the error names each.
func Build(root fs.FS, out, version string) error {
	if !versionName.MatchString(version) {
		return fmt.Errorf("version %q: want letters, digits, and . + _ - behind the first", version)
	}
	pages, err := load(root)
	if err != nil {
		return err
	}
	made := map[string][]byte{} // by file
	var index []section
	var faults []error
	for _, p := range pages {
		faults = append(faults, p.resolve(root, pages, made))
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	for _, p := range pages {
		body, err := p.render()
		if err != nil {
			return err
		}
		var b bytes.Buffer
		err = templates.ExecuteTemplate(&b, "page.html", map[string]any{
			"Title": p.title, "Version": version, "Body": template.HTML(body), "Headings": p.headings(2), "File": p.file,
		})
		if err != nil {
			return err
		}
		made[p.out] = b.Bytes()
		index = append(index, p.sections()...)
	}
	sections, err := json.Marshal(index)
	if err != nil {
		return err
	}
	made["sections.js"] = slices.Concat([]byte("searchIn("), sections, []byte(");\n"))
	for _, name := range []string{"style.css", "search.js"} {
		if made[name], err = files.ReadFile(name); err != nil {
			return err
		}
	}

	dir := filepath.Join(out, version)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	for name, octets := range made {
		if err := write(filepath.Join(dir, filepath.FromSlash(name)), octets); err != nil {
			return err
		}
	}
	return list(out)
}

// load reads the documents below root, sorted by name.
func load(root fs.FS) ([]*page, error) {
	names, err := fs.Glob(root, "docs/*.md")
	if err != nil {
		return nil, err
	}
	var pages []*page
	outs := map[string]string{}
	for _, name := range slices.Concat(names, outside) {
		text, err := fs.ReadFile(root, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		out := strings.ToLower(strings.TrimSuffix(path.Base(name), ".md")) + ".html"
		if name == "docs/README.md" {
			out = "index.html"
		}
		if other := outs[out]; other != "" {
			return nil, fmt.Errorf("%s and %s would both be %s", other, name, out)
		}
		outs[out] = name
		pages = append(pages, parse(name, out, text))
	}
	if outs["index.html"] == "" {
		return nil, errors.New("there is no docs/README.md")
	}
	return pages, nil
}

// list writes the list of the versions in out, the newest first, those without a number last.
func list(out string) error {
	entries, err := os.ReadDir(out)
	if err != nil {
		return err
	}
	var versions []string
	for _, e := range entries {
		if _, err := os.Stat(filepath.Join(out, e.Name(), "index.html")); e.IsDir() && err == nil {
			versions = append(versions, e.Name())
		}
	}
	slices.SortFunc(versions, func(a, b string) int {
		return cmp.Or(-semver.Compare("v"+a, "v"+b), strings.Compare(a, b))
	})
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, "versions.html", versions); err != nil {
		return err
	}
	return write(filepath.Join(out, "index.html"), b.Bytes())
}

func write(file string, octets []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, octets, 0o644)
}
