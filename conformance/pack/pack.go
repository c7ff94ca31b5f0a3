package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/slimwire/swp/conformance"
	"github.com/slimwire/swp/conformance/bundle"
	"github.com/slimwire/swp/conformance/claims"
	"github.com/slimwire/swp/daemon/config"
)

// reports are the runs that are published, by the names of their files. The first
// two are of the core vectors, the claims rest on the others.
var reports = [...]string{"core.default", "core.strict", "all.default", "all.strict"}

// matrix is the document with the versions that are published.
const matrix = "docs/versioning-compatibility.md"

// inside is the directory of reports, logs and claims in the archive.
const inside = "artifacts/conformance"

// samples is the file of conformance.Sampler.
const samples = "samples.jsonl"

// packer makes claims and archive.
type packer struct {
	dir       string
	reports   [len(reports)]string
	config    string
	version   string
	documents []string
}

// make writes the claims, and the archive if out names one.
func (p *packer) make(ctx context.Context, out string, stdout io.Writer) error {
	files, err := p.runs()
	if err != nil {
		return err
	}
	doc, err := p.claims(ctx, files)
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{"claims.json": doc.JSON(), "claims.md": doc.Markdown()} {
		if err := os.WriteFile(filepath.Join(p.dir, name), content, 0o644); err != nil { //nolint:gosec // for publication
			return err
		}
		files = append(files, bundle.File{Name: path.Join(inside, name), Content: content})
	}
	if out == "" {
		printSummary(stdout, doc)
		return nil
	}
	for _, name := range p.documents {
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		files = append(files, bundle.File{Name: filepath.ToSlash(name), Content: content})
	}
	changed, err := commitTime(ctx)
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	if err := bundle.Write(&archive, files, changed); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil { //nolint:gosec // for publication
		return err
	}
	if err := os.WriteFile(out, archive.Bytes(), 0o644); err != nil { //nolint:gosec // for publication
		return err
	}
	_, err = fmt.Fprintln(stdout, "bundle:", out)
	return err
}

// runs reads reports and logs.
func (p *packer) runs() ([]bundle.File, error) {
	var files []bundle.File
	for i, name := range reports {
		if p.reports[i] == "" {
			p.reports[i] = filepath.Join(p.dir, name+".json")
		}
		for suffix, file := range map[string]string{".json": p.reports[i], ".log": filepath.Join(p.dir, name+".log")} {
			content, err := os.ReadFile(file)
			if err != nil {
				return nil, fmt.Errorf("%w; make conformance-core conformance-all writes it", err)
			}
			files = append(files, bundle.File{Name: path.Join(inside, name+suffix), Content: content})
		}
		if _, err := conformance.ReadReport(p.reports[i]); err != nil {
			return nil, err
		}
	}
	content, err := os.ReadFile(filepath.Join(p.dir, samples))
	if err != nil {
		return nil, fmt.Errorf("%w; make conformance-samples writes it", err)
	}
	return append(files, bundle.File{Name: path.Join(inside, samples), Content: content}), nil
}

// claims makes the claims out of the reports of all vectors.
func (p *packer) claims(ctx context.Context, files []bundle.File) (*claims.Document, error) {
	in := claims.Input{Config: config.Default(), Build: claims.Build{
		Version: p.version, GitSHA: conformance.GitSHA(ctx), Dirty: conformance.Dirty(ctx), GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}}
	var err error
	if p.config != "" {
		if in.Config, err = config.Load(p.config, nil); err != nil {
			return nil, err
		}
	}
	if in.Default, err = conformance.ReadReport(p.reports[2]); err != nil {
		return nil, err
	}
	if in.Strict, err = conformance.ReadReport(p.reports[3]); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(matrix)
	if err != nil {
		return nil, err
	}
	if in.Matrix, err = claims.ReadMatrix(string(text)); err != nil {
		return nil, fmt.Errorf("%s: %w", matrix, err)
	}
	for _, name := range reports {
		if in.Commands, err = commands(in.Commands, files, path.Join(inside, name+".log")); err != nil {
			return nil, err
		}
	}
	return claims.Make(in)
}

// commands adds the command that a log begins with.
func commands(list []string, files []bundle.File, log string) ([]string, error) {
	for _, f := range files {
		if f.Name != log {
			continue
		}
		line, _, _ := strings.Cut(string(f.Content), "\n")
		command, ok := strings.CutPrefix(line, "$ ")
		if !ok {
			return nil, fmt.Errorf("%s does not begin with the command, but %.80q", log, line)
		}
		return append(list, command), nil
	}
	return nil, fmt.Errorf("no %s", log)
}

// printSummary prints a summary of the claims and refusals.
func printSummary(w io.Writer, doc *claims.Document) {
	fmt.Fprintln(w, "claims:", doc.Statement())
	for _, r := range doc.Refused {
		fmt.Fprintf(w, "not claimed: %s: %s", r.Claim, r.Reasons[0])
		if more := len(r.Reasons) - 1; more > 0 {
			fmt.Fprintf(w, " (and %d more)", more)
		}
		fmt.Fprintln(w)
	}
}

// commitTime is the time of the packed commit; without a repository,
// SOURCE_DATE_EPOCH, or else the epoch, so that archives are reproducible.
func commitTime(ctx context.Context) (time.Time, error) {
	seconds := os.Getenv("SOURCE_DATE_EPOCH")
	if seconds == "" {
		out, err := exec.CommandContext(ctx, "git", "log", "-1", "--format=%ct").Output()
		if missing := (*exec.ExitError)(nil); err != nil && !errors.As(err, &missing) && !errors.Is(err, exec.ErrNotFound) {
			return time.Time{}, err
		}
		seconds = strings.TrimSpace(string(out))
	}
	if seconds == "" {
		return time.Unix(0, 0), nil
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("time of the commit: %w", err)
	}
	return time.Unix(n, 0), nil
}
