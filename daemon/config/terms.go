package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slimwire/swp/internal/causes"
)

// Values of partners.<name>.state.
const (
	StateActive    = "active"
	StateSuspended = "suspended"
	StateRevoked   = "revoked"
)

// Date is a point in time, as RFC 3339, or a day in UTC, which counts to its end. The zero
// value is none.
type Date struct{ time.Time }

// ParseDate reads a Date.
func ParseDate(s string) (Date, error) {
	if day, err := time.Parse(time.DateOnly, s); err == nil {
		return Date{day.AddDate(0, 0, 1).UTC()}, nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return Date{}, fmt.Errorf("%.64q is not a date, want one such as 2027-03-31, which counts to its end in UTC, or 2027-03-31T12:00:00Z", s)
	}
	return Date{t.UTC()}, nil
}

// String returns the text that ParseDate reads; empty for none.
func (d Date) String() string {
	if d.IsZero() {
		return ""
	}
	if d.Equal(d.Truncate(24 * time.Hour)) {
		return d.AddDate(0, 0, -1).Format(time.DateOnly)
	}
	return d.Format(time.RFC3339)
}

// NoticeTime is how long before the end of a partnership, or before its review is due,
// warnings begin.
const NoticeTime = 30 * 24 * time.Hour

// Ended reports whether the partnership has ended by its date.
func (p *Partner) Ended(now time.Time) bool {
	return !p.ValidUntil.IsZero() && !now.Before(p.ValidUntil.Time)
}

// Barred returns why a partner may do nothing at a time, and nothing is sent to it; empty if
// it may.
func (p *Partner) Barred(name string, now time.Time) string {
	switch {
	case p.State == StateSuspended, p.State == StateRevoked:
		return "partner " + name + " is " + p.State
	case p.Ended(now):
		return p.ended(name)
	}
	return ""
}

// Over reports whether the partnership has ended, by its state or its date.
func (p *Partner) Over(now time.Time) bool { return p.State == StateRevoked || p.Ended(now) }

func (p *Partner) ended(name string) string {
	return fmt.Sprintf("partner %s was valid until %s", name, p.ValidUntil)
}

// Terms returns warnings about the states and dates of partners: of those that are suspended
// or have ended, and of those that end, or are due for a review, within NoticeTime.
func (p Partners) Terms(now time.Time) (list []string) {
	for _, name := range slices.Sorted(maps.Keys(p)) {
		one := p[name]
		if one.State == StateRevoked {
			continue
		}
		if why := one.Barred(name, now); why != "" {
			then := "swpd partner resume lets it in again"
			if one.Ended(now) && one.State == StateActive {
				then = "set a later partners." + name + ".valid_until, or revoke it"
			}
			list = append(list, why+": it is not let in, and nothing is sent to it; "+then)
			continue
		}
		list = append(list, one.dates(name, now)...)
	}
	return list
}

// Dates returns those of Terms that a date makes: of partners that end, or are due for a review.
func (p Partners) Dates(now time.Time) (list []string) {
	for _, name := range slices.Sorted(maps.Keys(p)) {
		if one := p[name]; one.Barred(name, now) == "" {
			list = append(list, one.dates(name, now)...)
		}
	}
	return list
}

func (p *Partner) dates(name string, now time.Time) (list []string) {
	if end := p.ValidUntil; !end.IsZero() && end.Sub(now) <= NoticeTime {
		list = append(list, fmt.Sprintf("partner %s is valid until %s and is not let in after that; agree on a later date", name, end))
	}
	switch due := p.ReviewBy; {
	case due.IsZero() || due.Sub(now) > NoticeTime:
	case now.Before(due.Time):
		list = append(list, fmt.Sprintf("partner %s is to be reviewed by %s; set a later partners.%s.review_by when that is done", name, due, name))
	default:
		list = append(list, fmt.Sprintf("partner %s was to be reviewed by %s; set a later partners.%s.review_by when that is done", name, due, name))
	}
	return list
}

