package health

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/internal/disk"
)

const (
	// keptVersion is the version of the file.
	keptVersion = 1

	// maxFile bounds the file that is read, in octets.
	maxFile = 16 << 20

	// saveEvery is the least time between two writes of the file.
	saveEvery = 10 * time.Second
)

// keptFile is the content of the file.
type keptFile struct {
	Version int          `json:"version"`
	Records []keptRecord `json:"records"`
}

// keptRecord is a record in the file.
type keptRecord struct {
	Record
	Told  string `json:"told,omitempty"`
	Hours window `json:"hours"`
}

// load reads the file.
func (r *Records) load() {
	r.found = make(map[key]keptRecord)
	if r.file == "" {
		return
	}
	octets, err := part.ReadUpTo(r.file, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var file keptFile
	if err == nil {
		err = json.Unmarshal(octets, &file)
	}
	if err == nil && file.Version != keptVersion {
		err = fmt.Errorf("version %d, want %d", file.Version, keptVersion)
	}
	if err != nil {
		r.log.Warn("what is known of servers, partners and others of the last run is not read", zap.String("file", r.file), zap.Error(err))
		return
	}
	for _, one := range file.Records {
		r.found[key{one.Kind, one.Name}] = one
	}
}

// restore takes a record of the file, as far as it makes sense.
func (e *Entry) restore(k *keptRecord) {
	if !slices.Contains(States(), k.State) || k.Since.After(time.Now()) {
		return
	}
	e.state, e.since, e.told = k.State, k.Since, k.Told
	if k.State == Starting {
		e.state = Untried
	}
	if k.LastError != nil && k.LastError.Fault.row().kind == e.kind {
		e.last = k.LastError
	}
	if !k.LastSuccess.IsZero() {
		e.worked.Store(k.LastSuccess.Unix())
	}
	if k.Hours.Hour <= time.Now().Unix()/3600 {
		e.failures = k.Hours
	}
	e.fine.Store(e.state == OK)
}

// save writes the file if a state has changed, or at the end.
func (r *Records) save(end bool) {
	r.mu.Lock()
	due := r.opened && r.file != "" && (end || time.Since(r.saved) >= saveEvery)
	if due {
		r.saved = time.Now()
	}
	r.mu.Unlock()
	if !due || !r.changed.Swap(false) && !end {
		return
	}
	file := keptFile{Version: keptVersion}
	for _, e := range r.entries() {
		one := keptRecord{Record: e.Record()}
		e.mu.Lock()
		one.Told, one.Hours = e.told, e.failures
		e.mu.Unlock()
		file.Records = append(file.Records, one)
	}
	octets, err := json.Marshal(file)
	if err == nil {
		err = disk.Replace(r.file, octets, nil)
	}
	if err == nil {
		r.unsaved.Clear()
		return
	}
	r.changed.Store(true)
	if r.unsaved.Set(err) {
		r.log.Warn("what is known of servers, partners and others is not kept for the next start", zap.Error(err))
	}
}
