package audit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Proof is the content of a file that shows a third party what an endpoint has stated about
// one exchange. It contains no payload, only SHA-256 sums.
type Proof struct {
	Version int `json:"swp_proof"` // 1
	Statement

	// What proves the Statement: the signed octets of the receipt with the signature and the
	// certificates, the octets of the exchange, and its path in the tree of hashes.
	Receipt      []byte   `json:"receipt"`
	Signature    []byte   `json:"signature"`
	Certificates [][]byte `json:"certificates"`
	Exchange     []byte   `json:"exchange"`
	Index        int      `json:"index"`
	Path         []string `json:"path"`

	// Sum is the SHA-256 of the file with an empty Sum.
	Sum string `json:"sha256"`
}

// Statement is what an endpoint has stated about an exchange.
type Statement struct {
	Signer   string    `json:"signer"`    // identity of the endpoint that states it
	Partner  string    `json:"partner"`   // identity of the other end
	SignedAt time.Time `json:"signed_at"` // by the clock of the signer

	Side     string    `json:"side"`     // asked or answered, by the signer
	Complete bool      `json:"complete"` // see Exchange
	MsgID    string    `json:"msg_id"`   // hexadecimal, as all sums
	Profile  uint64    `json:"profile_id"`
	MsgType  uint64    `json:"msg_type"`
	Caller   string    `json:"caller_sha256,omitempty"`
	Target   string    `json:"target_sha256,omitempty"`
	Request  string    `json:"request_sha256"`
	Answered uint64    `json:"answer_type,omitempty"`
	Answer   string    `json:"answer_sha256,omitempty"`
	Began    time.Time `json:"began"` // by the clock of the signer
	Ended    time.Time `json:"ended"`
}

// MaxProof limits the file of a Proof, in octets.
const MaxProof = 256 << 10

// NewProof returns the proof of one exchange of a receipt.
func NewProof(r *Receipt, index int) (*Proof, error) {
	var path []string
	for _, s := range pathOf(r.leaves(), index) {
		path = append(path, hex.EncodeToString(s[:]))
	}
	p := &Proof{
		Receipt: r.head(), Signature: r.Signature, Certificates: r.Chain,
		Exchange: r.Exchanges[index].Append(nil), Index: index, Path: path,
	}
	_, _, err := p.derive()
	return p, err
}

// derive sets what follows from the octets of the receipt and of the exchange. The Receipt
// that it returns has no Exchanges.
func (p *Proof) derive() (*Receipt, *Exchange, error) {
	r, x := new(Receipt), new(Exchange)
	head, entry := &decoder{rest: p.Receipt}, &decoder{rest: p.Exchange}
	count, root := r.decodeHead(head)
	head.end()
	x.decode(entry)
	entry.end()
	if err := errors.Join(head.err, entry.err); err != nil {
		return nil, nil, err
	}
	if p.Index < 0 || p.Index >= count {
		return nil, nil, fmt.Errorf("audit: proof: exchange %d of %d", p.Index, count)
	}
	path := make([]Sum, len(p.Path))
	for i, s := range p.Path {
		if n, err := hex.Decode(path[i][:], []byte(s[:min(len(s), 2*len(path[i]))])); err != nil || n != len(path[i]) || len(s) != 2*n {
			return nil, nil, fmt.Errorf("audit: proof: path[%d] is no SHA-256", i)
		}
	}
	if got, ok := follow(leafOf(p.Exchange), p.Index, count, path); !ok || got != root {
		return nil, nil, errors.New("audit: proof: the exchange is not in the receipt")
	}
	r.Chain, r.Signature = p.Certificates, p.Signature
	p.Version = 1
	p.Signer, p.Partner, p.SignedAt = r.Signer, r.Partner, r.Time
	p.Side = "answered"
	if x.Asked {
		p.Side = "asked"
	}
	p.Complete, p.MsgID = x.Complete, hex.EncodeToString(x.MsgID)
	p.Profile, p.MsgType, p.Answered = x.ProfileID, x.MsgType, x.AnswerType
	p.Caller, p.Target, p.Request, p.Answer = text(x.Caller), text(x.Target), hex.EncodeToString(x.Request[:]), text(x.Answer)
	p.Began, p.Ended = x.Began, x.Ended
	return r, x, nil
}

// text returns a sum in hexadecimal, empty for none.
func text(s Sum) string {
	if s == (Sum{}) {
		return ""
	}
	return hex.EncodeToString(s[:])
}

