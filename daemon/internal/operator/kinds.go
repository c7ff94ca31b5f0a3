package operator

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/slimwire/swp/internal/access"
)

// Bounds of a page of rows.
const (
	MaxRows   = 200             // on a page
	maxLooked = 10_000          // rows that are read for a page
	listFor   = 5 * time.Second // for reading them
)

// Row is a piece of stored data. Owner and ID are the Target of actions. Which fields a row has, and
// their titles, depends on its kind.
type Row struct {
	Owner  string    `json:"owner,omitempty"` // identity
	ID     string    `json:"id,omitempty"`    // as Spell writes it
	Name   string    `json:"name,omitempty"`
	State  string    `json:"state,omitempty"`
	Count  int64     `json:"count,omitempty"`
	Octets int64     `json:"octets,omitempty"`
	Begun  time.Time `json:"begun,omitzero"`
	Ended  time.Time `json:"ended,omitzero"`
	Note   string    `json:"note,omitempty"`
}

// Kind is a kind of stored data.
type Kind struct {
	Name string `json:"name"`
	Does string `json:"does"` // its rows, in words

	// Titles has the title of each field of its rows, by the name of the field in JSON.
	Titles map[string]string `json:"titles"`

	Actions []Action `json:"-"`

	// Rows calls yield with the rows whose place is after one, in the order of places, until yield
	// returns false. A place may have any octets.
	Rows func(ctx context.Context, after string, yield func(place string, row *Row) bool) error `json:"-"`
}

// Rows is the answer of GET /store/KIND.
type Rows struct {
	Rows []*Row `json:"rows"`
	Next string `json:"next,omitempty"` // the after of the next page; empty: this is the last one
}

// filters are the fields by which rows can be selected.
var filters = map[string]func(*Row) string{
	"owner": func(r *Row) string { return r.Owner },
	"id":    func(r *Row) string { return r.ID },
	"name":  func(r *Row) string { return r.Name },
	"state": func(r *Row) string { return r.State },
}

// list answers GET /store/KIND. Parameters are filters, with patterns as in the access rules, limit and
// after.
func (d *Desk) list(w http.ResponseWriter, r *http.Request) {
	i := slices.IndexFunc(d.o.Kinds, func(k Kind) bool { return k.Name == r.PathValue("kind") })
	if i < 0 {
		var names []string
		for _, k := range d.o.Kinds {
			names = append(names, k.Name)
		}
		refuse(w, http.StatusNotFound, fmt.Sprintf("%.40q is no kind of stored data; there are %s", r.PathValue("kind"), strings.Join(names, ", ")))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), listFor)
	defer cancel()
	page, err := d.o.Kinds[i].page(ctx, r.URL.Query())
	var fault *badQuery
	switch {
	case errors.As(err, &fault):
		refuse(w, http.StatusBadRequest, err.Error())
	case err != nil:
		refuse(w, http.StatusServiceUnavailable, textOf(err))
	default:
		write(w, page)
	}
}

// badQuery is the error for a parameter of a request.
type badQuery struct{ error }

// page returns the rows that a query selects. It is incomplete, with a Next, after MaxRows rows, or when
// maxLooked were read or the time is over.
func (k *Kind) page(ctx context.Context, query url.Values) (*Rows, error) {
	limit, after := MaxRows, ""
	var wanted []func(*Row) bool
	for name, values := range query {
		if len(values) > 1 {
			return nil, &badQuery{fmt.Errorf("%.40q is there %d times, want it once", name, len(values))}
		}
		value := values[0]
		if value == "" {
			continue
		}
		of, known := filters[name]
		switch {
		case name == "limit":
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 || n > MaxRows {
				return nil, &badQuery{fmt.Errorf("limit %.20q: want a number from 1 to %d", value, MaxRows)}
			}
			limit = n
		case name == "after":
			place, err := hex.DecodeString(value)
			if err != nil {
				return nil, &badQuery{errors.New("after: not the next of a page")}
			}
			after = string(place)
		case !known || k.Titles[name] == "":
			return nil, &badQuery{fmt.Errorf("%.40q is no field by which %s can be selected", name, k.Name)}
		default:
			matches, err := access.Matcher(value)
			if err != nil {
				return nil, &badQuery{fmt.Errorf("%s: %w", name, err)}
			}
			wanted = append(wanted, func(r *Row) bool { return matches(of(r)) })
		}
	}
	page := &Rows{Rows: []*Row{}}
	looked, place := 0, after
	err := k.Rows(ctx, after, func(at string, row *Row) bool {
		if len(page.Rows) == limit || looked == maxLooked || ctx.Err() != nil {
			page.Next = hex.EncodeToString([]byte(place))
			return false
		}
		looked, place = looked+1, at
		if !slices.ContainsFunc(wanted, func(is func(*Row) bool) bool { return !is(row) }) {
			page.Rows = append(page.Rows, row)
		}
		return true
	})
	if errors.Is(err, context.DeadlineExceeded) && place != after {
		page.Next, err = hex.EncodeToString([]byte(place)), nil
	}
	return page, err
}

// escape begins an id in hexadecimal.
const escape = "0x"

// Spell writes an id of any octets as text: itself if it can be read, else 0x and hexadecimal digits.
func Spell[T ~string | ~[]byte](id T) string {
	text := string(id)
	unreadable := func(r rune) bool { return !unicode.IsPrint(r) }
	if !utf8.ValidString(text) || strings.ContainsFunc(text, unreadable) || strings.HasPrefix(text, escape) || text == "" {
		return escape + hex.EncodeToString([]byte(text))
	}
	return text
}

// Unspell is the inverse of Spell.
func Unspell(text string) (id string, err error) {
	digits, escaped := strings.CutPrefix(text, escape)
	if !escaped {
		return text, nil
	}
	octets, err := hex.DecodeString(digits)
	if err != nil {
		return "", fmt.Errorf("id %.40q: %w", text, err)
	}
	return string(octets), nil
}
