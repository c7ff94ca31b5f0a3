package audit

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// Limits of a receipt.
const (
	MaxExchanges = 1000 // exchanges

	maxName      = 2048     // octets of an identity
	maxChain     = 5        // certificates
	maxChainSize = 32 << 10 // octets of all of them
	maxSignature = 1024     // octets
	minMsgID     = 8        // octets of a msg_id
	maxMsgID     = 64

	// MaxExchange is how many octets Append of an Exchange appends at most.
	MaxExchange = 1 + 1 + maxMsgID + 3*binary.MaxVarintLen64 + 4*sha256.Size + 2*maxTime
	maxTime     = 7 // octets of a time
)

// Exchange is a statement about one exchange by one of its ends. Times have milliseconds.
type Exchange struct {
	// Asked says that the signer has opened the exchange; otherwise it has answered it.
	Asked bool

	// Complete says that the terminal answer was sent or received, or that the exchange has none.
	Complete bool

	MsgID              []byte
	ProfileID, MsgType uint64
	Caller, Target     Sum // of extensions 51 and 52; zero: none
	Request            Sum
	AnswerType         uint64 // msg_type of the last answer; 0: there was none
	Answer             Sum    // of the payloads of all answers
	Began, Ended       time.Time
}

// Flags of an Exchange.
const (
	flagAsked = 1 << iota
	flagComplete
	flagCaller
	flagTarget
	flagAnswer
)

// Append appends the octets that are hashed and sent.
func (x *Exchange) Append(dst []byte) []byte {
	flags := byte(0)
	for _, f := range []struct {
		set bool
		bit byte
	}{
		{x.Asked, flagAsked}, {x.Complete, flagComplete}, {x.Caller != Sum{}, flagCaller}, {x.Target != Sum{}, flagTarget}, {x.AnswerType != 0, flagAnswer},
	} {
		if f.set {
			flags |= f.bit
		}
	}
	dst = append(dst, flags)
	dst = appendBytes(dst, x.MsgID)
	dst = binary.AppendUvarint(dst, x.ProfileID)
	dst = binary.AppendUvarint(dst, x.MsgType)
	if flags&flagCaller != 0 {
		dst = append(dst, x.Caller[:]...)
	}
	if flags&flagTarget != 0 {
		dst = append(dst, x.Target[:]...)
	}
	dst = append(dst, x.Request[:]...)
	if flags&flagAnswer != 0 {
		dst = binary.AppendUvarint(dst, x.AnswerType)
		dst = append(dst, x.Answer[:]...)
	}
	dst = binary.AppendUvarint(dst, millis(x.Began))
	return binary.AppendUvarint(dst, millis(x.Ended))
}

// ParseExchange reads the octets of Append.
func ParseExchange(octets []byte) (x Exchange, err error) {
	d := &decoder{rest: octets}
	x.decode(d)
	d.end()
	return x, d.err
}

func (x *Exchange) decode(d *decoder) {
	flags := d.octet()
	if flags&^(flagAsked|flagComplete|flagCaller|flagTarget|flagAnswer) != 0 {
		d.fail("flags %#x of an exchange", flags)
	}
	x.Asked, x.Complete = flags&flagAsked != 0, flags&flagComplete != 0
	if x.MsgID = d.bytes("msg_id", maxMsgID); d.err == nil && len(x.MsgID) < minMsgID {
		d.fail("msg_id: %d octets, want %d to %d", len(x.MsgID), minMsgID, maxMsgID)
	}
	x.ProfileID, x.MsgType = d.uvarint(), d.uvarint()
	if flags&flagCaller != 0 {
		x.Caller = d.sum()
	}
	if flags&flagTarget != 0 {
		x.Target = d.sum()
	}
	x.Request = d.sum()
	if flags&flagAnswer != 0 {
		x.AnswerType = d.uvarint()
		x.Answer = d.sum()
	}
	x.Began, x.Ended = d.time(), d.time()
}

