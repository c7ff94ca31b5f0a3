package main

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// halves are the floats that vectors have, in half precision.
var halves = map[string]string{"2.5": "f94100", "6.5": "f94680"}

// cbor is canonical JSON as canonical CBOR: definite lengths, shortest heads, keys by
// length and then by octets.
func cbor(text string) string {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		panic(err)
	}
	return cborItem(v)
}

func cborItem(v any) string {
	switch v := v.(type) {
	case nil:
		return "\xf6"
	case bool:
		if v {
			return "\xf5"
		}
		return "\xf4"
	case json.Number:
		if half, ok := halves[v.String()]; ok {
			octets, err := hex.DecodeString(half)
			if err != nil {
				panic(err)
			}
			return string(octets)
		}
		n, err := strconv.ParseUint(v.String(), 10, 16)
		if err != nil {
			panic(err) // a number that no vector has yet
		}
		return cborHead(0x00, int(n))
	case string:
		return cborHead(0x60, len(v)) + v
	case []any:
		var s strings.Builder
		s.WriteString(cborHead(0x80, len(v)))
		for _, element := range v {
			s.WriteString(cborItem(element))
		}
		return s.String()
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
		var s strings.Builder
		s.WriteString(cborHead(0xa0, len(v)))
		for _, name := range names {
			s.WriteString(cborItem(name) + cborItem(v[name]))
		}
		return s.String()
	}
	panic(fmt.Sprintf("gen: %T in CBOR", v))
}

func cborHead(major byte, n int) string {
	switch {
	case n < 24:
		return string([]byte{major | byte(n)})
	case n < 1<<8:
		return string([]byte{major | 24, byte(n)})
	}
	return string([]byte{major | 25, byte(n >> 8), byte(n)})
}
