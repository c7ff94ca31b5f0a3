package e1_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/e1"
)

var defaults = new(e1.Limits).WithDefaults()

// The fields of an envelope, as octets. join puts them together, so that a test
// can spell one of them otherwise.
const (
	fVersion = iota
	fProfile
	fType
	fFlags
	fTime
	fMsgID
	fExt
	fPayload
)

func fields() [8]string {
	return [8]string{"\x01", "\x0c", "\x02", "\x00", "\x00", "\x08" + "ABCDEFGH", "\x00", "\x03xyz"}
}

func join(f [8]string) []byte { return []byte(strings.Join(f[:], "")) }

func decode(t testing.TB, body []byte) (e1.Envelope, error) {
	t.Helper()
	var env e1.Envelope
	err := env.Decode(body, &defaults)
	if err != nil {
		var e *e1.Error
		if !errors.As(err, &e) || e.Err == nil || !strings.HasPrefix(e.Error(), "e1: ") {
			t.Fatalf("error %#v, want an *Error that wraps a fault", err)
		}
	}
	return env, err
}

// wantFault wants body refused for fault in field.
func wantFault(t testing.TB, body []byte, field e1.Field, fault error) {
	t.Helper()
	_, err := decode(t, body)
	var e *e1.Error
	if !errors.Is(err, fault) || !errors.As(err, &e) || e.Field != field {
		t.Errorf("%x: error %v, want %v in %v", body, err, fault, field)
	}
}

func TestDecodeReadsTheLayoutOfTheSpecification(t *testing.T) {
	// The worked example of SWP Core §3.2, without its frame prefix.
	body := []byte("\x01\x01\x01\x00\x00\x10" + "0123456789abcdef" + "\x00\x00")
	got, err := decode(t, body)
	if err != nil {
		t.Fatal(err)
	}
	want := e1.Envelope{Version: 1, ProfileID: 1, MsgType: 1, MsgID: []byte("0123456789abcdef"), Extensions: e1.Extensions{}, Payload: []byte{}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if err := got.Validate(&defaults); err != nil || got.Size() != 24 {
		t.Errorf("Validate %v, size %d, want nil and 24", err, got.Size())
	}
}

func TestDecodedSlicesAreCappedWindows(t *testing.T) {
	f := fields()
	f[fExt] = "\x03\x14\x01v"
	body := join(f)
	env, err := decode(t, body)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"msg_id": env.MsgID, "extensions": env.Extensions, "payload": env.Payload} {
		if cap(b) != len(b) {
			t.Errorf("%s: cap %d for a length of %d", name, cap(b), len(b))
		}
	}
	body[6] = 'Z'
	if env.MsgID[0] != 'Z' {
		t.Error("msg_id was copied")
	}
	clone := env.Clone()
	body[6] = 'A'
	if clone.MsgID[0] != 'Z' {
		t.Error("Clone shares memory")
	}
}

