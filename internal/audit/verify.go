package audit

import (
	"bufio"
	"bytes"
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// Finding is a fault of a trail.
type Finding struct {
	Segment  int    `json:"segment"`  // number of the segment
	Line     int    `json:"line"`     // line in the segment, from 1; 0: the whole file
	Sequence uint64 `json:"sequence"` // of the faulty or missing record; 0: unknown
	Text     string `json:"text"`
}

// Result is the result of Verify.
type Result struct {
	Segments int    `json:"segments"`
	Records  uint64 `json:"records"`
	First    uint64 `json:"first"` // sequences; 0 for an empty trail
	Last     uint64 `json:"last"`
	Faults   int    `json:"faults"`

	// Proven is the sequence of the last record covered by a valid checkpoint, and ProvenAt
	// the time of that checkpoint. Later records are not proven yet.
	Proven   uint64    `json:"proven"`
	ProvenAt time.Time `json:"proven_at"`
}

// Trust reports whether the holder of a certificate, given with its authorities in chain,
// may sign for an endpoint at a time.
type Trust func(identity string, chain []*x509.Certificate, at time.Time) error

// Verification holds the parameters of Verify.
type Verification struct {
	Dir   string
	Trust Trust
	Part  bool          // the directory has only some segments of a trail, as after Export
	Found func(Finding) // called for each fault
}

// Verify reads a whole trail; it can be in use. The error means that a file cannot be
// read, or that ctx has ended.
func Verify(ctx context.Context, o Verification) (Result, error) {
	list, err := segments(o.Dir)
	if err != nil {
		return Result{}, fmt.Errorf("audit: %w", err)
	}
	v := &verifier{trust: o.Trust, found: o.Found, chains: make(map[string][]*x509.Certificate), removed: make(map[int]*removed)}
	for i, s := range list {
		if err := ctx.Err(); err != nil {
			return v.r, err
		}
		if v.segment, v.line = s.number, 0; i > 0 && s.number != list[i-1].number+1 {
			v.fault(0, "segments %d to %d are missing", list[i-1].number+1, s.number-1)
		}
		if err := v.read(filepath.Join(o.Dir, segmentName(s.number)), i == len(list)-1); err != nil {
			return v.r, fmt.Errorf("audit: %w", err)
		}
		v.r.Segments++
	}
	if len(list) > 0 && !o.Part {
		v.begins(list[0].number)
	}
	return v.r, nil
}

type verifier struct {
	trust  Trust
	found  func(Finding)
	r      Result
	chain  chain
	chains map[string][]*x509.Certificate // by fingerprint of the leaf

	segment, line int
	before        Sum              // hash of the record before the last one
	first         *sealed          // first record of the trail, if its sequence is not 1
	removed       map[int]*removed // by the last removed segment
}

// removed is the content of a record of actionRemoved.
type removed struct {
	Segment int    `json:"swp.audit.segment"`
	Last    uint64 `json:"swp.audit.last"`
	Hash    string `json:"swp.audit.hash"`
}

func (v *verifier) fault(sequence uint64, format string, args ...any) {
	v.r.Faults++
	v.found(Finding{Segment: v.segment, Line: v.line, Sequence: sequence, Text: fmt.Sprintf(format, args...)})
}

// read verifies a segment.
func (v *verifier) read(path string, last bool) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, maxLine)
	for {
		text, err := nextLine(in)
		switch {
		case err == nil:
			v.line++
			v.record(text)
		case errors.Is(err, errLong):
			v.line++
			v.fault(v.chain.sequence+1, "a line of more than %d octets is no record", maxLine)
		case !errors.Is(err, io.EOF):
			return err
		default:
			if damagedEnd(text) {
				v.line++
				v.fault(v.chain.sequence+1, "the line feed behind the record is damaged")
			} else if len(text) > 0 && !last { // at the end of the last segment a record may be incomplete
				v.line++
				v.fault(v.chain.sequence+1, "the segment ends in the middle of a record")
			}
			return nil
		}
	}
}

// record verifies a line: its position, its octets, and its statements about other records.
func (v *verifier) record(text []byte) {
	s, ok := parse(text)
	if !ok {
		v.fault(v.chain.sequence+1, "the line is no record")
		return
	}
	expected := v.chain.sequence + 1
	if v.r.Records == 0 {
		v.r.First = s.sequence
	}
	switch {
	case v.r.Records == 0 && s.sequence > 1:
		v.first = &sealed{bytes.Clone(s.body), s.sequence, s.hash}
		v.adopt(s)
		v.special(s)
		return
	case s.sequence < expected:
		v.fault(s.sequence, "record %d stands behind record %d: it was moved, repeated or added", s.sequence, v.chain.sequence)
		return
	case s.sequence > expected:
		v.fault(expected, "records %d to %d are missing", expected, s.sequence-1)
		v.adopt(s)
		return
	}
	if v.chain.next(s.body) != s.hash {
		v.fault(s.sequence, "record %d is not what was written", s.sequence)
		v.adopt(s)
		return
	}
	v.adopt(s)
	v.special(s)
}

