package canonical_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/slimwire/swp/sdl/canonical"
)

func parse(t testing.TB, text string) canonical.Value {
	t.Helper()
	v, err := canonical.ParseJSON([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

func m(name string, v canonical.Value) canonical.Member {
	return canonical.Member{Name: name, Value: v}
}

func TestBothFormsOfWhatProgramsMake(t *testing.T) {
	for _, test := range []struct {
		v          canonical.Value
		text, cbor string
	}{
		{canonical.Value{}, "null", "f6"},
		{canonical.Bool(false), "false", "f4"},
		{canonical.Int(math.MinInt64), "-9223372036854775808", "3b7fffffffffffffff"},
		{canonical.Int(math.MaxInt64), "9223372036854775807", "1b7fffffffffffffff"},
		{canonical.Float(1), "1.0", "f93c00"},
		{canonical.Float(32768), "32768.0", "f97800"},
		{canonical.Float(65504), "65504.0", "f97bff"},
		{canonical.Float(65505), "65505.0", "fa477fe100"},
		{canonical.Float(0x1p-24), "5.960464477539063e-08", "f90001"},
		{canonical.Float(0x1p-25), "2.9802322387695312e-08", "fa33000000"},
		{canonical.Float(-0x1.ff8p-15), "-6.097555160522461e-05", "f983ff"},
		{canonical.Float(0x1p-149), "1.401298464324817e-45", "fa00000001"},
		{canonical.Float(math.SmallestNonzeroFloat64), "5e-324", "fb0000000000000001"},
		{canonical.Float(9999999999999998), "9999999999999998.0", "fb4341c37937e07fff"},
		{canonical.Float(math.NaN()), "null", "f6"},
		{canonical.Float(math.Inf(-1)), "null", "f6"},
		{canonical.String("a\xff\xfeb"), `"a` + "\uFFFD" + `b"`, "6561efbfbd62"},
		{canonical.Strings("x", ""), `["x",""]`, "82617860"},
		{canonical.Array(), "[]", "80"},
		{canonical.Object(m("b", canonical.Int(1)), m("a", canonical.Int(2)), m("b", canonical.Int(3))), `{"a":2,"b":3}`, "a2616102616203"},
		{canonical.Object(m("é", canonical.Int(1)), m("zz", canonical.Int(2)), m("y", canonical.Int(3))), `{"y":3,"zz":2,"é":1}`, "a3617903627a7a0262c3a901"},
	} {
		check(t, test.text, test.v, test.text, test.cbor)
	}
}

func TestManyMembersAreSortedInBothForms(t *testing.T) {
	var members []canonical.Member
	for i := range 500 {
		members = append(members, m(strings.Repeat("k", i*7%501), canonical.Int(int64(i))))
	}
	v := canonical.Object(members...)
	w, err := canonical.ParseCBOR(v.AppendCBOR(nil))
	if err != nil || !w.Equal(v) || v.Len() != 500 {
		t.Errorf("%d members, %v", v.Len(), err)
	}
}

func TestIntegersAndFloatsAreTwoThings(t *testing.T) {
	for _, test := range []struct {
		text  string
		i     int64
		isInt bool
		f     float64
	}{
		{"1", 1, true, 1},
		{"1.0", 0, false, 1},
		{"1e0", 0, false, 1},
		{"-0", 0, true, 0},
		{"9223372036854775807", math.MaxInt64, true, math.MaxInt64},
		{"-9223372036854775808", math.MinInt64, true, math.MinInt64},
		{"9223372036854775808", 0, false, 0x1p63},
		{"-9223372036854775809", 0, false, -0x1p63},
		{"1" + strings.Repeat("0", 400), 0, false, math.Inf(1)},
	} {
		v := parse(t, test.text)
		if i, ok := v.Int64(); i != test.i || ok != test.isInt {
			t.Errorf("%.40s: %d, %v", test.text, i, ok)
		}
		if f, ok := v.Float64(); f != test.f || !ok {
			t.Errorf("%.40s: %v, %v", test.text, f, ok)
		}
	}
	if parse(t, "1").Equal(parse(t, "1.0")) || parse(t, "0.0").Equal(parse(t, "-0.0")) {
		t.Error("values with different canonical forms are equal")
	}
}

func TestAccessorsOfAnotherKindFindNothing(t *testing.T) {
	for _, text := range []string{"null", "true", "7", "1.5", `"x"`, "[]", "[1]", "{}", `{"a":null}`} {
		v := parse(t, text)
		_, b := v.Bool()
		_, s := v.Text()
		_, i := v.Int64()
		_, f := v.Float64()
		got := []bool{b, s, i, f, v.IsNull(), v.At(0).IsNull(), v.Has("a"), v.Get("a").IsNull()}
		want := []bool{text == "true", text == `"x"`, text == "7", text == "7" || text == "1.5", text == "null", text != "[1]", text == `{"a":null}`, true}
		if !slices.Equal(got, want) {
			t.Errorf("%s (%v): %v, want %v", text, v.Kind(), got, want)
		}
	}
}

func TestWithAndWithoutLeaveTheOriginal(t *testing.T) {
	v := parse(t, `{"b":1,"d":[2]}`)
	for _, test := range []struct {
		got  canonical.Value
		want string
	}{
		{v.With("a", canonical.Int(0)), `{"a":0,"b":1,"d":[2]}`},
		{v.With("b", canonical.Value{}), `{"b":null,"d":[2]}`},
		{v.With("c", canonical.Int(0)), `{"b":1,"c":0,"d":[2]}`},
		{v.With("e", canonical.Int(0)), `{"b":1,"d":[2],"e":0}`},
		{v.Without("b"), `{"d":[2]}`},
		{v.Without("b").Without("d"), `{}`},
		{v.Without("x"), `{"b":1,"d":[2]}`},
		{canonical.Int(7).With("a", canonical.Int(0)), `{"a":0}`},
		{canonical.Object().With("a", canonical.Int(0)), `{"a":0}`},
	} {
		if got := test.got.String(); got != test.want || test.got.JSONSize() != len(test.want) {
			t.Errorf("%s, size %d, want %s", got, test.got.JSONSize(), test.want)
		}
	}
	if got := v.String(); got != `{"b":1,"d":[2]}` {
		t.Errorf("the original became %s", got)
	}
}

func TestValuesKeepNothingOfSlices(t *testing.T) {
	elements := []canonical.Value{canonical.Int(1)}
	members := []canonical.Member{m("a", canonical.Int(1))}
	text := []byte(`{"name":"text"}`)
	array, object, parsed := canonical.Array(elements...), canonical.Object(members...), parse(t, string(text))
	p, err := canonical.ParseJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	elements[0], members[0].Name = canonical.Int(2), "b"
	clear(text)
	if array.String() != "[1]" || object.String() != `{"a":1}` || !p.Equal(parsed) {
		t.Errorf("%v %v %v", array, object, p)
	}
}

func TestMeasures(t *testing.T) {
	for text, want := range map[string][2]int{
		"1": {1, 0}, "{}": {1, 0}, "[]": {1, 0}, `{"a":1}`: {2, 0}, "[1,2]": {2, 2},
		`{"a":{"b":[]}}`: {3, 0}, `[[1,2,3],[4]]`: {3, 3}, `{"a":[{"b":[0,0,0,0]},1]}`: {5, 4},
	} {
		v := parse(t, text)
		if got := [2]int{v.Depth(), v.MaxArray()}; got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

func TestIterationStops(t *testing.T) {
	v := parse(t, `{"a":[1,2,3],"b":2}`)
	for e := range v.Get("a").All() {
		if i, _ := e.Int64(); i == 2 {
			break
		}
	}
	for name := range v.Members() {
		if name != "a" {
			t.Error("went on")
		}
		break
	}
	for range canonical.Int(1).All() {
		t.Error("a number has elements")
	}
	for range canonical.Array().Members() {
		t.Error("an array has members")
	}
}
