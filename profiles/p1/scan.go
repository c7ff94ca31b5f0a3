package p1

import "fmt"

// Scan reads a message whose fields are numbered from 1 in the order of into: a *string or
// *[]byte for octets, a *uint64, *int64 or *bool for a number, a *[]string for octets that
// repeat, and a func([]byte) error for messages that repeat. A []byte aliases message.
// Further fields are skipped. The error is the first one.
func Scan(message []byte, into ...any) error {
	f := Read(message)
	for f.Next() {
		if f.Num() > uint64(len(into)) {
			continue
		}
		switch dst := into[f.Num()-1].(type) {
		case *string:
			f.Octets(dst)
		case *[]byte:
			f.Bytes(dst)
		case *uint64:
			f.Uint64(dst)
		case *int64:
			var n uint64
			f.Uint64(&n)
			*dst = int64(n)
		case *bool:
			f.Bool(dst)
		case *[]string:
			var s string
			f.Octets(&s)
			*dst = append(*dst, s)
		case func([]byte) error:
			var part []byte
			if f.Bytes(&part); f.Err() != nil {
				return f.Err()
			}
			if err := dst(part); err != nil {
				return err
			}
		default:
			panic(fmt.Sprintf("p1: Scan into %T", dst))
		}
	}
	return f.Err()
}
