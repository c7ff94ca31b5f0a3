package suite

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/slimwire/swp/test/bench/cert"
	"github.com/slimwire/swp/test/bench/grpcmove"
	"github.com/slimwire/swp/test/bench/move"
	"github.com/slimwire/swp/test/bench/proc"
	"github.com/slimwire/swp/test/bench/rawtls"
	"github.com/slimwire/swp/test/bench/swpmove"
)

// MoveSystem is one way to move a file to a server and back. The first is ours.
type MoveSystem struct {
	ID     string
	Name   string
	Server string // key of servers
	New    move.New
}

// MoveSystems returns all systems in the order of the table.
func MoveSystems() []MoveSystem {
	return []MoveSystem{
		{"swpd-artifact", "swpd: artifact put, get", swpdMoveKey, swpmove.NewMover},
		{"raw-move", "raw TLS", rawMoveKey, rawtls.NewMover},
		{digestMoveID, "raw TLS and SHA-256", rawMoveKey, rawtls.NewDigestMover},
		{"grpc-move", "gRPC stream of pieces", grpcMoveKey, grpcmove.NewMover},
	}
}

// digestMoveID is the system that the promises compare ours with.
const digestMoveID = "raw-move-digest"

const (
	rawMoveKey  = "raw-move"
	grpcMoveKey = "grpc-move"
)

// direction is which way a file goes, and the command of clients for it.
type direction string

const (
	upload   direction = "upload"
	download direction = "download"
)

// moveArgs are the arguments of the client's commands. Path is the file.
type moveArgs struct {
	Addr string `json:"addr"`
	Path string `json:"path"`
}

// moveOps are the commands of a client that moves files.
func moveOps(s MoveSystem, dir string) proc.Ops {
	op := func(do func(m move.Mover, path string) error) func(json.RawMessage) (any, error) {
		return func(raw json.RawMessage) (any, error) {
			var args moveArgs
			if err := json.Unmarshal(raw, &args); err != nil {
				return nil, err
			}
			began := time.Now()
			err := do(s.New(args.Addr, cert.Client(dir)), args.Path)
			return time.Since(began), err
		}
	}
	ctx := context.Background()
	return proc.Ops{
		string(upload):   op(func(m move.Mover, path string) error { return m.Upload(ctx, path) }),
		string(download): op(func(m move.Mover, path string) error { return m.Download(ctx, path) }),
		"clear":          op(func(m move.Mover, _ string) error { return m.Clear(ctx) }),
	}
}

// moved is what it took to move a file once. The zero value is a round that failed.
type moved struct {
	took                   time.Duration
	clientCPU, serverCPU   time.Duration
	clientPeak, serverPeak int64 // octets resident
}

// artifact moves a file to each server and back.
func (r *run) artifact() (err error) {
	rounds := max(min(r.opts.Rounds, 3), r.opts.Rounds/3)
	if r.report.Artifact, err = r.moveAll(MoveSystems(), rounds); err != nil {
		return err
	}
	for _, m := range r.report.Artifact {
		m.judge()
	}
	return nil
}

// judge compares the rows of MoveSystems with the promises about artifacts.
func (m MoveReport) judge() {
	for i := range m.Rows {
		row := &m.Rows[i]
		switch {
		case i == 0 && row.ServerPeak != nil:
			row.PeakPromise = atMost(row.ServerPeak.Median, moveMemory)
		case row.System == digestMoveID && row.Ratio != nil:
			row.Ratio.Promise = atLeast(row.Ratio.Median, moveBound)
		}
	}
}

