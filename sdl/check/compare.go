package check

import (
	"fmt"
	"strconv"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
)

// maxShown is how much of a value a difference shows, in octets.
const maxShown = 300

func show(v canonical.Value) string {
	text := v.AppendJSON(nil)
	if len(text) > maxShown {
		return fmt.Sprintf("%s… (%d octets)", text[:maxShown], len(text))
	}
	return string(text)
}

func differ(path string, got, want canonical.Value) string {
	return fmt.Sprintf("%s: got %s, want %s", path, show(got), show(want))
}

// same compares two values as a whole.
func same(path string, got, want canonical.Value) []string {
	if got.Equal(want) {
		return nil
	}
	return []string{differ(path, got, want)}
}

// within compares the members that want lists; got may have more.
func within(path string, got, want canonical.Value) []string {
	if got.Kind() != canonical.KindObject || want.Kind() != canonical.KindObject {
		return same(path, got, want)
	}
	var diff []string
	for name, w := range want.Members() {
		if !got.Has(name) {
			diff = append(diff, fmt.Sprintf("%s.%s: is missing, want %s", path, name, show(w)))
			continue
		}
		diff = append(diff, same(path+"."+name, got.Get(name), w)...)
	}
	return diff
}

// Placeholders in a flow for free text and for the time of a clock.
const (
	anyText = "*"
	anyTime = "VOLATILE"
)

// alike compares values of a flow: anyText stands for a text that is not empty, and
// anyTime for a time.
func alike(path string, got, want canonical.Value) []string {
	switch want.Kind() {
	case canonical.KindString:
		pattern, _ := want.Text()
		text, ok := got.Text()
		if ok && pattern == anyText && text != "" {
			return nil
		}
		if ok && pattern == anyTime {
			if _, ok := sdl.ParseTime(text); ok {
				return nil
			}
		}
	case canonical.KindArray:
		if got.Kind() != want.Kind() || got.Len() != want.Len() {
			return []string{differ(path, got, want)}
		}
		var diff []string
		for i := range want.Len() {
			diff = append(diff, alike(path+"["+strconv.Itoa(i)+"]", got.At(i), want.At(i))...)
		}
		return diff
	case canonical.KindObject:
		if got.Kind() != want.Kind() {
			return []string{differ(path, got, want)}
		}
		var diff []string
		for name, w := range want.Members() {
			if !got.Has(name) {
				diff = append(diff, fmt.Sprintf("%s.%s: is missing, want %s", path, name, show(w)))
				continue
			}
			diff = append(diff, alike(path+"."+name, got.Get(name), w)...)
		}
		for name, g := range got.Members() {
			if !want.Has(name) {
				diff = append(diff, fmt.Sprintf("%s.%s: got %s, want no such member", path, name, show(g)))
			}
		}
		return diff
	}
	return same(path, got, want)
}
