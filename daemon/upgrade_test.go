package daemon

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/archive"
	"github.com/slimwire/swp/store/filestore"
	"github.com/slimwire/swp/store/sqlstore"
)

// makeData is make upgrade-data: a release adds its data directory once, and never changes it.
var makeData = flag.String("make-data", "", "write testdata/data-`RELEASE`.tar.gz, the data directory that this program makes")

// A data directory of a release is a file of these two.
const (
	upgradeData   = "data"
	upgradeBackup = "backup.swp" // the backup that its release has made of it
)

// TestDataOutlivesARestart also shows that what each content checks in the data of a release is
// there in the data of this one.
func TestDataOutlivesARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	u := newUpgraded(t, dir)
	for _, c := range contents {
		c.write(t, u)
	}
	if err := u.end(); err != nil {
		t.Fatal(err)
	}
	backup := u.backedUp(filepath.Join(dir, upgradeData))
	spaces := u.wantRows(backup)
	if *makeData != "" {
		keepData(t, filepath.Join("testdata", "data-"+*makeData+".tar.gz"), dir, backup)
	}
	for _, c := range contents {
		for _, space := range c.spaces {
			if !spaces[space] {
				t.Errorf("%s has written nothing to the space %s", c.name, space)
			}
			delete(spaces, space)
		}
	}
	for space := range spaces {
		t.Errorf("the space %s belongs to no content of this test", space)
	}
	u = newUpgraded(t, dir)
	u.readAll(t)
}

// The data directories of all releases, and of states between them, are in testdata.
func TestDataOfEachReleaseIsReadByThisOne(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/data-*.tar.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("no data, %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Run("octets", func(t *testing.T) { wantSameOctets(t, file) })
			t.Run("directory", func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				unpackData(t, file, dir)
				newUpgraded(t, dir).readAll(t)
			})
			t.Run("backup", func(t *testing.T) {
				t.Parallel()
				from, dir := t.TempDir(), t.TempDir()
				unpackData(t, file, from)
				u := &upgraded{dir: dir}
				u.configure(t)
				transfer := Transfer{Config: mustLoad(t, filepath.Join(dir, "swpd.yaml")), Log: t.Output()}
				backup, err := os.Open(filepath.Join(from, upgradeBackup))
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = backup.Close() }()
				if _, err := transfer.Import(t.Context(), backup); err != nil {
					t.Fatal(err)
				}
				u = newUpgraded(t, dir)
				u.restored = true
				u.readAll(t)
			})
		})
	}
}