// Octets returns the file.
func (p *Proof) Octets() ([]byte, error) {
	p.Sum = ""
	octets, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	sum := sha256.Sum256(octets)
	p.Sum = hex.EncodeToString(sum[:])
	octets, err = json.MarshalIndent(p, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	return append(octets, '\n'), nil
}

// CheckProof verifies a file of a Proof: every octet is unchanged, the exchange is
// in the receipt, and its signature counts. trust decides whether the certificate counts;
// see TrustHolders and TrustOf.
func CheckProof(octets []byte, trust Trust) (*Proof, error) {
	if len(octets) > MaxProof {
		return nil, fmt.Errorf("audit: proof: %d octets, want at most %d", len(octets), MaxProof)
	}
	p := new(Proof)
	in := json.NewDecoder(bytes.NewReader(octets))
	in.DisallowUnknownFields()
	if err := in.Decode(p); err != nil {
		return nil, fmt.Errorf("audit: proof: not a file of swpd audit prove: %w", err)
	}
	if p.Version != 1 {
		return nil, fmt.Errorf("audit: proof: swp_proof is %d, want 1", p.Version)
	}
	r, _, err := p.derive()
	if err != nil {
		return nil, err
	}
	// What the file says is derived again, and written again: the files must be equal.
	again, err := p.Octets()
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(again, octets) {
		return nil, errors.New("audit: proof: the file was changed")
	}
	chain, err := parseChain(r.Chain)
	if err != nil {
		return nil, fmt.Errorf("audit: proof: %w", err)
	}
	if err := check(chain[0], p.Receipt, p.Signature); err != nil {
		return nil, fmt.Errorf("audit: proof: the signature is wrong: %w", err)
	}
	if err := trust(r.Signer, chain, r.Time); err != nil {
		return nil, fmt.Errorf("audit: proof: the signature does not count: %w", err)
	}
	return p, nil
}

// Prove returns the proof of the exchange whose record has a sequence in the trail in dir:
// the statement of the other end in a receipt. The error says why it is missing.
func Prove(ctx context.Context, dir string, sequence uint64) (*Proof, error) {
	var own *Exchange
	var other, unlike string // identity of the other end; how its receipt differs
	chains := make(map[string][][]byte)
	for e, err := range Entries(ctx, dir, false) {
		switch {
		case err != nil:
			return nil, err
		case e.Sequence == sequence:
			x, ok := e.Crossed()
			if !ok {
				return nil, notCrossed(e)
			}
			own, other = &x, e.Identity
			if x.Asked {
				other = e.Other
			}
		case e.Action == actionCertificate:
			var in struct {
				Chain [][]byte `json:"swp.audit.certificates"`
			}
			if json.Unmarshal(e.Line, &in) == nil && len(in.Chain) > 0 {
				chains[fingerprint(in.Chain[0])] = in.Chain
			}
		case e.Action == actionReceipt && own != nil && e.Identity == other:
			r, err := ParseReceipt(e.Receipt)
			if err != nil {
				continue // a finding of Verify
			}
			i := slices.IndexFunc(r.Exchanges, func(x Exchange) bool { return x.Asked != own.Asked && bytes.Equal(x.MsgID, own.MsgID) })
			if i < 0 {
				continue
			}
			if unlike = own.Differs(&r.Exchanges[i]); unlike == "" {
				r.Chain = chains[e.Signer]
				return NewProof(r, i)
			}
			unlike = fmt.Sprintf("the receipt of %s in record %d differs from record %d in its %s", other, e.Sequence, sequence, unlike)
		}
	}
	switch {
	case own == nil:
		return nil, fmt.Errorf("audit: there is no record %d in %s", sequence, dir)
	case unlike != "":
		return nil, errors.New("audit: " + unlike)
	}
	return nil, fmt.Errorf("audit: there is no receipt of %s for record %d; it sends one within some seconds of the exchange, while the link is up", other, sequence)
}

// notCrossed says why there can be no receipt for a record.
func notCrossed(e *Entry) error {
	switch {
	case !e.Exchange():
		return fmt.Errorf("audit: record %d is not an exchange", e.Sequence)
	case e.Finding() && e.Of == 0:
		return fmt.Errorf("audit: record %d is a finding, not an exchange", e.Sequence)
	case e.Finding():
		return fmt.Errorf("audit: record %d is a finding; name record %d, which it is about", e.Sequence, e.Of)
	case e.Partner != "":
		return fmt.Errorf("audit: record %d is the exchange with the caller here; name that with %s, which is before it: swpd audit find --action exchange-sent --partner %s", e.Sequence, e.Partner, e.Partner)
	}
	return fmt.Errorf("audit: record %d is not an exchange with a partner that exchanges receipts", e.Sequence)
}
