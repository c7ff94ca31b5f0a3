package profiles

import (
	"encoding/json"
	"iter"
)

// MaxList limits the entries on a page of a listing.
const MaxList = 100

// maxListParams limits the params of a listing, in octets.
const maxListParams = 8 << 10

// ReadListing reads the params of a listing method: a JSON object, or nothing for the first
// page. limit points to the field of in with the page size, which is adjusted to the range
// 1 to MaxList. The error is an *Error whose text begins with the profile.
func ReadListing(profile string, params []byte, in any, limit *int) error {
	if len(params) > maxListParams {
		return Errorf(InvalidProfilePayload, "%s: params of %d octets, want at most %d", profile, len(params), maxListParams)
	}
	if len(params) > 0 && json.Unmarshal(params, in) != nil {
		return Errorf(InvalidProfilePayload, "%s: params are not the JSON object that the method takes", profile)
	}
	if *limit < 0 {
		return Errorf(InvalidProfilePayload, "%s: limit %d, want 0 to %d", profile, *limit, MaxList)
	}
	if *limit == 0 || *limit > MaxList {
		*limit = MaxList
	}
	return nil
}

// ErrNext says that a page names a next page that is not after it.
var ErrNext = Errorf(InvalidProfilePayload, "the next page of the listing is none of those to come")

// Pages yields the entries of a listing and requests pages on demand. page returns the
// entries of one page and the position of the next one, empty after the last page; at is
// empty for the first page. Pages ends with the first error: that of page, or ErrNext if a
// page leads back to an earlier one, which takes up to three times as many pages to see.
func Pages[E any](page func(at string) (list []E, next string, err error)) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		var mark string // an earlier position: that after 1, 2, 4 … pages
		turn := 1
		for at, n := "", 1; ; n++ {
			list, next, err := page(at)
			for _, entry := range list {
				if !yield(entry, nil) {
					return
				}
			}
			if err == nil && next != "" && (next == at || next == mark) {
				err = ErrNext
			}
			if n == turn {
				mark, turn = next, 2*turn
			}
			if err != nil {
				var none E
				yield(none, err)
				return
			}
			if next == "" {
				return
			}
			at = next
		}
	}
}