// moveAll moves a file to the server of each system and back. Ratios use measurements of
// the same round.
func (r *run) moveAll(systems []MoveSystem, rounds int) (reports []MoveReport, err error) {
	dir, err := os.MkdirTemp(r.fleet.dir, "artifact-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	source := filepath.Join(dir, "source")
	sum, err := noise(source, r.opts.Artifact)
	if err != nil {
		return nil, err
	}
	results := map[direction][][]moved{upload: make([][]moved, len(systems)), download: make([][]moved, len(systems))}
	for round := range rounds {
		r.say("artifact, %s, round %d of %d", sizeName(r.opts.Artifact), round+1, rounds)
		for j := range systems {
			k := (round + j) % len(systems)
			up, down, err := r.moveBoth(systems[k], dir, source, sum)
			if r.ctx.Err() != nil {
				return nil, context.Cause(r.ctx)
			}
			if err != nil {
				r.fail(systems[k].ID, err)
			}
			results[upload][k] = append(results[upload][k], up)
			results[download][k] = append(results[download][k], down)
		}
	}
	for _, d := range []direction{upload, download} {
		reports = append(reports, moveReport(d, r.opts.Artifact, rounds, systems, results[d]))
	}
	return reports, nil
}

// moveBoth moves the file to a server and back, and compares.
func (r *run) moveBoth(s MoveSystem, dir, source string, sum []byte) (up, down moved, err error) {
	path := filepath.Join(dir, "returned")
	defer func() {
		if removed := os.Remove(path); !errors.Is(removed, os.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}()
	if up, err = r.fleet.move(s, upload, source); err != nil {
		return moved{}, moved{}, err
	}
	if down, err = r.fleet.move(s, download, path); err != nil {
		return up, moved{}, err
	}
	got, err := digest(path)
	if err == nil && !bytes.Equal(got, sum) {
		err = fmt.Errorf("suite: %s has returned other octets", s.ID)
	}
	if err != nil {
		return moved{}, moved{}, err
	}
	addr, _, err := r.fleet.reach(s.Server)
	if err != nil {
		return moved{}, moved{}, err
	}
	return up, down, r.fleet.clients[s.ID].Do("clear", moveArgs{Addr: addr}, nil)
}

// move has one system move a file once.
func (f *fleet) move(s MoveSystem, d direction, path string) (m moved, err error) {
	addr, pids, err := f.reach(s.Server)
	if err != nil {
		return m, err
	}
	client, err := f.client(s.ID)
	if err != nil {
		return m, err
	}
	pids = append([]int{client.PID()}, pids...)
	for _, pid := range pids {
		if err := proc.ResetPeak(pid); err != nil {
			return m, err
		}
	}
	before, err := cpus(pids...)
	if err != nil {
		return m, err
	}
	if err := client.Do(string(d), moveArgs{Addr: addr, Path: path}, &m.took); err != nil {
		return moved{}, err
	}
	after, err := cpus(pids...)
	if err != nil {
		return moved{}, err
	}
	m.clientCPU = after[0] - before[0]
	if m.clientPeak, err = proc.Peak(pids[0]); err != nil {
		return moved{}, err
	}
	for i, pid := range pids[1:] {
		m.serverCPU += after[i+1] - before[i+1]
		peak, err := proc.Peak(pid)
		if err != nil {
			return moved{}, err
		}
		m.serverPeak += peak
	}
	return m, nil
}

// noise makes a file of random octets and returns its digest. It is on the disk by
// then: otherwise it would be written while something is measured.
func noise(path string, size int) ([]byte, error) {
	err := move.Keep(path, io.LimitReader(rand.NewChaCha8([32]byte{}), int64(size)))
	if err != nil {
		return nil, err
	}
	return digest(path)
}

func digest(path string) ([]byte, error) {
	h := sha256.New()
	err := move.Pass(h, path)
	return h.Sum(nil), err
}

// moveReport compares what was measured, by system and round.
func moveReport(d direction, size, rounds int, systems []MoveSystem, results [][]moved) MoveReport {
	report := MoveReport{Direction: string(d), Size: size, Rounds: rounds}
	seconds := func(t func(moved) time.Duration) func(moved) float64 {
		return func(m moved) float64 { return t(m).Seconds() }
	}
	mib := func(n func(moved) int64) func(moved) float64 {
		return func(m moved) float64 { return float64(n(m)) / (1 << 20) }
	}
	rate := func(m moved) float64 {
		if m.took == 0 {
			return 0
		}
		return float64(size) / 1e6 / m.took.Seconds()
	}
	for i, s := range systems {
		row := MoveRow{
			System: s.ID, Name: s.Name,
			Rate:       figures(results[i], rate),
			ClientCPU:  figures(results[i], seconds(func(m moved) time.Duration { return m.clientCPU })),
			ServerCPU:  figures(results[i], seconds(func(m moved) time.Duration { return m.serverCPU })),
			ClientPeak: figures(results[i], mib(func(m moved) int64 { return m.clientPeak })),
			ServerPeak: figures(results[i], mib(func(m moved) int64 { return m.serverPeak })),
		}
		if i > 0 {
			if spread, ok := ratios(each(results[0], rate), each(results[i], rate)); ok {
				row.Ratio = &Ratio{Of: "rate", Spread: spread}
			}
		}
		report.Rows = append(report.Rows, row)
	}
	return report
}

func (m MoveReport) write(w io.Writer) {
	section(w, fmt.Sprintf("artifact %s · %s · 1 connection (%d rounds)", m.Direction, sizeName(m.Size), m.Rounds),
		"", "MB/s", "client CPU s", "server CPU s", "client peak MiB", "server peak MiB", divided(m.Divided), "min–max", "promise", "")
	for _, r := range m.Rows {
		if r.Rate == nil {
			row(w, r.Name, append([]string{"not measured"}, make([]string, 8)...)...)
			continue
		}
		cells := []string{
			fmt.Sprintf("%.0f", r.Rate.Median), hundredths(r.ClientCPU), hundredths(r.ServerCPU), micros(r.ClientPeak), micros(r.ServerPeak), "", "", "", "",
		}
		copy(cells[5:], r.Ratio.cells())
		if r.PeakPromise != nil {
			cells[7], cells[8] = r.PeakPromise.text("MiB"), r.PeakPromise.mark()
		}
		row(w, r.Name, cells...)
	}
}

func hundredths(s *Spread) string {
	if s == nil {
		return ""
	}
	return fmt.Sprintf("%.2f", s.Median)
}