func TestEN01MalformedUvarintInEveryPosition(t *testing.T) {
	eleven, ten := strings.Repeat("\x80", 10)+"\x00", strings.Repeat("\xff", 9)
	for field := range 8 {
		for name, test := range map[string]struct {
			spelling string
			cut      bool // nothing follows
			fault    error
		}{
			"eleven octets":          {eleven, false, e1.ErrUvarintTooLong},
			"ten octets and no end":  {ten + "\x80", true, e1.ErrUvarintTooLong},
			"tenth octet 2":          {ten + "\x02", false, e1.ErrUvarintOverflow},
			"tenth octet 127":        {ten + "\x7f", false, e1.ErrUvarintOverflow},
			"truncated":              {"\x81", true, e1.ErrUvarintTruncated},
			"truncated at the ninth": {ten, true, e1.ErrUvarintTruncated},
			"absent":                 {"", true, e1.ErrUvarintTruncated},
		} {
			t.Run(fmt.Sprintf("%v, %s", e1.Field(field), name), func(t *testing.T) {
				f := fields()
				f[field] = test.spelling
				if test.cut {
					for i := field + 1; i < len(f); i++ {
						f[i] = ""
					}
				}
				wantFault(t, join(f), e1.Field(field), test.fault)
			})
		}
	}
	for name, test := range map[string]struct {
		block string
		fault error
	}{
		"type of eleven octets":    {eleven + "\x00", e1.ErrUvarintTooLong},
		"type that overflows":      {ten + "\x02\x00", e1.ErrUvarintOverflow},
		"type truncated":           {"\x80", e1.ErrUvarintTruncated},
		"type without a value":     {"\x14", e1.ErrUvarintTruncated},
		"length of eleven octets":  {"\x14" + eleven, e1.ErrUvarintTooLong},
		"length that overflows":    {"\x14" + ten + "\x02", e1.ErrUvarintOverflow},
		"length truncated":         {"\x14\x80", e1.ErrUvarintTruncated},
		"second entry is at fault": {"\x14\x00\x14", e1.ErrUvarintTruncated},
	} {
		t.Run("extensions, "+name, func(t *testing.T) {
			f := fields()
			f[fExt] = string(e1.AppendBytes(nil, []byte(test.block)))
			wantFault(t, join(f), e1.FieldExtensions, test.fault)
		})
	}
}