// begins checks the start of a trail whose oldest segments are missing: a later record must
// announce the removal and contain the last hash.
func (v *verifier) begins(number int) {
	if v.first == nil {
		return
	}
	v.segment, v.line = number, 1
	r := v.removed[number-1]
	if r == nil {
		v.fault(v.first.sequence, "the trail begins with record %d: no record says that those before it were removed for room", v.first.sequence)
		return
	}
	before := chain{sequence: r.Last}
	n, err := hex.Decode(before.hash[:], []byte(r.Hash))
	if err != nil || n != len(before.hash) || r.Last+1 != v.first.sequence || before.next(v.first.body) != v.first.hash {
		v.fault(v.first.sequence, "record %d does not continue what was removed for room", v.first.sequence)
	}
}

// adopt continues after a record.
func (v *verifier) adopt(s sealed) {
	v.before = v.chain.hash
	v.chain.sequence, v.chain.hash = s.sequence, s.hash
	v.r.Records++
	v.r.Last = s.sequence
}

// special evaluates records about other records.
func (v *verifier) special(s sealed) {
	at := bytes.Index(s.body, []byte(`,"event.action":"`))
	if at < 0 {
		return
	}
	action, _, _ := bytes.Cut(s.body[at+len(`,"event.action":"`):], []byte{'"'})
	switch string(action) {
	case actionCertificate:
		v.certificate(s)
	case actionCheckpoint:
		v.checkpoint(s)
	case actionReceipt:
		v.receipt(s)
	case actionRemoved:
		r := new(removed)
		if v.decode(s, r) {
			v.removed[r.Segment] = r
		}
	case actionLost:
		v.fault(s.sequence, "records are missing because the disk failed: %s", s.body[at+1:])
	}
}

func (v *verifier) decode(s sealed, into any) bool {
	if err := json.Unmarshal(append(bytes.Clone(s.body), '}'), into); err != nil {
		v.fault(s.sequence, "record %d: %v", s.sequence, err)
		return false
	}
	return true
}

// receipt verifies the signature of a partner. Whether its authority is trusted is not known
// here; it was when the receipt was written.
func (v *verifier) receipt(s sealed) {
	var in struct {
		Certificate string `json:"swp.audit.certificate.sha256"`
		Receipt     []byte `json:"swp.receipt"`
	}
	if !v.decode(s, &in) {
		return
	}
	r, err := ParseReceipt(in.Receipt)
	if err == nil {
		chain, known := v.chains[in.Certificate]
		if !known {
			v.fault(s.sequence, "receipt %d: its certificate %s is not in the trail", s.sequence, in.Certificate)
			return
		}
		err = check(chain[0], r.head(), r.Signature)
	}
	if err != nil {
		v.fault(s.sequence, "receipt %d proves nothing: %v", s.sequence, err)
	}
}

func (v *verifier) certificate(s sealed) {
	var in struct {
		Chain [][]byte `json:"swp.audit.certificates"`
	}
	if !v.decode(s, &in) || len(in.Chain) == 0 {
		return
	}
	chain, err := parseChain(in.Chain)
	if err != nil {
		v.fault(s.sequence, "record %d: %v", s.sequence, err)
		return
	}
	v.chains[fingerprint(in.Chain[0])] = chain
}

// checkpoint verifies a signature, which proves all records before it.
func (v *verifier) checkpoint(s sealed) {
	var in struct {
		At          time.Time `json:"@timestamp"`
		Identity    string    `json:"swp.audit.identity"`
		Certificate string    `json:"swp.audit.certificate.sha256"`
		Signature   string    `json:"swp.audit.signature"`
	}
	if !v.decode(s, &in) {
		return
	}
	chain, known := v.chains[in.Certificate]
	if !known {
		v.fault(s.sequence, "checkpoint %d: its certificate %s is not in the trail", s.sequence, in.Certificate)
		return
	}
	signature, err := base64.StdEncoding.DecodeString(in.Signature)
	if err == nil {
		err = check(chain[0], signed(in.Identity, s.sequence-1, v.before), signature)
	}
	if err == nil {
		err = v.trust(in.Identity, chain, in.At)
	}
	if err != nil {
		v.fault(s.sequence, "checkpoint %d proves nothing: %v", s.sequence, err)
		return
	}
	v.r.Proven, v.r.ProvenAt = s.sequence-1, in.At
}
