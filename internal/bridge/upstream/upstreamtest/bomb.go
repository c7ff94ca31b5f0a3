// Package upstreamtest has answers of HTTP servers that nobody should read to their end.
package upstreamtest

import (
	"bytes"
	"compress/gzip"
	"io"
)

// member is how many octets a member of a Bomb unpacks to.
const member = 1 << 20

// Bomb writes a gzip stream that unpacks to size octets, until w fails. It is as small as
// gzip makes it, and made of many equal members, so that it costs its writer next to
// nothing.
func Bomb(w io.Writer, size int) error {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(bytes.Repeat([]byte("x"), member)); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	for range (size + member - 1) / member {
		if _, err := w.Write(b.Bytes()); err != nil {
			return err
		}
	}
	return nil
}
