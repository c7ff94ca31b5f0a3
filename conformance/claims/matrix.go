package claims

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/transport"
)

// Matrix is the support matrix of a release, the rows in the order of
// docs/versioning-compatibility.md §6. Versions of profiles and bindings are
// published there and nowhere on the wire, so a claim takes them from there.
type Matrix []Version

// Version is a row of a Matrix.
type Version struct {
	Domain  string `json:"domain"` // Core, encoding, binding, payload, or "profile " and its id
	What    string `json:"what"`
	Version string `json:"version"`
}

// ReadMatrix finds the support matrix in the text of a document: the first table
// whose columns are domain, what and version.
func ReadMatrix(text string) (Matrix, error) {
	_, table, found := strings.Cut(text, "\n| domain | what | version |\n|---|---|---|\n")
	if !found {
		return nil, errors.New("claims: no table with the columns domain, what, version")
	}
	var m Matrix
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 5 {
			break
		}
		v := Version{strings.TrimSpace(cells[1]), strings.ReplaceAll(strings.TrimSpace(cells[2]), "`", ""), strings.TrimSpace(cells[3])}
		if v.Domain == "" || v.What == "" || v.Version == "" || strings.HasPrefix(v.Domain, "profile ") && m.version(v.Domain) != "" {
			return nil, fmt.Errorf("claims: row %q of the support matrix is incomplete, or there twice", line)
		}
		m = append(m, v)
	}
	return m, nil
}

// version is the version in the first row of a domain, or empty.
func (m Matrix) version(domain string) string {
	i := slices.IndexFunc(m, func(v Version) bool { return v.Domain == domain })
	if i < 0 {
		return ""
	}
	return m[i].Version
}

// check says where the matrix contradicts the code.
func (m Matrix) check() error {
	if got, want := m.version("Core"), strconv.Itoa(e1.Version); got != want {
		return fmt.Errorf("claims: the support matrix has Core %q, the code %q", got, want)
	}
	bindings := 0
	for _, v := range m {
		if v.Domain != "binding" {
			continue
		}
		bindings++
		if !strings.Contains(v.What, transport.ALPN) {
			return fmt.Errorf("claims: binding %q of the support matrix does not name ALPN %s", v.What, transport.ALPN)
		}
	}
	if bindings == 0 {
		return errors.New("claims: the support matrix has no binding")
	}
	return nil
}