// Differs returns in which members the statement of the other end about the same exchange
// differs; empty if it does not. Their answers may differ if either is not complete:
// the connection was lost, or the answer was not waited for.
func (x *Exchange) Differs(other *Exchange) string {
	switch {
	case !bytes.Equal(x.MsgID, other.MsgID) || x.Asked == other.Asked:
		return "exchange"
	case x.ProfileID != other.ProfileID:
		return "profile_id"
	case x.MsgType != other.MsgType:
		return "msg_type"
	case x.Caller != other.Caller:
		return "caller"
	case x.Target != other.Target:
		return "target"
	case x.Request != other.Request:
		return "request"
	case !x.Complete, !other.Complete, x.Answer == other.Answer && x.AnswerType == other.AnswerType:
		return ""
	}
	return "answer"
}

// Receipt is a signed statement of one endpoint to another about exchanges that crossed the
// link between them.
type Receipt struct {
	Signer, Partner string // identities
	Number          uint64 // increases from each receipt of the signer for the partner to the next
	Time            time.Time
	Exchanges       []Exchange

	Chain     [][]byte // certificate of the signer and its authorities, in DER form
	Signature []byte
}

const receiptMagic = "SWP receipt 1\n"

// head returns the signed octets.
func (r *Receipt) head() []byte {
	return appendHead(nil, r, len(r.Exchanges), rootOf(r.leaves()))
}

func appendHead(dst []byte, r *Receipt, count int, root Sum) []byte {
	dst = append(dst, receiptMagic...)
	dst = appendBytes(dst, []byte(r.Signer))
	dst = appendBytes(dst, []byte(r.Partner))
	dst = binary.AppendUvarint(dst, r.Number)
	dst = binary.AppendUvarint(dst, millis(r.Time))
	dst = binary.AppendUvarint(dst, uint64(count))
	return append(dst, root[:]...)
}

// decodeHead reads signed octets.
func (r *Receipt) decodeHead(d *decoder) (count int, root Sum) {
	if string(d.take(len(receiptMagic))) != receiptMagic {
		d.fail("no receipt of a known form")
	}
	r.Signer, r.Partner = string(d.bytes("signer", maxName)), string(d.bytes("partner", maxName))
	r.Number, r.Time = d.uvarint(), d.time()
	n := d.uvarint()
	if n == 0 || n > MaxExchanges {
		d.fail("%d exchanges, want 1 to %d", n, MaxExchanges)
		return 0, root
	}
	return int(n), d.sum()
}

// leaves returns the hashes of the exchanges.
func (r *Receipt) leaves() []Sum {
	list := make([]Sum, len(r.Exchanges))
	var buf []byte
	for i := range r.Exchanges {
		buf = r.Exchanges[i].Append(buf[:0])
		list[i] = leafOf(buf)
	}
	return list
}

// Sign signs the receipt with a certificate of the signer.
func (r *Receipt) Sign(cert *tls.Certificate) (err error) {
	r.Chain = cert.Certificate
	r.Signature, err = sign(cert, r.head())
	return err
}

// Verify verifies the signature, and that trust allows its certificate at the time of the
// receipt.
func (r *Receipt) Verify(trust Trust) error {
	chain, err := parseChain(r.Chain)
	if err != nil {
		return err
	}
	if err := check(chain[0], r.head(), r.Signature); err != nil {
		return fmt.Errorf("the signature is wrong: %w", err)
	}
	return trust(r.Signer, chain, r.Time)
}

func parseChain(list [][]byte) (chain []*x509.Certificate, err error) {
	for _, der := range list {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, err
		}
		chain = append(chain, cert)
	}
	if len(chain) == 0 {
		return nil, errors.New("there is no certificate")
	}
	return chain, nil
}

// Append appends the message that carries the receipt.
func (r *Receipt) Append(dst []byte) []byte {
	dst = appendBytes(dst, r.head())
	dst = appendBytes(dst, r.Signature)
	dst = binary.AppendUvarint(dst, uint64(len(r.Chain)))
	for _, der := range r.Chain {
		dst = appendBytes(dst, der)
	}
	for i := range r.Exchanges {
		dst = r.Exchanges[i].Append(dst)
	}
	return dst
}

