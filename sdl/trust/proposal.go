package trust

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
)

// maxApprovals is how many approvals of a proposal are looked at: each costs the
// check of a signature.
const maxApprovals = 256

// Proposal is a change of a registry that someone asks for (§10.4).
type Proposal struct {
	ID       string
	Merge    bool
	Registry canonical.Value // an object

	Signature string     // of a single key
	Approvals []Approval // of a quorum
}

// Approval is the signature of one approver.
type Approval struct{ Approver, Signature string }

// ReadProposal reads the payload of a trustsync.v1. It fails if registry is missing or
// no object, or if there are more than 256 approvals.
func ReadProposal(payload canonical.Value) (Proposal, error) {
	p := Proposal{Merge: true, Registry: payload.Get("registry")}
	if p.Registry.Kind() != canonical.KindObject {
		return p, fmt.Errorf("trust: proposal: registry is %v, want an object", p.Registry.Kind())
	}
	if merge, ok := payload.Get("merge").Bool(); ok {
		p.Merge = merge
	}
	id, _ := payload.Get("proposal_id").Text()
	if p.ID = strings.TrimSpace(id); p.ID == "" {
		p.ID = canonical.Hash(canonical.Object(
			canonical.Member{Name: "registry", Value: p.Registry},
			canonical.Member{Name: "merge", Value: canonical.Bool(p.Merge)},
		))
	}
	p.Signature, _ = payload.Get("signature").Text()
	approvals := payload.Get("approvals")
	if approvals.Len() > maxApprovals {
		return p, fmt.Errorf("trust: proposal: %d approvals, limit %d", approvals.Len(), maxApprovals)
	}
	for a := range approvals.All() {
		approver, _ := a.Get("approver").Text()
		signature, _ := a.Get("signature").Text()
		p.Approvals = append(p.Approvals, Approval{approver, signature})
	}
	return p, nil
}

// document returns what is signed: all of the proposal, so that a signature does for
// no other id and no other merge.
func (p Proposal) document() canonical.Value {
	return canonical.Object(
		canonical.Member{Name: "op", Value: canonical.String("propose")},
		canonical.Member{Name: "proposal_id", Value: canonical.String(p.ID)},
		canonical.Member{Name: "merge", Value: canonical.Bool(p.Merge)},
		canonical.Member{Name: "registry", Value: p.Registry},
	)
}

// Sign returns the signature of an approver, or of the single key.
func (p Proposal) Sign(key ed25519.PrivateKey) string { return seal.SignDetached(p.document(), key) }

// Verifier decides which proposals are made. It returns the approvers that signed,
// sorted, none where there is a single key. It is one of *SingleKey and *Quorum.
type Verifier interface {
	Verify(p Proposal) (approvedBy []string, err error)
}

// SingleKey is a Verifier for proposals that one key signs.
type SingleKey struct {
	Key ed25519.PublicKey

	// RegistryOnly takes a signature over the registry alone as well. Anyone who
	// has seen one can send it again with another id and another merge.
	RegistryOnly bool
}

// Verify checks the signature of a proposal.
func (s *SingleKey) Verify(p Proposal) ([]string, error) {
	if p.Signature == "" {
		return nil, errors.New("trust: proposal without a signature")
	}
	err := seal.VerifyDetached(p.document(), p.Signature, s.Key)
	if err != nil && s.RegistryOnly {
		err = seal.VerifyDetached(p.Registry, p.Signature, s.Key)
	}
	return nil, err
}

// Quorum is a Verifier for proposals that several approvers sign.
type Quorum struct {
	keys      map[string]ed25519.PublicKey
	threshold int
}

// NewQuorum returns a Quorum of approvers by name. The threshold is 1 to the number of
// approvers. Two of them with the same key would be one who counts twice, and are
// refused.
func NewQuorum(approvers map[string]ed25519.PublicKey, threshold int) (*Quorum, error) {
	if threshold < 1 || threshold > len(approvers) {
		return nil, fmt.Errorf("trust: quorum: threshold %d with %d approvers, want 1 to their number", threshold, len(approvers))
	}
	names := make(map[string]string, len(approvers))
	for _, name := range slices.Sorted(maps.Keys(approvers)) {
		key := approvers[name]
		if name == "" || len(key) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("trust: quorum: approver %q without a name or a key", name)
		}
		if other, ok := names[string(key)]; ok {
			return nil, fmt.Errorf("trust: quorum: approvers %q and %q have the same key", other, name)
		}
		names[string(key)] = name
	}
	return &Quorum{maps.Clone(approvers), threshold}, nil
}

// Threshold returns how many approvers must sign.
func (q *Quorum) Threshold() int { return q.threshold }

// Verify checks every approval. An unknown approver or a wrong signature
// refuses the proposal. An approver counts once.
func (q *Quorum) Verify(p Proposal) ([]string, error) {
	document := p.document()
	var approvedBy []string
	for _, a := range p.Approvals {
		key, ok := q.keys[a.Approver]
		if !ok {
			return nil, fmt.Errorf("trust: quorum: approver %.100q is not known", a.Approver)
		}
		if err := seal.VerifyDetached(document, a.Signature, key); err != nil {
			return nil, fmt.Errorf("trust: quorum: approver %.100q: %w", a.Approver, err)
		}
		approvedBy = append(approvedBy, a.Approver)
	}
	slices.Sort(approvedBy)
	approvedBy = slices.Compact(approvedBy)
	if len(approvedBy) < q.threshold {
		return nil, fmt.Errorf("trust: quorum: %d approvers, want %d", len(approvedBy), q.threshold)
	}
	return approvedBy, nil
}
