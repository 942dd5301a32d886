package decthings_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/decthings"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

func ExampleRules() {
	rules, err := decthings.DecodeRules([]byte(`{"shape":[-1,3],"allowedTypes":["f32","f64"]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(rules.Check(decthings.F32, []int64{7, 3}))
	fmt.Println(rules.Check(decthings.U8, []int64{7, 3}))
	fmt.Println(rules.Check(decthings.F32, []int64{7, 4}))
	text, err := json.Marshal(rules)
	fmt.Println(string(text), err)
	// Output:
	// <nil>
	// decthings: type not allowed: u8 is not one of [f32 f64]
	// decthings: shape not allowed: shape[1] is 4, but must be 3
	// {"shape":[-1,3],"allowedTypes":["f32","f64"],"annotations":[]} <nil>
}

func TestRulesThatAreNoneAreRefused(t *testing.T) {
	tests := map[string]string{
		"nothing":                  ``,
		"null":                     `null`,
		"an array":                 `[]`,
		"cut short":                `{"shape":[1],"allowedTypes":["u8"]`,
		"more behind":              `{"shape":[1],"allowedTypes":["u8"]}{}`,
		"no shape":                 `{"allowedTypes":["u8"]}`,
		"a shape of null":          `{"shape":null,"allowedTypes":["u8"]}`,
		"a shape with null":        `{"shape":[1,null],"allowedTypes":["u8"]}`,
		"a shape with a fraction":  `{"shape":[1.5],"allowedTypes":["u8"]}`,
		"a shape with 2^63":        `{"shape":[9223372036854775808],"allowedTypes":["u8"]}`,
		"a shape with -2":          `{"shape":[-2],"allowedTypes":["u8"]}`,
		"no JSON behind a name":    `{"shape":[1],"allowedTypes":["u8"],"x":nul}`,
		"text that is not UTF-8":   "{\"shape\":[1],\"allowedTypes\":[\"u8\"],\"x\":\"\xff\"}",
		"a name in other letters":  `{"Shape":[1],"allowedTypes":["u8"]}`,
		"types of null":            `{"shape":[1],"allowedTypes":null}`,
		"types with null":          `{"shape":[1],"allowedTypes":[null]}`,
		"types with an empty name": `{"shape":[1],"allowedTypes":[""]}`,
		"a type as a string":       `{"shape":[1],"allowedTypes":"u8"}`,
		"a type in other letters":  `{"shape":[1],"allowedTypes":["U8"]}`,
		"annotations of null":      `{"shape":[1],"allowedTypes":["u8"],"annotations":null}`,
		"annotations with numbers": `{"shape":[1],"allowedTypes":["u8"],"annotations":[1]}`,
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			rules, err := decthings.DecodeRules([]byte(text))
			assert.ErrorIs(t, err, decthings.ErrRules)
			assert.Nil(t, rules)
		})
	}
	_, err := decthings.DecodeRules([]byte(`[]`))
	assert.EqualError(t, err, `decthings: invalid rules: "[]": not a JSON object (byte 0)`)
	for _, rules := range []decthings.Rules{{Shape: []int64{-2}}, {AllowedTypes: []decthings.Type{0}}, {AllowedTypes: []decthings.Type{17}}} {
		must.Fail(json.Marshal(&rules))(t, decthings.ErrRules)
		assert.ErrorIs(t, rules.Check(decthings.U8, nil), decthings.ErrRules)
	}
}

// If a name occurs twice, some JSON readers take the first value, some the last, and some neither.
func TestRulesWithTextThatIsNotUTF8AreNotWritten(t *testing.T) {
	for _, text := range []string{"\xff", "a\xc3", "\xed\xa0\x80"} {
		rules := &decthings.Rules{Annotations: []string{"ä", text}}
		_, err := rules.MarshalJSON()
		assert.ErrorIs(t, err, decthings.ErrRules, "%q", text)
		assert.ErrorContains(t, err, "annotations[1]", "%q", text)
	}
	text := must.Do((&decthings.Rules{Annotations: []string{"\ufffd"}}).MarshalJSON())(t)
	assert.JSONEq(t, `{"shape":[],"allowedTypes":[],"annotations":["\ufffd"]}`, string(text))
}

func TestRulesWithANameTwiceAreRefused(t *testing.T) {
	for _, test := range []struct{ name, text, twice string }{
		{"shape", `{"shape":[1],"allowedTypes":["u8"],"shape":[2]}`, "shape"},
		{"allowedTypes", `{"allowedTypes":["u8"],"shape":[1],"allowedTypes":["u8"]}`, "allowedTypes"},
		{"annotations", `{"shape":[1],"allowedTypes":["u8"],"annotations":[],"annotations":[]}`, "annotations"},
		{"a name that is escaped", `{"shape":[1],"allowedTypes":["u8"],"sh\u0061pe":[1]}`, "shape"},
		{"a name that is not known", `{"x":1,"shape":[1],"allowedTypes":["u8"],"x":2}`, "x"},
		{"a name within a value", `{"shape":[1],"allowedTypes":["u8"],"x":{"y":[{"z":1,"z":2}]}}`, "z"},
		{"a name within a shape", `{"shape":[{"y":1,"y":1}],"allowedTypes":["u8"]}`, "y"},
	} {
		t.Run(test.name, func(t *testing.T) {
			rules, err := decthings.DecodeRules([]byte(test.text))
			require.ErrorIs(t, err, decthings.ErrRules)
			assert.Nil(t, rules)
			assert.ErrorContains(t, err, "decthings: invalid rules: ")
			assert.ErrorContains(t, err, fmt.Sprintf("%q: duplicate name (byte ", test.twice))
			before := decthings.Rules{Shape: []int64{7}}
			unmarshalled := before
			require.ErrorIs(t, json.Unmarshal([]byte(test.text), &unmarshalled), decthings.ErrRules)
			assert.Equal(t, before, unmarshalled)
		})
	}
	rules := must.Do(decthings.DecodeRules([]byte(`{"shape":[1],"allowedTypes":["u8"],"Shape":[2],"x":[{"y":1},{"y":1}]}`)))(t)
	assert.Equal(t, []int64{1}, rules.Shape, "names match exactly")
}

func TestRulesSayWhichRuleIsBroken(t *testing.T) {
	rules := &decthings.Rules{Shape: []int64{2, decthings.AnyLength}, AllowedTypes: []decthings.Type{decthings.U8, decthings.Image}}
	tests := []struct {
		name  string
		what  decthings.Type
		shape []int64
		want  error
		says  string
	}{
		{"allowed", decthings.Image, []int64{2, math.MaxInt64}, nil, ""},
		{"any length has 0", decthings.U8, []int64{2, 0}, nil, ""},
		{"type", decthings.I8, []int64{2, 0}, decthings.ErrRuleType, "i8 is not one of [u8 image]"},
		{"type before shape", decthings.I8, nil, decthings.ErrRuleType, "i8"},
		{"rank", decthings.U8, []int64{2}, decthings.ErrRuleShape, "rank 1"},
		{"size", decthings.U8, []int64{3, 1}, decthings.ErrRuleShape, "shape[0] is 3, but must be 2"},
		{"a negative size", decthings.U8, []int64{2, -1}, decthings.ErrRuleShape, "shape[1] is -1, but must not be negative"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := rules.Check(test.what, test.shape)
			if test.want == nil {
				assert.NoError(t, err)
				return
			}
			assert.ErrorIs(t, err, test.want)
			assert.ErrorContains(t, err, test.says)
		})
	}
	none := &decthings.Rules{}
	assert.ErrorIs(t, none.Check(decthings.U8, nil), decthings.ErrRuleType)
	text := must.Do(json.Marshal(none))(t)
	assert.JSONEq(t, `{"shape":[],"allowedTypes":[],"annotations":[]}`, string(text))
}

func TestErrorsOfLongRulesAreShort(t *testing.T) {
	rules := &decthings.Rules{Shape: make([]int64, 100_000), AllowedTypes: slices.Repeat([]decthings.Type{decthings.Boolean}, 100_000)}
	err := rules.Check(decthings.String, nil)
	assert.ErrorIs(t, err, decthings.ErrRuleType)
	assert.ErrorContains(t, err, " …]")
	assert.Less(t, len(err.Error()), 1000)
	for _, shape := range [][]int64{nil, make([]int64, 200_000)} {
		err = rules.Check(decthings.Boolean, shape)
		assert.ErrorIs(t, err, decthings.ErrRuleShape)
		assert.ErrorContains(t, err, "0 0 …]")
		assert.Less(t, len(err.Error()), 1000)
	}
}

func TestRulesAreWrittenWhereverTheyStand(t *testing.T) {
	rules := decthings.Rules{Shape: []int64{1}, AllowedTypes: []decthings.Type{decthings.U8}}
	const want = `{"shape":[1],"allowedTypes":["u8"],"annotations":[]}`
	for name, value := range map[string]any{"by value": rules, "by pointer": &rules} {
		text, err := json.Marshal(value)
		require.NoError(t, err, name)
		assert.JSONEq(t, want, string(text), name)
	}
	text := must.Do(json.Marshal(struct{ Input decthings.Rules }{rules}))(t)
	assert.JSONEq(t, `{"Input":`+want+`}`, string(text))

	var method struct{ Input decthings.Rules }
	method.Input = rules
	require.NoError(t, json.Unmarshal([]byte(`{"Input":null}`), &method))
	assert.Equal(t, rules, method.Input)
}

func TestErrorsOfLongNumbersInRulesAreShort(t *testing.T) {
	_, err := decthings.DecodeRules([]byte(`{"shape":[` + strings.Repeat("1", 1<<20) + `],"allowedTypes":[]}`))
	require.ErrorIs(t, err, decthings.ErrRules)
	assert.Less(t, len(err.Error()), 300)
}

func TestRulesAreReadInsideOtherJSON(t *testing.T) {
	var method struct{ Input, Output *decthings.Rules }
	text := `{"Input":{"shape":[],"allowedTypes":["string"]},"Output":null}`
	require.NoError(t, json.Unmarshal([]byte(text), &method))
	assert.Nil(t, method.Output)
	assert.NoError(t, method.Input.Check(decthings.String, nil))
	assert.Error(t, json.Unmarshal([]byte(`{"Input":{"shape":[]}}`), &method))
}

// FuzzRules: decoded rules are encoded as JSON that is decoded as equal rules.
func FuzzRules(f *testing.F) {
	for _, m := range manifests(f) {
		for _, v := range m.Rules {
			f.Add([]byte(v.Rules))
		}
		for _, v := range m.RulesJSON {
			f.Add([]byte(v.JSON))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		rules, err := decthings.DecodeRules(text)
		if err != nil {
			require.ErrorIs(t, err, decthings.ErrRules)
			return
		}
		printed := must.Do(json.Marshal(rules))(t)
		again := must.Do(decthings.DecodeRules(printed))(t)
		require.Equal(t, rules, again)
	})
}

// errors.Is finds the errors of package dlpack, whichever package returned the error.
func TestErrorsAreAlsoThoseOfDLPack(t *testing.T) {
	for _, err := range []error{decthings.ErrType, decthings.ErrRuleType} {
		assert.ErrorIs(t, err, dlpack.ErrDType)
	}
	for _, err := range []error{decthings.ErrRank, decthings.ErrRuleShape} {
		assert.ErrorIs(t, err, dlpack.ErrLayout)
	}
}
