package relay

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"time"
)

// record is the stored form of a delivery, without its id.
type record struct {
	hops  uint64
	taken time.Time     // time of custody, in milliseconds
	bound Reason        // reason if it expires; empty: no consumer
	ttl   time.Duration // the ttl, if that is the limit, in milliseconds
	topic string

	target string // extension 52, for the partner at the start of the topic
	size   int    // size of a payload that is in custody of a partner
	conditions

	// Fields of a dead delivery.
	reason   Reason
	attempts int
	died     time.Time
	refusal  *Refusal // by a partner; nil: none

	payload []byte // aliases the decoded octets
}

// The first octet of a record. formatFar adds target and size, formatRefused a refusal.
// formatUnder has conditions, and then a record of another format.
const (
	format        = 1
	formatFar     = 2
	formatRefused = 3
	formatUnder   = 4
)

func (r *record) append(dst []byte) []byte {
	if r.conditions != (conditions{}) {
		dst = appendText(appendText(append(dst, formatUnder), r.chain), r.hints)
	}
	switch {
	case r.refusal != nil:
		dst = appendText(r.appendFar(append(dst, formatRefused)), r.refusal.Code)
		dst = appendText(appendText(dst, r.refusal.Message), r.refusal.Endpoint)
	case r.target != "" || r.size != 0:
		dst = r.appendFar(append(dst, formatFar))
	default:
		dst = append(dst, format)
	}
	dst = binary.AppendUvarint(dst, r.hops)
	dst = binary.AppendVarint(dst, r.taken.UnixMilli())
	dst = appendText(dst, string(r.bound))
	dst = binary.AppendUvarint(dst, uint64(r.ttl.Milliseconds()))
	dst = appendText(dst, r.topic)
	dst = appendText(dst, string(r.reason))
	dst = binary.AppendUvarint(dst, uint64(r.attempts))
	dst = binary.AppendVarint(dst, r.died.UnixMilli())
	return append(dst, r.payload...)
}

func (r *record) appendFar(dst []byte) []byte {
	return binary.AppendUvarint(appendText(dst, r.target), uint64(r.size))
}

// unixMilli is time.UnixMilli of a time that a peer says.
func unixMilli(ms int64) time.Time { return time.UnixMilli(min(max(ms, 0), 1<<52)) }

func appendText(dst []byte, text string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// maxHead exceeds the octets that append writes before the payload, without conditions.
const maxHead = 2048

var errRecord = errors.New("relay: what is stored is no delivery")

func decodeRecord(data []byte) (*record, error) {
	r := new(record)
	if len(data) > 0 && data[0] == formatUnder {
		d := decoder{rest: data[1:]}
		r.chain, r.hints = d.text(), d.text()
		data = d.rest
	}
	if len(data) == 0 || data[0] < format || data[0] > formatRefused {
		return nil, errRecord
	}
	d := decoder{rest: data[1:]}
	if data[0] >= formatFar {
		r.target = d.text()
		r.size = int(min(d.uvarint(), 1<<31-1))
	}
	if data[0] == formatRefused {
		r.refusal = &Refusal{Code: d.text(), Message: d.text(), Endpoint: d.text()}
	}
	r.hops = d.uvarint()
	r.taken = time.UnixMilli(d.varint())
	r.bound = Reason(d.text())
	r.ttl = time.Duration(min(d.uvarint(), 1<<40)) * time.Millisecond
	r.topic = d.text()
	r.reason = Reason(d.text())
	r.attempts = int(min(d.uvarint(), 1<<31-1))
	r.died = time.UnixMilli(d.varint())
	r.payload = d.rest
	if d.failed {
		return nil, errRecord
	}
	return r, nil
}

// decoder reads the fields of a record, and records a missing one.
type decoder struct {
	rest   []byte
	failed bool
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	d.skip(n)
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.rest)
	d.skip(n)
	return v
}

func (d *decoder) skip(n int) {
	if n <= 0 {
		d.failed, d.rest = true, nil
		return
	}
	d.rest = d.rest[n:]
}

func (d *decoder) text() string {
	n := d.uvarint()
	if n > uint64(len(d.rest)) {
		d.failed, d.rest = true, nil
		return ""
	}
	s := string(d.rest[:n])
	d.rest = d.rest[n:]
	return s
}

// markOf returns a hash of topic and payload. Two deliveries with one id are the same if
// their hashes are equal.
func markOf(topic, payload []byte) string {
	h := sha256.New()
	_, _ = h.Write(binary.AppendUvarint(nil, uint64(len(topic)))) // never fails
	_, _ = h.Write(topic)
	_, _ = h.Write(payload)
	return string(h.Sum(nil)[:16])
}