func TestEN02OverlongUvarintMeansTheSameEverywhere(t *testing.T) {
	plain := fields()
	plain[fExt] = "\x03\x14\x01v"
	want, err := decode(t, join(plain))
	if err != nil {
		t.Fatal(err)
	}
	for size := 2; size <= e1.MaxUvarintSize; size++ {
		for field := range 8 {
			f := plain
			f[field] = overlong(f[field][0], size) + f[field][1:]
			got, err := decode(t, join(f))
			if err != nil {
				t.Fatalf("%v in %d octets: %v", e1.Field(field), size, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%v in %d octets:\n%s", e1.Field(field), size, diff)
			}
			if !bytes.Equal(got.Append(nil), join(plain)) {
				t.Errorf("%v in %d octets: not written in the shortest form", e1.Field(field), size)
			}
		}
		f := plain
		f[fExt] = string(e1.AppendBytes(nil, []byte(overlong(0x14, size)+overlong(1, size)+"v")))
		got, err := decode(t, join(f))
		if err != nil {
			t.Fatal(err)
		}
		if v, ok := got.Extensions.Lookup(0x14); !ok || string(v) != "v" {
			t.Errorf("entry in %d octets: %q, %v", size, v, ok)
		}
	}
}

// overlong spells a value below 128 in size octets.
func overlong(v byte, size int) string {
	b := bytes.Repeat([]byte{0x80}, size)
	b[0], b[size-1] = v|0x80, 0
	return string(b)
}

func TestEN03LengthsAreComparedBeforeTheyAreNarrowed(t *testing.T) {
	for _, n := range []uint64{4, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32, 1<<32 + 1, 1<<63 - 1, 1 << 63, 1<<63 + 3, 1<<64 - 1} {
		length := string(e1.AppendUvarint(nil, n))
		for _, field := range []int{fMsgID, fExt, fPayload} {
			f := fields()
			f[field] = length
			for i := field + 1; i < len(f); i++ {
				f[i] = ""
			}
			wantFault(t, append(join(f), "abc"...), e1.Field(field), e1.ErrTruncated)
		}
		f := fields()
		f[fExt] = string(e1.AppendBytes(nil, []byte("\x14"+length+"abc")))
		wantFault(t, join(f), e1.FieldExtensions, e1.ErrTruncated)
	}
}

func TestEN04VersionIsDecidedOnItsFieldAlone(t *testing.T) {
	for _, v := range []uint64{0, 2, 127, 128, 1<<64 - 1} {
		body := e1.AppendUvarint(nil, v)
		wantFault(t, body, e1.FieldVersion, e1.ErrVersion)
		wantFault(t, append(body, 0xff, 0xff), e1.FieldVersion, e1.ErrVersion)
		f := fields()
		f[fVersion] = string(body)
		wantFault(t, join(f), e1.FieldVersion, e1.ErrVersion)
		env, _ := decode(t, join(f))
		if env.Version != v {
			t.Errorf("version %d reported as %d", v, env.Version)
		}
	}
}

func TestEN08ExtensionBlocks(t *testing.T) {
	block := func(n int) e1.Extensions { return e1.AppendExtension(nil, 20, make([]byte, n-3)) }
	with := func(x e1.Extensions) []byte {
		f := fields()
		f[fExt] = string(e1.AppendBytes(nil, x))
		return join(f)
	}
	if x := block(4096); len(x) != 4096 {
		t.Fatalf("block of %d", len(x))
	}
	if _, err := decode(t, with(block(4096))); err != nil {
		t.Errorf("4,096 octets: %v", err)
	}
	wantFault(t, with(block(4097)), e1.FieldExtensions, e1.ErrExtensionsTooLarge)
	// Above the limit the entries are not looked at.
	wantFault(t, with(bytes.Repeat([]byte{0xff}, 4097)), e1.FieldExtensions, e1.ErrExtensionsTooLarge)
	wantFault(t, with([]byte("\x14\x02v")), e1.FieldExtensions, e1.ErrTruncated)

	var many e1.Extensions
	for range 2048 {
		many = e1.AppendExtension(many, 20, nil)
	}
	body := with(many)
	var env e1.Envelope
	if n := testing.AllocsPerRun(10, func() {
		if err := env.Decode(body, &defaults); err != nil {
			t.Fatal(err)
		}
		entries := 0
		for range env.Extensions.All() {
			entries++
		}
		if entries != 2048 {
			t.Fatal(entries)
		}
	}); n != 0 {
		t.Errorf("%v allocations for 2,048 entries, want none", n)
	}
	var mixed e1.Extensions
	for _, typ := range []uint64{0, 15, 16, 17, 16, 1<<64 - 1} {
		mixed = e1.AppendExtension(mixed, typ, fmt.Append(nil, typ, len(mixed)))
	}
	env, err := decode(t, with(mixed))
	if err != nil {
		t.Fatal(err)
	}
	var types []uint64
	for typ := range env.Extensions.All() {
		types = append(types, typ)
	}
	if !slices.Equal(types, []uint64{0, 15, 16, 17, 16, 1<<64 - 1}) {
		t.Errorf("types %v, want all of them in order", types)
	}
}

func TestExtensionLookups(t *testing.T) {
	x := e1.AppendExtension(nil, 16, []byte("first"))
	x = e1.AppendExtension(x, 16, []byte("second"))
	x = e1.AppendExtensionUvarint(x, 20, 300)
	x = e1.AppendExtension(x, 21, []byte("\x01\x01"))
	x = e1.AppendExtension(x, 22, nil)
	if v, ok := x.Lookup(16); !ok || string(v) != "first" {
		t.Errorf("Lookup(16) = %q, %v, want the first", v, ok)
	}
	if v, ok := x.Lookup(99); ok || v != nil {
		t.Errorf("Lookup(99) = %q, %v, want none", v, ok)
	}
	if v, ok := x.LookupUvarint(20); !ok || v != 300 {
		t.Errorf("LookupUvarint(20) = %d, %v, want 300", v, ok)
	}
	for _, typ := range []uint64{16, 21, 22, 99} {
		if v, ok := x.LookupUvarint(typ); ok {
			t.Errorf("LookupUvarint(%d) = %d, want it absent", typ, v)
		}
	}
	malformed := e1.Extensions("\x14\x00\x15\x05x")
	if _, ok := malformed.Lookup(21); ok {
		t.Error("an entry that overruns its block was found")
	}
	n := 0
	for range malformed.All() {
		n++
	}
	if n != 1 {
		t.Errorf("%d entries of a malformed block, want those before the fault", n)
	}
	for range x.All() {
		break // a caller may stop early
	}
}

func TestEN09TrailingOctetsAndFlags(t *testing.T) {
	wantFault(t, append(join(fields()), 0), e1.FieldPayload, e1.ErrTrailing)
	f := fields()
	f[fFlags] = string(e1.AppendUvarint(nil, math.MaxUint64))
	env, err := decode(t, join(f))
	if err != nil || env.Flags != math.MaxUint64 || !bytes.Equal(env.Append(nil), join(f)) {
		t.Errorf("flags %x, error %v: want all 64 bits kept and written again", env.Flags, err)
	}
}

func TestLimitAndLimitPlusOne(t *testing.T) {
	limits := e1.Limits{MaxPayload: 10, MaxExtensions: 6, MinMsgID: 4, MaxMsgID: 6}
	for _, test := range []struct {
		name          string
		msgID, ext, n int
		decode, valid error
	}{
		{name: "all at their largest", msgID: 6, ext: 6, n: 10},
		{name: "all at their smallest", msgID: 4},
		{name: "payload above", msgID: 4, n: 11, decode: e1.ErrPayloadTooLarge},
		{name: "extensions above", msgID: 4, ext: 7, decode: e1.ErrExtensionsTooLarge},
		{name: "both above", msgID: 4, ext: 7, n: 11, decode: e1.ErrExtensionsTooLarge},
		{name: "msg_id empty", valid: e1.ErrMsgID},
		{name: "msg_id below", msgID: 3, valid: e1.ErrMsgID},
		{name: "msg_id above", msgID: 7, valid: e1.ErrMsgID},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := e1.Envelope{Version: 1, ProfileID: 1, MsgType: 1, MsgID: make([]byte, test.msgID), Payload: make([]byte, test.n)}
			if test.ext > 0 {
				in.Extensions = e1.AppendExtension(nil, 20, make([]byte, test.ext-2))
			}
			var env e1.Envelope
			if err := env.Decode(in.Append(nil), &limits); !errors.Is(err, test.decode) {
				t.Fatalf("Decode: %v, want %v", err, test.decode)
			} else if err != nil {
				return
			}
			if err := env.Validate(&limits); !errors.Is(err, test.valid) {
				t.Errorf("Validate: %v, want %v", err, test.valid)
			}
		})
	}
	env := e1.Envelope{MsgID: make([]byte, 8)}
	if err := env.Validate(&defaults); !errors.Is(err, e1.ErrMsgType) {
		t.Errorf("msg_type 0: %v, want %v", err, e1.ErrMsgType)
	}
}

