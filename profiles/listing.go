package profiles

import (
	"encoding/json"
	"errors"
	"iter"
)

// MaxList is how many entries a page of a listing has at most.
const MaxList = 100

// maxListParams is more octets than any params of a listing need.
const maxListParams = 8 << 10

// ReadListing reads the params of a method that lists: a JSON object, or nothing for the
// first page. limit is the field of in that bounds the page; it is brought into the range
// of 1 to MaxList. The error is an *Error, whose text begins with the profile.
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

// ErrNext says that the next page of a listing is none of those to come.
var ErrNext = errors.New("profiles: the next page of the listing is none of those to come")

// Pages yields the entries of a listing, page by page as they are wanted. page returns
// those of one page and where the next one begins, which is empty behind the last page;
// at is empty for the first. An error is the last thing that Pages yields: that of page,
// or ErrNext if a page leads to itself.
func Pages[E any](page func(at string) (list []E, next string, err error)) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		for at := ""; ; {
			list, next, err := page(at)
			for _, entry := range list {
				if !yield(entry, nil) {
					return
				}
			}
			if err == nil && next != "" && next == at {
				err = ErrNext
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
