package conformance

import (
	"errors"

	"github.com/slimwire/swp/e1"
)

var errNotAnError = errors.New("not an error message of profile 4096")

// readErrorFrame returns canonical code and alias from the payload of profile
// 4096, msg_type 1 (docs/profile-error-path.md). It is separate code for the
// runner: the endpoint's output must not be read by the code that wrote it.
func readErrorFrame(payload []byte) (code, alias string, err error) {
	body, rest, ok := delimited(payload, 1)
	if !ok || len(rest) > 0 {
		return "", "", errNotAnError
	}
	for number := uint64(1); number <= 2; number++ {
		var text []byte
		if text, body, ok = delimited(body, number); !ok {
			return "", "", errNotAnError
		}
		if number == 1 {
			code = string(text)
		} else {
			alias = string(text)
		}
	}
	return code, alias, nil
}

// delimited splits the length-delimited field with a number off the front.
func delimited(b []byte, number uint64) (value, rest []byte, ok bool) {
	const lengthDelimited = 2
	key, n, err := e1.Uvarint(b)
	if err != nil || key != number<<3|lengthDelimited {
		return nil, nil, false
	}
	b = b[n:]
	size, n, err := e1.Uvarint(b)
	if err != nil || size > uint64(len(b)-n) {
		return nil, nil, false
	}
	b = b[n:]
	return b[:size], b[size:], true
}
