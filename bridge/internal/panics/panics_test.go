package panics_test

import (
	"errors"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dlbridge/dlbridge/bridge/internal/panics"
	"github.com/dlbridge/dlbridge/tens/strictjson"
)

const here = "github.com/dlbridge/dlbridge/bridge/internal/panics_test."

// recovered returns the panic of f, which entry calls.
func recovered(f func()) (p *panics.Panic) {
	defer func() { p = panics.Recovered(recover(), here+"entry") }()
	entry(f)
	return nil
}

//go:noinline
func entry(f func()) { f() }

//go:noinline
func boom() { panic("boom") }

var none map[string]int

//go:noinline
func writeToNil() { none["a"]++ }

//go:noinline
func again() {
	defer func() { panic(recover()) }()
	boom()
}

//go:noinline
func fails() (err error) {
	defer boom()
	return errors.New("fails")
}

//go:noinline
func deep(levels int) {
	if levels == 0 {
		boom()
	}
	deep(levels - 1)
}

// broken has methods that panic.
type broken struct{}

func (broken) Error() string { panic("no text") }

func TestFramesAreThoseOfTheProgram(t *testing.T) {
	for name, c := range map[string]struct {
		f     func()
		names string
	}{
		"a panic":                       {boom, "boom"},
		"a panic of the runtime":        {writeToNil, "writeToNil"},
		"a panic of a deferred call":    {func() { fails() }, "boom fails TestFramesAreThoseOfTheProgram.func1"},
		"a panic that is thrown again":  {again, "again.func1 boom again"},
		"a call that panics beside one": {func() { recovered(boom); boom() }, "boom TestFramesAreThoseOfTheProgram.func2"},
	} {
		t.Run(name, func(t *testing.T) {
			p := recovered(c.f)
			var names []string
			for _, frame := range p.Frames {
				names = append(names, strings.TrimPrefix(frame.Function, here))
				assert.Contains(t, frame.File, "panics_test.go")
				assert.Positive(t, frame.Line)
			}
			assert.Equal(t, c.names, strings.Join(names, " "))
			assert.False(t, p.More)
			assert.Equal(t, here+"entry", p.Entry)
		})
	}
}

// withinLibrary calls a function of the library that calls f.
//
//go:noinline
func withinLibrary(f func()) {
	s := strictjson.Scanner{Data: []byte(`{"a":1}`)}
	s.Document(f)
}

func TestFramesOfTheLibraryAreThoseWhereThePanicBegan(t *testing.T) {
	for name, c := range map[string]struct {
		f     func()
		names string
	}{
		"the library calls back": {func() { withinLibrary(boom) }, "^boom withinLibrary TestFrames[^ ]*$"},
		"it does so twice":       {func() { withinLibrary(func() { withinLibrary(boom) }) }, "^boom withinLibrary TestFrames[^ ]* withinLibrary TestFrames[^ ]*$"},
		"it panics":              {func() { withinLibrary(nil) }, `^[^ ]*/tens/strictjson\.\(\*Scanner\)\.Document withinLibrary TestFrames[^ ]*$`},
	} {
		t.Run(name, func(t *testing.T) {
			var names []string
			for _, frame := range recovered(c.f).Frames {
				names = append(names, strings.TrimPrefix(frame.Function, here))
			}
			assert.Regexp(t, c.names, strings.Join(names, " "))
		})
	}
}

func TestFramesAreBounded(t *testing.T) {
	for levels, want := range map[int]struct {
		frames int
		more   bool
		entry  string
	}{
		14:      {16, false, here + "entry"},
		15:      {16, true, here + "entry"},
		100_000: {16, true, ""},
	} {
		p := recovered(func() { deep(levels - 1) })
		assert.Len(t, p.Frames, want.frames)
		assert.Equal(t, want.more, p.More)
		assert.Equal(t, want.entry, p.Entry)
	}
}

func TestTextsAreBounded(t *testing.T) {
	type number int
	type text string
	for _, c := range []struct {
		value any
		text  string
	}{
		{"four", "four"},
		{"five!", "five…"},
		{"äöü", "äö…"},
		{"aäöü", "aä…"},
		{text("five!"), "five…"},
		{number(3), "3"},
		{true, "true"},
		{1.5, "1.5"},
		{errors.New("error"), "erro…"},
		{broken{}, "%!v(…"},
		{[]int{1}, "a value of type []int"},
		{&struct{ a int }{}, "a value of type *struct { a int }"},
	} {
		assert.Equal(t, c.text, recovered(func() { panic(c.value) }).Text(4))
	}
}

func TestTellCallsTheHook(t *testing.T) {
	defer panics.SetHook(nil)
	var got any
	var stack string
	panics.SetHook(func(value any, s []byte) { got, stack = value, string(s) })
	func() {
		defer func() { panics.Recovered(recover()).Tell() }()
		boom()
	}()
	assert.Equal(t, "boom", got)
	assert.Contains(t, stack, here+"boom(")
	assert.NotContains(t, string(debug.Stack()), here+"boom(")
}
