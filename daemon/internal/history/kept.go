package history

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/internal/disk"
)

const (
	// keptVersion is the version of the file.
	keptVersion = 1

	// maxFile bounds the file that is read, in octets. A full one has less than 5 MiB.
	maxFile = 16 << 20
)

// keptFile is the content of the file.
type keptFile struct {
	Version int          `json:"version"`
	Last    int64        `json:"last"` // minute of the newest point, since 1970
	Series  []keptSeries `json:"series"`
}

// keptSeries is a series in the file. Its points are 32-bit floating point numbers, little-endian, the newest last.
type keptSeries struct {
	Chart  string `json:"chart"`
	Label  string `json:"label"`
	Points []byte `json:"points"`
}

// load reads the file, as far as its points are of the last 24 hours. The caller holds mu.
func (r *Recorder) load(now int64) {
	r.last = now - 1
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
	if err == nil && (file.Version != keptVersion || len(file.Series) > MaxSeries) {
		err = fmt.Errorf("version %d with %d series, want version %d and at most %d", file.Version, len(file.Series), keptVersion, MaxSeries)
	}
	if err != nil {
		r.log.Warn("the history of the metrics before this start is not read", zap.String("file", r.file), zap.Error(err))
		return
	}
	for _, c := range r.charts {
		for i := range file.Series {
			if one := &file.Series[i]; one.Chart == c.Name && len(c.series) < c.most {
				c.series[one.Label] = restored(one.Points, file.Last, now)
			}
		}
	}
}

// restored returns a series of the points up to a minute, without those that are not of the last 24 hours.
func restored(octets []byte, last, now int64) *series {
	s := newSeries()
	for m := last; len(octets) >= 4 && m > now-points; m-- {
		if m <= now {
			s.ring[m%points] = math.Float32frombits(binary.LittleEndian.Uint32(octets[len(octets)-4:]))
		}
		octets = octets[:len(octets)-4]
	}
	return s
}

// save writes the file.
func (r *Recorder) save() {
	if r.file == "" {
		return
	}
	r.mu.Lock()
	file := keptFile{Version: keptVersion, Last: r.last}
	for _, c := range r.charts {
		for label, s := range c.series {
			one := keptSeries{Chart: c.Name, Label: label, Points: make([]byte, 0, 4*points)}
			for m := r.last - points + 1; m <= r.last; m++ {
				one.Points = binary.LittleEndian.AppendUint32(one.Points, math.Float32bits(s.ring[m%points]))
			}
			file.Series = append(file.Series, one)
		}
	}
	r.mu.Unlock()
	octets, err := json.Marshal(file)
	if err == nil {
		err = disk.Replace(r.file, octets, nil)
	}
	if err == nil {
		r.unsaved.Clear()
		return
	}
	if r.unsaved.Set(err) {
		r.log.Warn("the history of the metrics is not kept for the next start", zap.Duration("next_try", saveEvery*step), zap.Error(err))
	}
}
