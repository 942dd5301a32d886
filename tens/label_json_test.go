package tens_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/testmode"
	"github.com/dlbridge/dlbridge/tens"
)

func TestJSONIsStrict(t *testing.T) {
	for _, test := range []struct {
		text   string
		kind   error // nil if the value is valid
		offset int
	}{
		{`{}`, nil, 0},
		{" {\t\"a\" :\r\n[ ] } ", nil, 0},
		{`{"a":[0,-0,1.5e+3,1E9,0.0,-1.25e-2]}`, nil, 0},
		{`{"a":123456789012345678901234567890.5}`, nil, 0},
		{`{"a":"\"\\\/\b\f\n\r\t\u00fc\ud83d\udc19\u0000"}`, nil, 0},
		{"{\"\u00fc\":\"\U0001F419\x7f\"}", nil, 0},
		{`{"":{"":[{"":null}]}}`, nil, 0},

		{``, tens.ErrLabelNotJSON, 0},
		{`   `, tens.ErrLabelNotJSON, 3},
		{"\x00", tens.ErrLabelNotJSON, 0},
		{"\ufeff{}", tens.ErrLabelNotJSON, 0},
		{`{`, tens.ErrLabelNotJSON, 1},
		{`{}}`, tens.ErrLabelNotJSON, 2},
		{`{} {}`, tens.ErrLabelNotJSON, 3},
		{"{}\x00", tens.ErrLabelNotJSON, 2},
		{"{}\v", tens.ErrLabelNotJSON, 2},
		{`{"a":1,}`, tens.ErrLabelNotJSON, 7},
		{`{,"a":1}`, tens.ErrLabelNotJSON, 1},
		{`{"a" 1}`, tens.ErrLabelNotJSON, 5},
		{`{"a":}`, tens.ErrLabelNotJSON, 5},
		{`{"a":1 "b":2}`, tens.ErrLabelNotJSON, 7},
		{`{a:1}`, tens.ErrLabelNotJSON, 1},
		{`{'a':1}`, tens.ErrLabelNotJSON, 1},
		{`{1:1}`, tens.ErrLabelNotJSON, 1},
		{`{"a":[1,]}`, tens.ErrLabelNotJSON, 8},
		{`{"a":[,]}`, tens.ErrLabelNotJSON, 6},
		{`{"a":[1 2]}`, tens.ErrLabelNotJSON, 8},
		{`{"a":[1}`, tens.ErrLabelNotJSON, 7},
		{`{"a":[1]]}`, tens.ErrLabelNotJSON, 8},
		{`{"a":True}`, tens.ErrLabelNotJSON, 5},
		{`{"a":tru}`, tens.ErrLabelNotJSON, 5},
		{`{"a":nullx}`, tens.ErrLabelNotJSON, 9},
		{`{"a":NaN}`, tens.ErrLabelNotJSON, 5},
		{`{"a":Infinity}`, tens.ErrLabelNotJSON, 5},
		{`{"a":-Infinity}`, tens.ErrLabelNotJSON, 6},
		{`{"a":+1}`, tens.ErrLabelNotJSON, 5},
		{`{"a":01}`, tens.ErrLabelNotJSON, 6},
		{`{"a":-01}`, tens.ErrLabelNotJSON, 7},
		{`{"a":1.}`, tens.ErrLabelNotJSON, 7},
		{`{"a":.5}`, tens.ErrLabelNotJSON, 5},
		{`{"a":-}`, tens.ErrLabelNotJSON, 6},
		{`{"a":1e}`, tens.ErrLabelNotJSON, 7},
		{`{"a":1e+}`, tens.ErrLabelNotJSON, 8},
		{`{"a":0x10}`, tens.ErrLabelNotJSON, 6},
		{`{"a":1/**/}`, tens.ErrLabelNotJSON, 6},
		{"{\"a\":\"x\ny\"}", tens.ErrLabelNotJSON, 7},
		{"{\"a\":\"x\x1f\"}", tens.ErrLabelNotJSON, 7},
		{`{"a":"x`, tens.ErrLabelNotJSON, 7},
		{`{"a":"x\`, tens.ErrLabelNotJSON, 7},
		{`{"a":"\u12`, tens.ErrLabelNotJSON, 6},
		{`{"a":"\ud83d\udc`, tens.ErrLabelNotJSON, 6},
		{`{"a":"\x41"}`, tens.ErrLabelNotJSON, 6},
		{`{"a":"\u12"}`, tens.ErrLabelNotJSON, 6},
		{`{"a":"\u12g4"}`, tens.ErrLabelNotJSON, 6},
		{`{"a":"\ud83d"}`, tens.ErrLabelNotJSON, 6},
		{`{"a":"\ud83dx"}`, tens.ErrLabelNotJSON, 6},
		{`{"a":"\udc19"}`, tens.ErrLabelNotJSON, 6},
		{`{"a":"\ud83d\ud83d"}`, tens.ErrLabelNotJSON, 6},
		{`{"a":"\ud83d\u0041"}`, tens.ErrLabelNotJSON, 6},
		{"{\"a\":\"\xff\"}", tens.ErrLabelNotJSON, 6},
		{"{\"a\":\"\xc3\"}", tens.ErrLabelNotJSON, 6},
		{"{\"a\":\"\xed\xa0\xbd\"}", tens.ErrLabelNotJSON, 6},
		{"{\"\xff\":1}", tens.ErrLabelNotJSON, 2},
		{"{\xff}", tens.ErrLabelNotJSON, 1},

		{`[]`, tens.ErrLabelNotObject, 0},
		{`1`, tens.ErrLabelNotObject, 0},
		{` "{}"`, tens.ErrLabelNotObject, 0},
		{`null`, tens.ErrLabelNotObject, 0},
		{`[1`, tens.ErrLabelNotJSON, 2},

		{`{"a":1,"a":1}`, tens.ErrDuplicateName, 7},
		{`{"a":1,"b":2,"\u0061":1}`, tens.ErrDuplicateName, 13},
		{`{"\ud83d\ude00":1,"😀":1}`, tens.ErrDuplicateName, 18},
		{`{"":1,"":1}`, tens.ErrDuplicateName, 6},
		{`{"x":[{"y":{"a":1,"a":1}}]}`, tens.ErrDuplicateName, 18},
		{`{"a":{"a":{"a":1}},"b":[{"a":1},{"a":1}],"A":0}`, nil, 0},
	} {
		t.Run(test.text, func(t *testing.T) {
			_, err := tens.DecodeAttributes([]byte(test.text))
			if test.kind == nil {
				require.NoError(t, err)
				return
			}
			fault := requireFault(t, test.kind, err)
			assert.Equal(t, test.offset, fault.Offset)
			assert.Equal(t, -1, fault.Tensor)
			_, err = tens.DecodeLabel([]byte(test.text))
			assert.Equal(t, -1, requireFault(t, test.kind, err).Tensor)
		})
	}
}

func TestNamesAreDecodedAndValuesAreNot(t *testing.T) {
	attributes := must.Do(tens.DecodeAttributes([]byte(`{"\"\\\/\b\f\n\r\t\u00fc\ud83d\udc19\u0000" : [ "\u0041", 1.50 ], "b":{}}`)))(t)
	assert.Equal(t, tens.Attributes{
		{Name: "\"\\/\b\f\n\r\tü🐙\x00", Value: []byte(`[ "\u0041", 1.50 ]`)},
		{Name: "b", Value: []byte(`{}`)},
	}, attributes)
}

func TestNestingIsBounded(t *testing.T) {
	nest := func(n int) []byte { // n levels, including the object
		return []byte(`{"a":` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) + `}`)
	}
	must.Do(tens.DecodeAttributes(nest(tens.MaxDepth)))(t)
	_, err := tens.DecodeAttributes(nest(tens.MaxDepth + 1))
	requireFault(t, tens.ErrLabelTooDeep, err)
	_, err = tens.DecodeAttributes([]byte(strings.Repeat(`{"a":`, 1e6)))
	requireFault(t, tens.ErrLabelTooDeep, err)
	_, err = tens.DecodeAttributes([]byte(strings.Repeat(`[`, 1e6)))
	requireFault(t, tens.ErrLabelTooDeep, err)
	_, err = tens.DecodeAttributes([]byte(`{"a":[` + strings.Repeat(`[],`, 1e4) + `[]]}`))
	require.NoError(t, err, "depth counts what is open")
}

// A comparison of all pairs of names would take minutes.
func TestNamesOfLargeObjectsAreCompared(t *testing.T) {
	testmode.SkipMemory(t)
	const n = 200_000
	object := func(names int, format string) string {
		var b strings.Builder
		b.WriteByte('{')
		for i := range names {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteByte('"')
			fmt.Fprintf(&b, format, i)
			b.WriteString(`":0`)
		}
		return b.String()
	}
	for _, names := range []int{15, 16, 17, 18, n} {
		text := object(names, "some common beginning %d")
		attributes, err := tens.DecodeAttributes([]byte(text + "}"))
		require.NoError(t, err)
		assert.Len(t, attributes, names)
		must.Do(tens.DecodeAttributes([]byte(`{"inner":` + text + "}}")))(t)
		for _, again := range []string{"0", strconv.Itoa(names - 1)} {
			for _, escape := range []string{"s", `\u0073`} {
				more := `,"` + escape + `ome common beginning ` + again + `":1}`
				_, err = tens.DecodeAttributes([]byte(text + more))
				fault := requireFault(t, tens.ErrDuplicateName, err)
				assert.Equal(t, len(text)+1, fault.Offset)
				_, err = tens.DecodeAttributes([]byte(`{"inner":` + text + more + "}"))
				requireFault(t, tens.ErrDuplicateName, err)
			}
		}
	}
}

// agreeWithStandardLibrary compares DecodeAttributes with encoding/json, apart from the rules that only DecodeAttributes has.
func agreeWithStandardLibrary(t testing.TB, text []byte) {
	attributes, err := tens.DecodeAttributes(text)
	if !json.Valid(text) || !utf8.Valid(text) || loneSurrogate(text) {
		require.Error(t, err, "%q", text)
		assert.False(t, errors.Is(err, tens.ErrLabelNotObject), "%q: %v", text, err)
		return
	}
	want, unique, deepest := walk(t, text)
	switch {
	case want == nil && err == nil:
		t.Fatalf("%q is no object", text)
	case err == nil:
		require.True(t, unique, "%q", text)
		require.LessOrEqual(t, deepest, tens.MaxDepth)
		require.Len(t, attributes, len(want))
		for i, a := range attributes {
			assert.Equal(t, want[i], a.Name)
			assert.True(t, json.Valid(a.Value))
		}
	case errors.Is(err, tens.ErrDuplicateName):
		require.False(t, unique, "%q: %v", text, err)
	case errors.Is(err, tens.ErrLabelTooDeep):
		require.Greater(t, deepest, tens.MaxDepth, "%q: %v", text, err)
	case errors.Is(err, tens.ErrLabelNotObject):
		require.Nil(t, want, "%q: %v", text, err)
	default:
		t.Fatalf("%q: %v", text, err)
	}
}

// loneSurrogate reports whether valid JSON has a \u escape of half a surrogate pair. Valid JSON has no backslash outside
// strings.
func loneSurrogate(text []byte) bool {
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		i++
		if text[i] != 'u' {
			continue
		}
		u, _ := strconv.ParseUint(string(text[i+1:i+5]), 16, 16)
		i += 4
		if u < 0xd800 || u > 0xdfff {
			continue
		}
		if u > 0xdbff || len(text)-i < 7 || text[i+1] != '\\' || text[i+2] != 'u' {
			return true
		}
		if u, _ := strconv.ParseUint(string(text[i+3:i+7]), 16, 16); u < 0xdc00 || u > 0xdfff {
			return true
		}
		i += 6
	}
	return false
}