func TestDefaultLimits(t *testing.T) {
	want := e1.Limits{MaxPayload: 8380416, MaxExtensions: 4096, MinMsgID: 8, MaxMsgID: 64}
	if defaults != want {
		t.Errorf("%+v, want %+v", defaults, want)
	}
	if set := (e1.Limits{MaxPayload: 1, MaxExtensions: 2, MinMsgID: 3, MaxMsgID: 4}); set.WithDefaults() != set {
		t.Errorf("%+v became %+v", set, set.WithDefaults())
	}
}

func TestEveryPrefixIsRefused(t *testing.T) {
	env := message()
	env.Extensions = e1.AppendExtension(nil, 300, []byte("value"))
	body := env.Append(nil)
	for n := range body {
		if _, err := decode(t, body[:n]); err == nil {
			t.Errorf("prefix of %d octets accepted", n)
		}
	}
	if _, err := decode(t, body); err != nil {
		t.Error(err)
	}
}

func TestFieldsBeforeTheFaultAreKept(t *testing.T) {
	f := fields()
	f[fPayload] = "\x05xyz"
	env, err := decode(t, join(f))
	if !errors.Is(err, e1.ErrTruncated) || env.ProfileID != 12 || env.MsgType != 2 || string(env.MsgID) != "ABCDEFGH" || env.Payload != nil {
		t.Errorf("envelope %+v, error %v: want all but the payload", env, err)
	}
	// What an earlier Decode left is gone.
	if err := env.Decode([]byte{1}, &defaults); err == nil || env.MsgType != 0 || env.MsgID != nil {
		t.Errorf("envelope %+v, error %v", env, err)
	}
}