// ParseReceipt reads a message of Append. It verifies the tree of hashes, not the
// signature.
func ParseReceipt(octets []byte) (*Receipt, error) {
	r, d := new(Receipt), &decoder{rest: octets}
	signed := &decoder{rest: d.bytes("head", 2*maxName+256)}
	if d.err != nil {
		return nil, d.err
	}
	count, root := r.decodeHead(signed)
	if signed.end(); signed.err != nil {
		return nil, signed.err
	}
	r.Signature = d.bytes("signature", maxSignature)
	certificates, size := d.uvarint(), 0
	if certificates > maxChain {
		return nil, fmt.Errorf("audit: receipt: %d certificates, want at most %d", certificates, maxChain)
	}
	for range certificates {
		der := d.bytes("certificate", maxChainSize-size)
		size += len(der)
		r.Chain = append(r.Chain, der)
	}
	for range count {
		var x Exchange
		if x.decode(d); d.err != nil {
			return nil, d.err
		}
		r.Exchanges = append(r.Exchanges, x)
	}
	if d.end(); d.err != nil {
		return nil, d.err
	}
	if rootOf(r.leaves()) != root {
		return nil, errRoot
	}
	return r, nil
}

var errRoot = errors.New("audit: receipt: the exchanges are not those that were signed")

func millis(t time.Time) uint64 { return uint64(max(0, t.UnixMilli())) }

func appendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// decoder reads the octets of receipts. It remembers its first error. What it returns are
// windows into its input.
type decoder struct {
	rest []byte
	err  error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("audit: receipt: "+format, args...)
	}
	d.rest = nil
}

func (d *decoder) take(n int) []byte {
	if n > len(d.rest) {
		d.fail("it ends too early")
		return nil
	}
	b := d.rest[:n:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) octet() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.fail("it ends too early")
		return 0
	}
	if len(binary.AppendUvarint(nil, v)) != n { // only one spelling is valid
		d.fail("a number is longer than necessary")
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) bytes(name string, most int) []byte {
	n := d.uvarint()
	if d.err == nil && n > uint64(max(0, most)) {
		d.fail("%s: %d octets, want at most %d", name, n, most)
	}
	if d.err != nil {
		return nil
	}
	return d.take(int(n))
}

func (d *decoder) sum() (s Sum) {
	copy(s[:], d.take(len(s)))
	return s
}

// time reads milliseconds. A year of more than four digits is refused.
func (d *decoder) time() time.Time {
	ms := d.uvarint()
	if ms > uint64(time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC).UnixMilli()) {
		d.fail("time %d", ms)
		return time.Time{}
	}
	return time.UnixMilli(int64(ms)).UTC()
}

func (d *decoder) end() {
	if d.err == nil && len(d.rest) > 0 {
		d.fail("%d octets follow it", len(d.rest))
	}
}

// The tree of hashes is that of RFC 6962 §2.1.

func leafOf(octets []byte) Sum {
	h := sha256.New()
	h.Write([]byte{0})
	h.Write(octets)
	return Sum(h.Sum(nil))
}

func nodeOf(left, right Sum) Sum {
	var b [1 + 2*sha256.Size]byte
	b[0] = 1
	copy(b[1:], left[:])
	copy(b[1+sha256.Size:], right[:])
	return sha256.Sum256(b[:])
}

// split returns the number of leaves of the left subtree of n > 1 leaves: the largest power
// of two below n.
func split(n int) int {
	k := 1
	for 2*k < n {
		k *= 2
	}
	return k
}

// rootOf returns the root of at least one leaf.
func rootOf(leaves []Sum) Sum {
	if len(leaves) == 1 {
		return leaves[0]
	}
	k := split(len(leaves))
	return nodeOf(rootOf(leaves[:k]), rootOf(leaves[k:]))
}

// pathOf returns the hashes that lead from a leaf to the root, lowest first.
func pathOf(leaves []Sum, index int) []Sum {
	if len(leaves) == 1 {
		return nil
	}
	k := split(len(leaves))
	if index < k {
		return append(pathOf(leaves[:k], index), rootOf(leaves[k:]))
	}
	return append(pathOf(leaves[k:], index-k), rootOf(leaves[:k]))
}

// follow returns the root that a path leads to from the leaf at index of count leaves.
// false: the path does not have the length of one of that leaf.
func follow(leaf Sum, index, count int, path []Sum) (Sum, bool) {
	if count == 1 {
		return leaf, len(path) == 0
	}
	if len(path) == 0 {
		return Sum{}, false
	}
	top, rest, k := path[len(path)-1], path[:len(path)-1], split(count)
	if index < k {
		root, ok := follow(leaf, index, k, rest)
		return nodeOf(root, top), ok
	}
	root, ok := follow(leaf, index-k, count-k, rest)
	return nodeOf(top, root), ok
}