// walk returns the names of the outermost object, or nil if the JSON is not an object. It reports whether the names of each object
// are unique, and returns the depth of nesting.
func walk(t testing.TB, text []byte) (outermost []string, unique bool, deepest int) {
	unique = true
	type level struct {
		names map[string]bool // nil in an array
		value bool            // whether a value comes next
	}
	var open []level
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err != nil {
			return outermost, unique, deepest
		}
		top := len(open) - 1
		if name, ok := token.(string); ok && top >= 0 && open[top].names != nil && !open[top].value {
			unique = unique && !open[top].names[name]
			open[top].names[name] = true
			open[top].value = true
			if top == 0 {
				outermost = append(outermost, name)
			}
			continue
		}
		if top >= 0 {
			open[top].value = false
		}
		switch token {
		case json.Delim('{'):
			if top < 0 {
				outermost = []string{}
			}
			open = append(open, level{names: map[string]bool{}})
		case json.Delim('['):
			open = append(open, level{})
		case json.Delim('}'), json.Delim(']'):
			open = open[:top]
		}
		deepest = max(deepest, len(open))
	}
}

func TestScannerAgreesWithTheStandardLibrary(t *testing.T) {
	for _, text := range []string{
		`{"a":1,"b":[{"c":1,"d":{"e":"f"}}],"c":"\ud83d\udc19"}`, `{"a":{"b":1,"b":2}}`, `{"\ud800":1}`, `{"a":"\\ud800"}`,
		`[1,{"a":2}]`, `{"a":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`, `{"a":01}`, `"x"`, `{"a":"\ud83dx1234"}`,
	} {
		agreeWithStandardLibrary(t, []byte(text))
	}
}

// DecodeAttributes and encoding/json agree on every label with one changed byte.
func TestScannerAgreesOnDamagedLabels(t *testing.T) {
	label := `{"TENS":{"metadata":{"a":-1.5e3,"b":"\u00fcx"},"tensors":[{"dtype":"f","shape":[3, 0],"word":4}]},"x":[true,null]}`
	for i := range label {
		for _, c := range []byte("\x00 \"\\{}[],:0.-+eEutn\x80\xc3x") {
			damaged := []byte(label)
			damaged[i] = c
			agreeWithStandardLibrary(t, damaged)
		}
		agreeWithStandardLibrary(t, []byte(label[:i]))
		agreeWithStandardLibrary(t, []byte(label[:i]+label[i+1:]))
	}
}
