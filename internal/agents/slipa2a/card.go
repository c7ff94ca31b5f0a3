package slipa2a

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/slimwire/swp/internal/jsonobject"
	"github.com/slimwire/swp/slip/ucr"
)

// Declaration is the declaration of the extension in a card.
type Declaration struct {
	Required           bool
	SlipVersion        string
	UCRVersion         string
	UCRHash            string
	PreferredInputMode string
}

// Understands reports whether an agent with this declaration reads SLIP v1 with the anchors
// of this side. Without a ucrHash in the declaration, only the version is compared.
func (d Declaration) Understands() bool {
	if d.SlipVersion != SlipVersion {
		return false
	}
	return d.UCRHash == ucr.CoreHash || d.UCRHash == "" && d.UCRVersion == ucr.Version
}

// maxCard limits a card, in octets.
const maxCard = 1 << 20

// ErrSigned is the error for a signed card: a change would break its signature, so its
// author has to declare the extension.
var ErrSigned = errors.New("slipa2a: the card is signed")

// Declared returns the declaration in a card; false if there is none. It fails if card is
// not a card.
func Declared(card []byte) (Declaration, bool, error) {
	c, err := parseCard(card)
	if err != nil {
		return Declaration{}, false, err
	}
	return c.declaration()
}

// Declare adds the extension to capabilities.extensions of a card and keeps all other
// octets. A card with the declaration is returned unchanged. A signed card fails with
// ErrSigned.
func (x *Extension) Declare(card []byte) ([]byte, error) {
	c, err := parseCard(card)
	if err != nil {
		return nil, err
	}
	if _, declared, err := c.declaration(); err != nil || declared {
		return card, err
	}
	if _, signed, err := c.root.get("signatures"); err != nil || signed {
		return nil, errors.Join(ErrSigned, err)
	}
	entry, err := x.entry()
	if err != nil {
		return nil, err
	}
	list := append(append([]byte{'['}, entry...), ']')
	switch {
	case c.capabilities == nil:
		return c.root.put("capabilities", append(append([]byte(`{"extensions":`), list...), '}')), nil
	case c.list == nil:
		return c.capabilities.put("extensions", list), nil
	}
	return with(card, *c.list, c.entries, entry), nil
}

// entry is the declaration of this side (C1).
func (x *Extension) entry() ([]byte, error) {
	type params struct {
		SlipVersion        string `json:"slipVersion"`
		UCRVersion         string `json:"ucrVersion"`
		UCRHash            string `json:"ucrHash"`
		PreferredInputMode string `json:"preferredInputMode"`
	}
	return json.Marshal(struct {
		URI         string `json:"uri"`
		Description string `json:"description"`
		Required    bool   `json:"required"`
		Params      params `json:"params"`
	}{URI, x.opts.Description, x.opts.Required, params{SlipVersion, ucr.Version, ucr.CoreHash, MediaType}})
}

// card holds positions in an agent card.
type card struct {
	root         *object
	capabilities *object // nil if there are none
	list         *span   // capabilities.extensions, nil if there are none
	entries      []span
}

func parseCard(octets []byte) (*card, error) {
	if len(octets) > maxCard {
		return nil, fmt.Errorf("slipa2a: card of %d octets, want at most %d", len(octets), maxCard)
	}
	if !json.Valid(octets) {
		return nil, errors.New("slipa2a: card: it is no JSON")
	}
	root, err := parseObject(octets, whole(octets))
	if err != nil {
		return nil, fmt.Errorf("slipa2a: card: %w", err)
	}
	c := &card{root: root}
	if c.capabilities, err = root.inner("capabilities"); err != nil {
		return nil, fmt.Errorf("slipa2a: card: capabilities: %w", err)
	}
	if c.capabilities == nil {
		return c, nil
	}
	at, ok, err := c.capabilities.get("extensions")
	if err == nil && ok {
		c.list = &at
		c.entries, err = parseArray(octets, at)
	}
	if err != nil {
		return nil, fmt.Errorf("slipa2a: card: extensions: %w", err)
	}
	return c, nil
}

// declaration finds the entry of the extension.
func (c *card) declaration() (d Declaration, found bool, err error) {
	for _, at := range c.entries {
		entry, err := parseObject(c.root.doc, at)
		if err != nil {
			return d, false, fmt.Errorf("slipa2a: card: extension: %w", err)
		}
		uri, _, err := entry.text("uri")
		if err != nil {
			return d, false, fmt.Errorf("slipa2a: card: uri: %w", err)
		}
		if uri != URI {
			continue
		}
		if found {
			return d, false, errors.New("slipa2a: card: the extension is declared twice")
		}
		if d, err = readEntry(entry); err != nil {
			return d, false, err
		}
		found = true
	}
	return d, found, nil
}

// readEntry reads an entry. Params of a wrong type are ignored.
func readEntry(entry *object) (d Declaration, err error) {
	required, _, err := entry.get("required")
	if err != nil {
		return d, fmt.Errorf("slipa2a: card: required: %w", err)
	}
	d.Required = string(entry.doc[required.from:required.to]) == "true"
	params, err := entry.inner("params")
	if errors.Is(err, jsonobject.ErrNoObject) || err == nil && params == nil {
		return d, nil
	}
	if err != nil {
		return d, fmt.Errorf("slipa2a: card: params: %w", err)
	}
	params.free = true
	for name, to := range map[string]*string{
		"slipVersion": &d.SlipVersion, "ucrVersion": &d.UCRVersion, "ucrHash": &d.UCRHash, "preferredInputMode": &d.PreferredInputMode,
	} {
		if *to, _, err = params.text(name); err != nil {
			return d, fmt.Errorf("slipa2a: card: %s: %w", name, err)
		}
	}
	return d, nil
}
