package errtext

import (
	_ "embed"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed remedies.h
var remedies string

// rows returns the rows of remedies.h: each has a remedy in the words of Go, C and Python.
var rows = sync.OnceValue(func() (rows [][3]string) {
	const text = `("(?:[^"\\]|\\.)*")`
	for _, row := range regexp.MustCompile(`REMEDY\(`+text+`,\s*`+text+`,\s*`+text+`\)`).FindAllStringSubmatch(remedies, -1) {
		rows = append(rows, [3]string{unquote(row[1]), unquote(row[2]), unquote(row[3])})
	}
	return rows
})

// replacers returns two replacers: Go remedies by C remedies, and Go remedies by Python remedies.
var replacers = sync.OnceValue(func() (to [2]*strings.Replacer) {
	for i := range to {
		var pairs []string
		for _, row := range rows() {
			pairs = append(pairs, row[0], row[i+1])
		}
		to[i] = strings.NewReplacer(pairs...)
	}
	return to
})

// goOnly has the remedies of errors that C and Python never get.
var goOnly = []string{
	"AssumeWritable, or Copy it", "use Clone on the tensor", "use its method Dense", "pass the memory to dlpack.Lend", // package gorgonia
	"set DType", "set Shape", // package nervana
	"use Close to end", "give the option to NewSocket", "use MaxSockets to allow more", "leave out Limit", "use Encode, or Message.Pack and Send", "give the option To", "without the option To", // package zeromq
}

// clause returns an expression that matches a clause with a Go remedy and the semicolon before it.
var clause = sync.OnceValue(func() *regexp.Regexp {
	texts := slices.Clone(goOnly)
	for _, row := range rows() {
		texts = append(texts, regexp.QuoteMeta(row[0]))
	}
	return regexp.MustCompile(`; [^;:\n]*(?:` + strings.Join(texts, "|") + `)[^;:\n]*`)
})

func unquote(literal string) string {
	text, err := strconv.Unquote(literal)
	if err != nil {
		panic("remedies.h: " + err.Error())
	}
	return text
}

// InC returns the text of an error with its remedies for a caller in C: see remedies.h.
func InC(text string) string { return replacers()[0].Replace(text) }

// InPython returns the text of an error with its remedies for a caller in Python: see remedies.h.
func InPython(text string) string { return replacers()[1].Replace(text) }

// WithoutRemedies returns the text of an error without the clauses that have a remedy of remedies.h. A clause begins
// after a semicolon, and ends before the next semicolon, colon or end of a line.
func WithoutRemedies(text string) string { return clause().ReplaceAllString(text, "") }
