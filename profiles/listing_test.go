package profiles_test

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/slimwire/swp/profiles"
)

func TestPagesGoOnUntilTheListingDoesNot(t *testing.T) {
	type page struct {
		list []int
		next string
		err  error
	}
	for name, test := range map[string]struct {
		pages map[string]page
		want  []int
		err   error
	}{
		"one page":             {map[string]page{"": {[]int{1, 2}, "", nil}}, []int{1, 2}, nil},
		"two pages":            {map[string]page{"": {[]int{1}, "a", nil}, "a": {[]int{2}, "", nil}}, []int{1, 2}, nil},
		"nothing":              {map[string]page{"": {nil, "", nil}}, nil, nil},
		"an empty page":        {map[string]page{"": {nil, "a", nil}, "a": {[]int{2}, "", nil}}, []int{2}, nil},
		"the same page again":  {map[string]page{"": {[]int{1}, "a", nil}, "a": {[]int{2}, "a", nil}}, []int{1, 2}, profiles.ErrNext},
		"two pages in turns":   {map[string]page{"": {[]int{1}, "a", nil}, "a": {[]int{2}, "b", nil}, "b": {[]int{3}, "a", nil}}, []int{1, 2, 3, 2}, profiles.ErrNext},
		"a page that fails":    {map[string]page{"": {[]int{1}, "a", nil}, "a": {nil, "", io.EOF}}, []int{1}, io.EOF},
		"the last words first": {map[string]page{"": {[]int{1}, "a", io.EOF}}, []int{1}, io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			var got []int
			var last error
			for n, err := range profiles.Pages(func(at string) ([]int, string, error) {
				p := test.pages[at]
				return p.list, p.next, p.err
			}) {
				if last = err; err == nil {
					got = append(got, n)
				}
			}
			if !slices.Equal(got, test.want) || !errors.Is(last, test.err) {
				t.Errorf("%v, error %v; want %v, %v", got, last, test.want, test.err)
			}
		})
	}
}

func TestPagesThatNobodyWantsAreNotAskedFor(t *testing.T) {
	for n := range profiles.Pages(func(at string) ([]int, string, error) {
		if at != "" {
			t.Error("asked for a second page")
		}
		return []int{1, 2}, "a", nil
	}) {
		if n == 2 {
			break
		}
	}
}

func TestParamsOfAListingAreBounded(t *testing.T) {
	type listParams struct {
		After string `json:"after"`
		Limit int    `json:"limit"`
	}
	long := func(octets int) string {
		return `{"after":"` + strings.Repeat("x", octets-len(`{"after":""}`)) + `"}`
	}
	for params, want := range map[string]int{
		"":                profiles.MaxList,
		"{}":              profiles.MaxList,
		`{"limit":1}`:     1,
		`{"limit":100}`:   100,
		`{"limit":101}`:   profiles.MaxList,
		long(8 << 10):     profiles.MaxList,
		`{"limit":-1}`:    -1,
		`[]`:              -1,
		long(8<<10 + 1):   -1,
		`{"limit":"all"}`: -1,
	} {
		var in listParams
		err := profiles.ReadListing("test", []byte(params), &in, &in.Limit)
		var fault *profiles.Error
		switch {
		case want > 0 && (err != nil || in.Limit != want):
			t.Errorf("%.40s: limit %d, error %v; want %d", params, in.Limit, err, want)
		case want < 0 && (!errors.As(err, &fault) || fault.Code != profiles.InvalidProfilePayload || !strings.HasPrefix(fault.Text, "test: ")):
			t.Errorf("%.40s: error %v, want ERR_INVALID_PROFILE_PAYLOAD", params, err)
		}
	}
}
