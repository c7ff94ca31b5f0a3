package trust

import (
	"crypto/ed25519"
	"fmt"
	"slices"
	"time"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
)

// Members of a registry (§7.1).
const (
	memberKeys     = "trusted_signing_keys"
	memberRequired = "required_kid_by_agent"
	memberAllowed  = "allowed_kids_by_agent"
	memberRevoked  = "revoked_kids"
	memberNotAfter = "kid_not_after"
	memberDecrypt  = "decrypt_private_keys"
)

// members is the content of a registry, indexed for lookups. It is immutable.
type members struct {
	value    canonical.Value // the five members, sorted
	keys     map[string]ed25519.PublicKey
	required map[string]string
	allowed  map[string][]string
	revoked  map[string]bool
	notAfter map[string]time.Time
}

// parseMembers reads the five members from an object; other members are ignored. A missing
// one is empty. An invalid key is kept, like every text (§7.3), but not trusted.
func parseMembers(v canonical.Value) (*members, error) {
	if v.Kind() != canonical.KindObject {
		return nil, fmt.Errorf("trust: registry is %v, want an object", v.Kind())
	}
	if v.Has(memberDecrypt) {
		return nil, fmt.Errorf("trust: registry has %s", memberDecrypt)
	}
	m := &members{
		keys:     make(map[string]ed25519.PublicKey),
		allowed:  make(map[string][]string),
		revoked:  make(map[string]bool),
		notAfter: make(map[string]time.Time),
	}
	texts, err := textsOf(v, memberKeys)
	if err != nil {
		return nil, err
	}
	for kid, text := range texts {
		if key, err := seal.ParseVerifyKey(text); err == nil {
			m.keys[kid] = key
		}
	}
	if m.required, err = textsOf(v, memberRequired); err != nil {
		return nil, err
	}
	ends, err := textsOf(v, memberNotAfter)
	if err != nil {
		return nil, err
	}
	for kid, text := range ends {
		end, ok := sdl.ParseTime(text)
		if !ok {
			return nil, fmt.Errorf("trust: registry: %s[%.100q] is no timestamp", memberNotAfter, kid)
		}
		m.notAfter[kid] = end
	}
	rotations, err := objectOf(v, memberAllowed)
	if err != nil {
		return nil, err
	}
	for agent, set := range rotations.Members() {
		if m.allowed[agent], err = setOf(set, memberAllowed); err != nil {
			return nil, err
		}
	}
	var revoked []string
	if v.Has(memberRevoked) {
		if revoked, err = setOf(v.Get(memberRevoked), memberRevoked); err != nil {
			return nil, err
		}
	}
	for _, kid := range revoked {
		m.revoked[kid] = true
	}

	sorted := make([]canonical.Member, 0, len(m.allowed))
	for agent, set := range m.allowed {
		sorted = append(sorted, canonical.Member{Name: agent, Value: canonical.Strings(set...)})
	}
	m.value = canonical.Object(
		canonical.Member{Name: memberKeys, Value: orEmpty(v.Get(memberKeys))},
		canonical.Member{Name: memberRequired, Value: orEmpty(v.Get(memberRequired))},
		canonical.Member{Name: memberNotAfter, Value: orEmpty(v.Get(memberNotAfter))},
		canonical.Member{Name: memberAllowed, Value: canonical.Object(sorted...)},
		canonical.Member{Name: memberRevoked, Value: canonical.Strings(revoked...)},
	)
	return m, nil
}

// merge returns m with the members of another added: the other's value wins for a
// name that both have; sets are united.
func (m *members) merge(other *members) (*members, error) {
	rotations := joined(m.value.Get(memberAllowed), other.value.Get(memberAllowed))
	for agent, set := range m.allowed {
		if more, ok := other.allowed[agent]; ok {
			rotations = append(rotations, canonical.Member{Name: agent, Value: canonical.Strings(append(slices.Clone(set), more...)...)})
		}
	}
	revoked := slices.AppendSeq(slices.Collect(m.value.Get(memberRevoked).All()), other.value.Get(memberRevoked).All())
	merged := m.value.With(memberAllowed, canonical.Object(rotations...)).With(memberRevoked, canonical.Array(revoked...))
	for _, name := range []string{memberKeys, memberRequired, memberNotAfter} {
		merged = merged.With(name, canonical.Object(joined(m.value.Get(name), other.value.Get(name))...))
	}
	return parseMembers(merged)
}

// joined returns the members of two objects, the second's last.
func joined(a, b canonical.Value) []canonical.Member {
	all := make([]canonical.Member, 0, a.Len()+b.Len())
	for _, v := range []canonical.Value{a, b} {
		for name, m := range v.Members() {
			all = append(all, canonical.Member{Name: name, Value: m})
		}
	}
	return all
}

// objectOf returns a member that is an object; empty if absent.
func objectOf(v canonical.Value, name string) (canonical.Value, error) {
	if !v.Has(name) {
		return canonical.Object(), nil
	}
	m := v.Get(name)
	if m.Kind() != canonical.KindObject {
		return m, fmt.Errorf("trust: registry: %s is %v, want an object", name, m.Kind())
	}
	return m, nil
}

// textsOf returns a member that is an object of non-empty strings.
func textsOf(v canonical.Value, name string) (map[string]string, error) {
	object, err := objectOf(v, name)
	if err != nil {
		return nil, err
	}
	texts := make(map[string]string, object.Len())
	for key, m := range object.Members() {
		if texts[key], _ = m.Text(); texts[key] == "" {
			return nil, fmt.Errorf("trust: registry: %s[%.100q] is no text or empty", name, key)
		}
	}
	return texts, nil
}

// setOf returns an array of non-empty strings, sorted and without duplicates.
func setOf(v canonical.Value, name string) ([]string, error) {
	if v.Kind() != canonical.KindArray {
		return nil, fmt.Errorf("trust: registry: %s: %v, want an array", name, v.Kind())
	}
	set := make([]string, 0, v.Len())
	for e := range v.All() {
		text, _ := e.Text()
		if text == "" {
			return nil, fmt.Errorf("trust: registry: %s: an element is no text or empty", name)
		}
		set = append(set, text)
	}
	slices.Sort(set)
	return slices.Compact(set), nil
}

func orEmpty(v canonical.Value) canonical.Value {
	if v.IsNull() {
		return canonical.Object()
	}
	return v
}
