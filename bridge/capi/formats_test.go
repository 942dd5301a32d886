//go:build cgo

package capi

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/include"
)

// Each package with a DecodeView is a format with a row in formats.h and in formats.go, and with functions in dlbridge.h.
func TestEveryFormatHasItsRows(t *testing.T) {
	const needs = "%s: a format needs a row in FORMATS of formats.h, and in STREAMS if it has DecodeFirstTo and in RULES if it has rules; " +
		"a row in formats.go, with decode, size, appendTo and, for RULES, rules; and the declarations of its functions in include/dlbridge.h"
	source := must.Do(os.ReadFile("formats.h"))(t)
	rows := func(list string) (names []string) {
		text := regexp.MustCompile(`#define ` + list + `\(X\)((?:.*\\\n)*.*\n)`).FindSubmatch(source)
		require.NotNil(t, text, list)
		for _, m := range regexp.MustCompile(`X\((\w+)`).FindAllSubmatch(text[1], -1) {
			names = append(names, string(m[1]))
		}
		return names
	}
	named, streams, rules := rows("FORMATS"), rows("STREAMS"), rows("RULES")
	require.Len(t, named, len(formats))
	files := must.Do(filepath.Glob("../*/*.go"))(t)
	found := 0
	for _, file := range files {
		text := must.Do(os.ReadFile(file))(t)
		if regexp.MustCompile(`(?m)^func DecodeView\(`).Match(text) {
			found++
			assert.Contains(t, named, filepath.Base(filepath.Dir(file)), needs, file)
		}
	}
	assert.Len(t, named, found, "formats.h has a row for a format that is not in bridge")
	for i, name := range named {
		assert.NotNil(t, formats[i].decode, needs, name)
		assert.NotNil(t, formats[i].size, needs, name)
		assert.NotNil(t, formats[i].appendTo, needs, name)
		assert.Equal(t, slices.Contains(rules, name), formats[i].rules != nil, needs, name)
		for function, has := range map[string]bool{
			"decode": true, "encode": true, "decode_batch": slices.Contains(streams, name), "check": slices.Contains(rules, name),
		} {
			declared := regexp.MustCompile(`\bdlb_` + name + `_` + function + `\(`).MatchString(include.Header)
			assert.Equal(t, has, declared, needs, "dlb_"+name+"_"+function)
		}
	}
}