func TestUvarintBoundaries(t *testing.T) {
	for _, test := range []struct {
		v    uint64
		size int
	}{
		{0, 1}, {1, 1}, {127, 1}, {128, 2}, {1<<14 - 1, 2}, {1 << 14, 3}, {1<<21 - 1, 3}, {1 << 21, 4}, {1<<28 - 1, 4}, {1 << 28, 5},
		{1<<35 - 1, 5}, {1 << 35, 6}, {1<<42 - 1, 6}, {1 << 42, 7}, {1<<49 - 1, 7}, {1 << 49, 8}, {1<<56 - 1, 8}, {1 << 56, 9},
		{1<<63 - 1, 9}, {1 << 63, 10}, {1<<64 - 1, 10},
	} {
		b := e1.AppendUvarint(nil, test.v)
		if len(b) != test.size || e1.SizeUvarint(test.v) != test.size {
			t.Errorf("%d: %d octets, announced as %d, want %d", test.v, len(b), e1.SizeUvarint(test.v), test.size)
		}
		v, n, err := e1.Uvarint(append(b, 0xff))
		if v != test.v || n != test.size || err != nil {
			t.Errorf("%d: read as %d of %d octets, error %v", test.v, v, n, err)
		}
	}
	for in, want := range map[string]error{
		"":                                    e1.ErrUvarintTruncated,
		"\x80":                                e1.ErrUvarintTruncated,
		strings.Repeat("\x80", 9):             e1.ErrUvarintTruncated,
		strings.Repeat("\x80", 10):            e1.ErrUvarintTooLong,
		strings.Repeat("\x80", 11):            e1.ErrUvarintTooLong,
		strings.Repeat("\x80", 10) + "\x00":   e1.ErrUvarintTooLong,
		strings.Repeat("\x80", 9) + "\x02":    e1.ErrUvarintOverflow,
		strings.Repeat("\x80", 9) + "\x7fxyz": e1.ErrUvarintOverflow,
	} {
		if _, n, err := e1.Uvarint([]byte(in)); !errors.Is(err, want) || n != 0 {
			t.Errorf("%x: size %d, error %v, want %v", in, n, err, want)
		}
	}
}

func TestSizesAreWhatAppendWrites(t *testing.T) {
	for _, n := range []int{0, 1, 127, 128, 1 << 14} {
		env := e1.Envelope{Version: 1 << 7, ProfileID: 1 << 63, MsgType: uint64(n), Flags: 1 << 20, Timestamp: 1 << 40,
			MsgID: make([]byte, n), Extensions: e1.AppendExtension(nil, uint64(n), make([]byte, n)), Payload: make([]byte, n)}
		if got := len(env.Append(nil)); got != env.Size() {
			t.Errorf("%d octets, announced as %d", got, env.Size())
		}
		if got := len(env.AppendHead(nil)); got != env.HeadSize() {
			t.Errorf("head of %d octets, announced as %d", got, env.HeadSize())
		}
		if got := append(env.AppendHead(nil), env.Payload...); !bytes.Equal(got, env.Append(nil)) {
			t.Error("head and payload differ from the whole")
		}
		if got := len(e1.AppendBytes(nil, make([]byte, n))); got != e1.SizeBytes(n) {
			t.Errorf("bytes of %d, announced as %d", got, e1.SizeBytes(n))
		}
	}
}