// wantSameOctets wants that the store of a release has each record, entry, item and artifact of its
// backup, with the same octets, versions, numbers, leases, expiries and order. The clock is that of
// the backup: nothing has expired since.
func wantSameOctets(t *testing.T, file string) {
	dir := t.TempDir()
	unpackData(t, file, dir)
	f, err := os.Open(filepath.Join(dir, upgradeBackup))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	was, at := piecesOf(t, f)
	now := func() time.Time { return time.Unix(0, int64(at)) }
	data := filepath.Join(dir, upgradeData)
	engine, err := sqlstore.Open(t.Context(), sqlstore.Options{Dir: filepath.Join(data, "store"), Durability: store.Process, Migrate: true, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = engine.Close() }()
	artifacts, err := filestore.Open(t.Context(), filestore.Options{
		Records: engine, Space: "artifact", Dir: filepath.Join(data, "artifacts"), Durability: store.Process, Now: now,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = artifacts.Close() }()
	var is []string
	for _, from := range []store.Exporter{engine, artifacts} {
		err := from.Export(t.Context(), func(p store.Piece) error {
			if r, record := p.(*store.Record); !record || !slices.Contains(filestore.Spaces("artifact"), r.Space) {
				is = appendPiece(is, p)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(was, is); diff != "" {
		t.Errorf("the data of the release and of this one (-was +is):\n%s", diff)
	}
}

// piecesOf returns the pieces of a backup, and the time on the clock of its store.
func piecesOf(t *testing.T, backup io.Reader) (pieces []string, clock uint64) {
	t.Helper()
	r := archive.NewReader(backup)
	for {
		if _, err := r.Section(); err == io.EOF {
			return pieces, clock
		} else if err != nil {
			t.Fatal(err)
		}
		for {
			p, err := r.Next()
			if err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			if s, is := p.(*store.Start); is && clock == 0 {
				clock = s.Clock
			}
			pieces = appendPiece(pieces, p)
		}
	}
}

// appendPiece appends a piece as text. A Start has the time of its export, so it is left out. A blob
// may be exported in parts of other sizes: their octets are joined.
func appendPiece(list []string, p store.Piece) []string {
	const octets = "octets "
	switch p := p.(type) {
	case *store.Start:
		return list
	case *store.Octets:
		text := fmt.Sprintf("%x", p.Data)
		if n := len(list); n > 0 && strings.HasPrefix(list[n-1], octets) {
			list[n-1] += text
			return list
		}
		return append(list, octets+text)
	}
	return append(list, strings.TrimPrefix(fmt.Sprintf("%T %+q", p, p), "*store."))
}

// upgraded is an organisation with everything that stores something.
type upgraded struct {
	*organisation
	dir   string
	far   *far
	agent *scripted
	keys  *sdlKeys
	begun []func() // ends what is in progress until the daemon has stopped

	restored bool // the data is from a backup
}

// years is longer than a release is read.
const years = "87600h"

// configure makes certificates, keys and a configuration.
func (u *upgraded) configure(t *testing.T) (yaml string) {
	t.Helper()
	if err := devpki.Create(filepath.Join(u.dir, "pki"), devpki.Options{Name: theEnd}); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	u.keys = newSDLKeys(t, u.dir)
	u.agent = newScripted(t, func(string) (string, string) {
		return `{"task":{"id":"of-billing","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}`, ""
	})
	var backend string
	u.far, backend = newFar(t)
	chains, _ := credYAML(t, true)
	yaml = strings.Replace(backend, "rpc: {", "rpc: {replay_window: "+years+", ", 1) + chains +
		strings.Replace(sdlSecure, "  mode:", "  session: {required: true}\n  audit: {enabled: true}\n  mode:", 1) +
		fmt.Sprintf("a2a: {retention: %s, abandoned: %[1]s, agents: {billing: {url: %q, binding: jsonrpc, retention: %[1]s}}}\n", years, u.agent.url) +
		"teams: {desk: {default: triage, retention: " + years + ", members: {triage: {}}}}\n" +
		"events: {retention: " + years + "}\nartifact: {abandoned: " + years + ", retention: " + years + "}\nstate: {retention: " + years + "}\n" +
		"relay: {window: " + years + ", retention: " + years + ", dead_retention: " + years + ", ack_timeout: 1h}\n" +
		"partners: {b: {identity: spiffe://b.example/swpd, queue: {messages: 10}}}\n" +
		"audit: {exchanges: all}\ndurability: process\n" +
		"access:\n  rules:\n  - {identity: '**', profile: [rpc, events, artifact, state, relay, cred, sdl, agdisc]}\n" +
		"  - {identity: '**', profile: a2a, operation: handshake}\n" +
		"  - {identity: '**', profile: a2a, operation: task, name: [ended, begun, sdl/**, a2a/1.0/*, worker/*, billing/**, desk/**, triage/**]}\n" +
		"  agents: [{identity: '**', agent_ids: '**'}]\n"
	if err := os.WriteFile(filepath.Join(u.dir, "swpd.yaml"), []byte("identity: {cert: pki/server.crt, key: pki/server.key}\ntrust: {ca: [pki/ca.crt]}\n"+
		"admin: 127.0.0.1:0\ndata: data\n"+yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	return yaml
}

// newUpgraded starts the daemon on the data in a directory.
func newUpgraded(t *testing.T, dir string) *upgraded {
	t.Helper()
	u := &upgraded{dir: dir}
	yaml := u.configure(t)
	u.organisation = &organisation{startIn(t, dir, yaml), "a", theEnd}
	return u
}

func (u *upgraded) end() error {
	err := u.running.end()
	for _, end := range u.begun {
		end()
	}
	return err
}

func (u *upgraded) readAll(t *testing.T) {
	for _, c := range contents {
		t.Run(c.name, func(t *testing.T) { c.read(t, u) })
	}
	if err := u.end(); err != nil {
		t.Error(err)
	}
}

// backedUp returns a backup of a data directory.
func (u *upgraded) backedUp(data string) []byte {
	u.t.Helper()
	c, err := config.Load(filepath.Join(u.dir, "swpd.yaml"), nil)
	if err != nil {
		u.t.Fatal(err)
	}
	c.Data = data
	var file bytes.Buffer
	transfer := Transfer{Config: c, Log: u.t.Output()}
	if _, err := transfer.Export(u.t.Context(), &file); err != nil {
		u.t.Fatal(err)
	}
	return file.Bytes()
}

// row is a row of the table of formats, with its first cell.
var row = regexp.MustCompile(`(?m)^\| ([a-z0-9./, -]+) \|`)

// wantRows wants that each file of the data directory, and each space of the database, is in the
// table of formats in docs/durability.md. It returns the spaces.
func (u *upgraded) wantRows(backup []byte) map[string]bool {
	u.t.Helper()
	text, err := os.ReadFile("../docs/durability.md")
	if err != nil {
		u.t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "## Versions")
	rows := make(map[string]bool)
	for _, cells := range row.FindAllStringSubmatch(table, -1) {
		for name := range strings.SplitSeq(cells[1], ", ") {
			rows[name] = true
		}
	}
	spaces := make(map[string]bool)
	r := archive.NewReader(bytes.NewReader(backup))
	for section := 0; section < 2; section++ {
		if _, err := r.Section(); err != nil {
			u.t.Fatal(err)
		}
		for p, err := r.Next(); err == nil; p, err = r.Next() {
			switch p := p.(type) {
			case *store.Record:
				spaces[p.Space] = true
			case *store.Log:
				spaces[p.Space] = true
			case *store.Item:
				spaces[p.Space] = true
			}
		}
	}
	missing := maps.Clone(spaces)
	err = fs.WalkDir(os.DirFS(filepath.Join(u.dir, upgradeData)), ".", func(path string, d fs.DirEntry, err error) error {
		switch dir, name, below := strings.Cut(path, "/"); {
		case d.IsDir():
		case below && name == "lock", strings.HasSuffix(path, ".lock"), path == "artifacts/probe": // they are empty, or nobody reads them
		case below:
			missing[dir+"/"] = true
		default:
			missing[path] = true
		}
		return err
	})
	if err != nil {
		u.t.Fatal(err)
	}
	for name := range missing {
		if !rows[name] {
			u.t.Errorf("the table of formats in docs/durability.md has no row for %s", name)
		}
	}
	return spaces
}

// keepData writes a data directory and its backup to a new file.
func keepData(t *testing.T, file, dir string, backup []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, upgradeBackup), backup, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // as in a source tree
		t.Fatal(err)
	}
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // as in a source tree
	if err != nil {
		t.Fatal(err)
	}
	packed := gzip.NewWriter(out)
	files := tar.NewWriter(packed)
	for _, top := range []string{upgradeData, upgradeBackup} {
		err = errors.Join(err, fs.WalkDir(os.DirFS(dir), top, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			octets, err := os.ReadFile(filepath.Join(dir, path))
			if err == nil {
				err = files.WriteHeader(&tar.Header{Name: path, Mode: 0o600, Size: int64(len(octets))})
			}
			if err == nil {
				_, err = files.Write(octets)
			}
			return err
		}))
	}
	if err = errors.Join(err, files.Close(), packed.Close(), out.Close()); err != nil {
		t.Fatal(err)
	}
}

// unpackData unpacks a file of keepData.
func unpackData(t *testing.T, file, dir string) {
	t.Helper()
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	packed, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	files := tar.NewReader(packed)
	for {
		h, err := files.Next()
		if err == io.EOF {
			return
		}
		var octets []byte
		if err == nil {
			octets, err = io.ReadAll(files)
		}
		to := filepath.Join(dir, filepath.FromSlash(h.Name))
		if err == nil {
			err = os.MkdirAll(filepath.Dir(to), 0o700)
		}
		if err == nil {
			err = os.WriteFile(to, octets, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