// admit adds what the entries of partners say of their rights to the access rules: rules, and
// denials, the ones in the order of their beginning.
func (c *Config) admit() {
	c.Access.Asserting = slices.Clone(c.Access.Asserts)
	var timed Denials
	for _, name := range slices.Sorted(maps.Keys(c.Partners)) {
		one, key := c.Partners[name], "partners."+name
		if one.Identity == "" || strings.Contains(one.Identity, "*") {
			continue // a problem, and no pattern
		}
		if c.Access.Asserts == nil {
			c.Access.Asserting = append(c.Access.Asserting, one.Identity)
		}
		who := List{one.Identity}
		if one.NamedOnly {
			c.Access.Named = append(c.Access.Named, one.Identity)
		}
		for i, r := range one.Allow {
			c.Access.Rules = append(c.Access.Rules, AccessRule{
				Identity: who, For: r.For, Profile: r.Profile, Operation: r.Operation, Name: r.Name, Key: fmt.Sprintf("%s.allow[%d]", key, i),
			})
		}
		if one.KeptOut() {
			c.Access.Deny = append(c.Access.Deny, one.denial(name))
		} else if !one.ValidUntil.IsZero() {
			timed = append(timed, Denial{Identity: who, Key: key + ".valid_until", Why: one.ended(name), Cause: causes.Ended, From: one.ValidUntil.Time})
		}
	}
	slices.SortStableFunc(timed, func(a, b Denial) int { return cmp.Compare(a.From.UnixNano(), b.From.UnixNano()) })
	c.Access.Deny = append(c.Access.Deny, timed...)
}

// Admitting returns a copy of c with other partners. Its access rules have the rights and denials of these,
// and none of the partners of c. A partner that c suspends or revokes under the same identity is kept out in both.
func (c *Config) Admitting(partners Partners) *Config {
	out := *c
	out.Partners = maps.Clone(partners)
	for name, one := range out.Partners {
		if now, ok := c.Partners[name]; ok && now.Identity == one.Identity && now.KeptOut() {
			one.State = now.State
			out.Partners[name] = one
		}
	}
	out.Access.Rules = slices.DeleteFunc(slices.Clone(c.Access.Rules), func(r AccessRule) bool { return r.Key != "" })
	out.Access.Deny = slices.DeleteFunc(slices.Clone(c.Access.Deny), func(d Denial) bool { return d.Key != "" })
	out.Access.Named = nil
	out.admit()
	return &out
}

// KeptOut reports whether a partner is suspended or revoked.
func (p Partner) KeptOut() bool { return p.State == StateSuspended || p.State == StateRevoked }

// denial is that of a partner that is suspended or revoked.
func (p Partner) denial(name string) Denial {
	cause := causes.Suspended
	if p.State == StateRevoked {
		cause = causes.Revoked
	}
	return Denial{Identity: List{p.Identity}, Key: "partners." + name + ".state", Why: p.Barred(name, time.Time{}), Cause: cause}
}

// Withdrawn returns a copy in which the partners are suspended or revoked that their files suspend or
// revoke now, and their names. It is for a configuration that cannot be loaded any more: of the files
// of partners it reads nothing but the state, and lets nobody in. Without such partners it returns c.
func (c *Config) Withdrawn() (*Config, []string) {
	out := *c
	var names []string
	for _, name := range slices.Sorted(maps.Keys(c.PartnerFiles)) {
		one, file, key := c.Partners[name], c.PartnerFiles[name], "partners."+name+".state"
		if at := c.Place(key); at != "" && !strings.HasPrefix(at, file+":") {
			continue // the environment sets it
		}
		text, err := read(file)
		if err != nil {
			continue
		}
		state, err := StateIn(text)
		if err != nil || state == one.State || state == StateActive || one.State == StateRevoked {
			continue
		}
		if names == nil {
			out.Partners = maps.Clone(c.Partners)
		}
		names = append(names, name)
		one.State = state
		out.Partners[name] = one
		others := slices.DeleteFunc(slices.Clone(out.Access.Deny), func(d Denial) bool { return d.Key == key })
		out.Access.Deny = append(Denials{one.denial(name)}, others...)
	}
	return &out, names
}