func TestErrorsSayFieldValueAndBound(t *testing.T) {
	for _, test := range []struct {
		err  e1.Error
		want string
	}{
		{e1.Error{Field: e1.FieldFlags, Err: e1.ErrUvarintTooLong}, "e1: flags: uvarint longer than 10 octets"},
		{e1.Error{Field: e1.FieldMsgID, Err: e1.ErrMsgID, Value: 4, Min: 8, Bound: 64}, "e1: msg_id: 4 octets, want 8 to 64"},
		{e1.Error{Field: e1.FieldPayload, Err: e1.ErrTruncated, Value: 9, Bound: 3}, "e1: payload: length 9, only 3 octets follow"},
		{e1.Error{Field: e1.FieldPayload, Err: e1.ErrTrailing, Value: 2}, "e1: 2 octets after the payload"},
		{e1.Error{Field: e1.FieldExtensions, Err: e1.ErrExtensionsTooLarge, Value: 4097, Bound: 4096}, "e1: extensions: 4097 octets exceed limit 4096"},
		{e1.Error{Field: e1.FieldVersion, Err: e1.ErrVersion, Value: 2, Bound: 1}, "e1: version 2, want 1"},
		{e1.Error{Field: e1.FieldMsgType, Err: e1.ErrMsgType}, "e1: msg_type is 0"},
	} {
		if got := test.err.Error(); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
	if got := e1.Field(99).String(); got != "field 99" {
		t.Errorf("%q", got)
	}
}

func TestReadingAndWritingDoNotAllocate(t *testing.T) {
	in := message()
	in.Extensions = e1.AppendExtensionUvarint(e1.AppendExtension(nil, 16, []byte("target")), 49, 5000)
	body := in.Append(nil)
	dst := make([]byte, 0, 256)
	var env e1.Envelope
	if n := testing.AllocsPerRun(100, func() {
		err := env.Decode(body, &defaults)
		if err == nil {
			err = env.Validate(&defaults)
		}
		if _, ok := env.Extensions.LookupUvarint(49); err != nil || !ok {
			t.Fatal(err, ok)
		}
		dst = env.Append(dst[:0])
		dst = env.AppendHead(dst[:0])
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func FuzzDecodeAppendDecode(f *testing.F) {
	f.Add(message().Append(nil))
	f.Add(join(fields()))
	withExt := fields()
	withExt[fExt] = "\x05\x14\x00\x30\x01\x07"
	f.Add(join(withExt))
	for field := range 8 {
		long := fields()
		long[field] = overlong(long[field][0], 10) + long[field][1:]
		f.Add(join(long))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		first, err := decode(t, body)
		if err != nil {
			return
		}
		// Integers may have been overlong: then what is written is shorter, and
		// from there on it is the identity.
		again := first.Append(nil)
		if len(again) > len(body) || len(again) != first.Size() {
			t.Fatalf("%d octets written, size %d, of %d read", len(again), first.Size(), len(body))
		}
		second, err := decode(t, again)
		if err != nil {
			t.Fatalf("not readable again: %v", err)
		}
		if diff := cmp.Diff(first, second); diff != "" {
			t.Fatal(diff)
		}
		if !bytes.Equal(second.Append(nil), again) {
			t.Fatal("written differently the second time")
		}
		entries := 0
		for typ, value := range first.Extensions.All() {
			if _, ok := first.Extensions.Lookup(typ); !ok || len(value) > len(first.Extensions) {
				t.Fatalf("entry %d of type %d is not found", entries, typ)
			}
			entries++
		}
		_ = first.Validate(&defaults)
	})
}

func TestTailIsTheRestOfThePayload(t *testing.T) {
	whole := message()
	whole.Payload = []byte("front and rest")
	split := *whole
	split.Payload, split.Tail = []byte("front"), []byte(" and rest")
	want := whole.Append(nil)
	if got := split.Append(nil); !bytes.Equal(got, want) || split.Size() != len(want) {
		t.Errorf("%x of size %d, want %x", got, split.Size(), want)
	}
	head := split.AppendHead(nil)
	if got := append(append(head, split.Payload...), split.Tail...); !bytes.Equal(got, want) {
		t.Errorf("in three pieces %x, want %x", got, want)
	}
	if c := split.Clone(); !bytes.Equal(c.Payload, whole.Payload) || c.Tail != nil {
		t.Errorf("clone has payload %q and tail %q", c.Payload, c.Tail)
	}
}
