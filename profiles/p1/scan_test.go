package p1_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/slimwire/swp/profiles/p1"
)

func TestScanReadsFieldsInTheirOrder(t *testing.T) {
	inner := p1.AppendBytes(nil, 1, "inner")
	message := p1.AppendBytes(nil, 1, "text")
	message = p1.AppendBytes(message, 2, []byte{0xff})
	message = p1.AppendUint(message, 3, 7)
	message = p1.AppendUint(message, 4, uint64(1)<<63)
	message = p1.AppendBool(message, 5, true)
	message = p1.AppendBytes(message, 6, "a")
	message = p1.AppendBytes(message, 6, "b")
	message = append(p1.AppendHeader(message, 7, len(inner)), inner...)
	message = p1.AppendBytes(message, 8, "of a later release")
	var (
		text, nested string
		octets       []byte
		number       uint64
		signed       int64
		flag         bool
		list         []string
	)
	scan := func(message []byte) error {
		return p1.Scan(message, &text, &octets, &number, &signed, &flag, &list, func(part []byte) error { return p1.Scan(part, &nested) })
	}
	if err := scan(message); err != nil {
		t.Fatal(err)
	}
	if text != "text" || !bytes.Equal(octets, []byte{0xff}) || number != 7 || signed != -1<<63 || !flag || !slices.Equal(list, []string{"a", "b"}) || nested != "inner" {
		t.Errorf("%q %x %d %d %v %q %q", text, octets, number, signed, flag, list, nested)
	}
	torn := append(p1.AppendHeader(nil, 7, len(inner)), inner[:len(inner)-1]...)
	for name, bad := range map[string][]byte{
		"torn": message[:len(message)-1], "of another wire type": p1.AppendUint(nil, 1, 1), "torn within": torn,
		"torn within a whole one": append(p1.AppendHeader(nil, 7, 2), inner[:2]...),
	} {
		if scan(bad) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
