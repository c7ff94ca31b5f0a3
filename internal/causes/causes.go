// Package causes is the table of causes for which one end of a connection refuses the other: their
// names, their codes on the wire, and their texts with the remedy.
//
// A cause is a hint of the other end. It says nothing about what that end serves, and the other end
// may say nothing, or something else. Only a configured partner that has proved its key is told of the
// causes that the table marks so.
package causes

import (
	"fmt"
	"slices"
	"strings"
)

// Cause is why one end refuses the other.
type Cause uint8

// The causes.
const (
	None      Cause = iota // no refusal is known
	Suspended              // the operator has suspended the partnership
	Revoked                // the operator has ended the partnership for good
	Ended                  // the date of the partnership has passed
	Denied                 // the access rules deny the identity
	Full                   // there is no room, or the identity has its share
	Untrusted              // the certificate is not accepted
	Draining               // the other end shuts down
	Unsaid                 // the other end has not said the cause
)

// Row is a row of the table.
type Row struct {
	Cause Cause

	// Name is the cause in status and metrics.
	Name string

	// Code is the application error code with which a connection of QUIC ends, and the field
	// close_code of an Error (profile 4096). 0: the cause has none.
	Code uint64

	// Partner says that only a configured partner is told the cause.
	Partner bool

	// Passes says that the refusal may end without anybody at the refused end: the same call may succeed
	// later. Otherwise it fails until somebody acts.
	Passes bool

	// Lasts says that the refusal ends only when the operator of the refusing end acts. No message waits for that.
	Lasts bool

	// Does is what the refusing end has done; %s is the other end. Remedy is what the operator of
	// that end can do.
	Does, Remedy string
}

// The codes of causes that only partners are told are in the range of private profiles. Denied and
// Full have their codes in the taxonomy of SWP Core §12.
var rows = []Row{
	{Suspended, "suspended", 4097, true, true, true, "has suspended the partnership with %s", "its operator resumes it with swpd partner resume"},
	{Revoked, "revoked", 4098, true, false, true, "has revoked the partnership with %s", "remove the partner, or have its operator invite again"},
	{Ended, "ended", 4099, true, false, true, "does not let %s in after the date until which the partnership was valid", "agree on a later valid_until with its operator"},
	{Denied, "denied", 10, false, false, true, "trusts %s's certificate but does not let its identity in", "its operator finds it in access.deny"},
	{Full, "full", 11, false, true, false, "is full or limits the identity of %s", "its operator can raise limits.connections or limits.connections_per_identity"},
	{Untrusted, "untrusted", 0, false, false, false, "refused %s's certificate", "has it added this endpoint, with the output of swpd cert bundle?"},
	{Draining, "draining", 4100, true, true, false, "shuts down and takes nothing more of %s", "nothing is to be done: the next connection follows"},
	{Unsaid, "unsaid", 0, false, true, false, "refused %s, and the cause was not said: perhaps it is full, or does not let this identity in", "its operator finds the cause in its log"},
}

// All returns the table. Callers may modify the slice.
func All() []Row { return slices.Clone(rows) }

// row returns the row of a cause; the zero Row for None.
func (c Cause) row() Row {
	for _, r := range rows {
		if r.Cause == c {
			return r
		}
	}
	return Row{}
}

// String returns the name of the cause. It is empty for None.
func (c Cause) String() string { return c.row().Name }

// Code returns the code of the cause on the wire; 0 if it has none.
func (c Cause) Code() uint64 { return c.row().Code }

// Remedy returns what the operator of the refused end can do. It is empty for None.
func (c Cause) Remedy() string { return c.row().Remedy }

// Passes reports whether the same call may succeed later, although nobody acts at the refused end. It is
// true for None.
func (c Cause) Passes() bool { return c == None || c.row().Passes }

// Lasts reports whether the refusal ends only when the operator of the refusing end acts.
func (c Cause) Lasts() bool { return c.row().Lasts }

// ForPartners reports whether only a configured partner is told the cause.
func (c Cause) ForPartners() bool { return c.row().Partner }

// Of returns the cause of an application error code; None for a code of no cause.
func Of(code uint64) Cause {
	for _, r := range rows {
		if r.Code == code && code != 0 {
			return r.Cause
		}
	}
	return None
}

// Named returns the cause of a name; None for a name of no cause.
func Named(name string) Cause {
	for _, r := range rows {
		if r.Name == name {
			return r.Cause
		}
	}
	return None
}

// Words returns what the refusing end has done. far and near name the ends, such as "the server" and
// "this client". It is empty for None.
func (c Cause) Words(far, near string) string {
	r := c.row()
	if r.Does == "" {
		return ""
	}
	return far + " " + fmt.Sprintf(r.Does, near)
}

// Table returns the table as Markdown, for the documents.
func Table() string {
	var b strings.Builder
	b.WriteString("| cause | code | told to | retryable | the partner … | remedy |\n|---|---|---|---|---|---|\n")
	for _, r := range rows {
		code, told := "–", "–"
		if r.Code != 0 {
			code, told = fmt.Sprint(r.Code), "every peer, over QUIC; partners"
			if r.Partner {
				told = "partners"
			}
		}
		if r.Cause == Untrusted {
			code, told = "an alert of TLS", "every peer"
		}
		again := "no"
		if r.Passes {
			again = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", r.Name, code, told, again, fmt.Sprintf(r.Does, "this endpoint"), r.Remedy)
	}
	return b.String()
}
