package page

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"

	"github.com/slimwire/swp/internal/access"
	"github.com/slimwire/swp/internal/audit"
)

// Bounds of one search.
const (
	searched = 16 << 20 // octets of the trail, the latest ones
	maxFound = 200      // records
)

// Found is the answer of /audit.
type Found struct {
	Records []json.RawMessage `json:"records"` // as they stand in the trail, the latest first
	More    bool              `json:"more"`    // older ones match, too
	Octets  int64             `json:"octets"`  // at most so many, the latest of the trail, were searched
}

// search returns the latest records of exchanges that match all fields of a query. Patterns are those of
// the access rules. Records are not verified.
func search(ctx context.Context, dir string, query url.Values) (*Found, error) {
	if dir == "" {
		return nil, errors.New("there is no audit trail: audit.exchanges is off")
	}
	limit := maxFound
	var filters []func(*audit.Entry) bool
	for name, values := range query {
		if len(values) > 1 {
			return nil, fmt.Errorf("%.40q is there %d times, want it once", name, len(values))
		}
		value := values[0]
		if value == "" {
			continue
		}
		if name == "limit" {
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 || n > maxFound {
				return nil, fmt.Errorf("limit %.20q: want a number from 1 to %d", value, maxFound)
			}
			limit = n
			continue
		}
		at := slices.IndexFunc(audit.Fields(), func(f audit.Field) bool { return f.Name == name })
		if at < 0 {
			return nil, fmt.Errorf("%.40q is no field of a record that can be searched", name)
		}
		matches, err := access.Matcher(value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		of := audit.Fields()[at].Of
		filters = append(filters, func(e *audit.Entry) bool { return matches(of(e)) })
	}
	found := &Found{Records: []json.RawMessage{}, Octets: searched}
	for e := range audit.Latest(ctx, dir, searched) {
		if !e.Exchange() || slices.ContainsFunc(filters, func(wanted func(*audit.Entry) bool) bool { return !wanted(e) }) {
			continue
		}
		if len(found.Records) == limit {
			found.Records, found.More = slices.Delete(found.Records, 0, 1), true
		}
		found.Records = append(found.Records, slices.Clone(e.Line))
	}
	slices.Reverse(found.Records)
	return found, ctx.Err()
}
