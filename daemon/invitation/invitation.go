// Package invitation describes the file with which an endpoint invites another one to be its
// partner: its identity, addresses and authorities, and the rights of the other one there.
package invitation

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/slimwire/swp/daemon/certinfo"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/transport"
)

// Version is the version of the format.
const Version = 1

// Bounds of an invitation.
const (
	MaxSize      = 256 << 10
	maxAddresses = 64
	maxOffers    = 1024
	maxText      = 2048
)

// Invitation invites an endpoint.
type Invitation struct {
	Version   int                  `json:"version"`
	ID        string               `json:"id"`        // random, so that no two invitations have the same fingerprint
	Name      string               `json:"name"`      // of the endpoint that invites, as it proposes
	Identity  string               `json:"identity"`  // of that endpoint
	Addresses []string             `json:"addresses"` // to dial; none: it dials
	Trust     string               `json:"trust"`     // its authorities, as PEM
	Offers    []config.PartnerRule `json:"offers"`    // what the invited endpoint may do there
	Until     time.Time            `json:"until"`     // it is not accepted after that

	// Invited is the identity of the endpoint that is invited: another one may not accept. Empty if the
	// inviting operator has not said it.
	Invited string `json:"invited,omitempty"`

	// Answers is the fingerprint of the invitation to which this one is the reply; empty for a
	// first one.
	Answers string `json:"answers,omitempty"`

	// Sum is the fingerprint of all the rest, in hexadecimal.
	Sum string `json:"fingerprint"`
}

// New makes an invitation from the description of an endpoint.
func New(name string, b *certinfo.Bundle, offers []config.PartnerRule, until time.Time) *Invitation {
	i := &Invitation{Version: Version, ID: rand.Text(), Name: name, Identity: b.Identity, Addresses: []string{}, Offers: offers, Until: until.UTC().Truncate(time.Second)}
	for _, a := range b.Addresses {
		i.Addresses = append(i.Addresses, a.String())
	}
	if i.Offers == nil {
		i.Offers = []config.PartnerRule{}
	}
	alone := certinfo.Bundle{Authorities: b.Authorities}
	_, pem, _ := strings.Cut(string(alone.Encode()), "\n") // behind the identity
	i.Trust = pem
	return i
}

// Fingerprint is the SHA-256 of everything in the invitation, in hexadecimal. Two people who
// compare it know that they have the same invitation.
func (i *Invitation) Fingerprint() string {
	plain := *i
	plain.Sum = ""
	text, _ := json.Marshal(&plain) // it has strings and times only
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Encode returns the file.
func (i *Invitation) Encode() []byte {
	i.Sum = i.Fingerprint()
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	_ = enc.Encode(i) // as above
	return text.Bytes()
}

// Decode reads a file. It does not say who wrote it: compare the fingerprint with the
// endpoint that invites. The error says why the file is refused.
func Decode(text []byte) (*Invitation, error) {
	if len(text) > MaxSize {
		return nil, fmt.Errorf("has more than %d octets, and is no invitation", MaxSize)
	}
	var of struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(text, &of); err != nil {
		return nil, fmt.Errorf("is no invitation: %w", err)
	}
	if of.Version != Version {
		return nil, fmt.Errorf("has version %d, and this release knows version %d; ask for one that swpd partner invite of this release has printed", of.Version, Version)
	}
	i := new(Invitation)
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(i); err != nil {
		return nil, fmt.Errorf("is no invitation: %w", err)
	}
	if i.Sum != i.Fingerprint() {
		return nil, errors.New("was damaged or changed: its content has another fingerprint than it says; ask for the file again")
	}
	return i, i.check()
}

// check refuses what no endpoint has made.
func (i *Invitation) check() error {
	if len(i.Addresses) > maxAddresses || len(i.Offers) > maxOffers {
		return fmt.Errorf("has more than %d addresses or %d offers", maxAddresses, maxOffers)
	}
	texts := []string{i.ID, i.Name, i.Identity, i.Invited, i.Answers}
	texts = append(texts, i.Addresses...)
	for _, r := range i.Offers {
		for _, list := range [][]string{r.For, r.Profile, r.Operation, r.Name} {
			texts = append(texts, list...)
		}
	}
	for _, t := range texts {
		if len(t) > maxText {
			return fmt.Errorf("has a text of more than %d octets", maxText)
		}
	}
	if i.ID == "" || i.Identity == "" || i.Until.IsZero() {
		return errors.New("names no identity, no id, or no end")
	}
	_, err := i.Bundle()
	return err
}

// Bundle returns the description of the endpoint.
func (i *Invitation) Bundle() (*certinfo.Bundle, error) {
	b := &certinfo.Bundle{Identity: i.Identity}
	if err := b.SetAddresses(i.Addresses); err != nil {
		return nil, err
	}
	var err error
	b.Authorities, err = transport.ParseAuthorities([]byte(i.Trust))
	return b, err
}

// Ended returns why an invitation is not accepted any more; nil if it is.
func (i *Invitation) Ended(now time.Time) error {
	if now.Before(i.Until) {
		return nil
	}
	return fmt.Errorf("ended at %s; ask for a new one", i.Until.Format(time.RFC3339))
}
