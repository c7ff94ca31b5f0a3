package profiles

import "github.com/slimwire/swp/e1"

// DetailExtension is the detail of refusals of an extension.
const DetailExtension = "extension"

// Uvarint returns the first extension of a type as a uvarint, and whether there is one. A
// value that is not exactly one uvarint is an *Error with InvalidProfilePayload: unknown
// extensions are ignored, malformed known ones are not.
func Uvarint(ext e1.Extensions, typ uint64) (v uint64, ok bool, err error) {
	if v, ok = ext.LookupUvarint(typ); ok {
		return v, true, nil
	}
	if value, there := ext.Lookup(typ); there {
		return 0, false, InvalidExtension(typ, "%d octets, want one uvarint", len(value))
	}
	return 0, false, nil
}

// InvalidExtension returns the *Error for a malformed extension of a type that the profile
// knows. The format describes the fault.
func InvalidExtension(typ uint64, format string, args ...any) *Error {
	err := Errorf(InvalidProfilePayload, "extension %d: "+format, append([]any{typ}, args...)...)
	err.Detail = DetailExtension
	return err
}
