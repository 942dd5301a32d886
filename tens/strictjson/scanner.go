package strictjson

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf8"
)

// MaxDepth is how deep arrays and objects may be nested, the outermost one included.
const MaxDepth = 256

// A Scanner reads one JSON text from its beginning to its end. It recurses at most [MaxDepth] levels deep, and takes
// time linear in the text except for sorting the names of large objects.
type Scanner struct {
	Data  []byte
	Pos   int
	Depth int // of nesting at Pos; a caller sets it if the text will stand inside another one

	Name   []byte // the name that Member has read, decoded
	NameAt int    // where that name begins
	names  []name // the names so far of all open objects, outermost first
}

type name struct {
	text []byte
	at   int
}

// fewNames is how many names of an object are compared each with each.
const fewNames = 16

// syntax returns the error of text that is not JSON at s.Pos.
func (s *Scanner) syntax(wanted string) *Error {
	if s.Pos >= len(s.Data) {
		return &Error{ErrSyntax, s.Pos, "end of text instead of " + wanted}
	}
	_, n := utf8.DecodeRune(s.Data[s.Pos:])
	return &Error{ErrSyntax, s.Pos, Quote(s.Data[s.Pos:s.Pos+n]) + " instead of " + wanted}
}

// Document reads all of the text, which must be one object, and calls member for each member, at whose value the scanner
// then stands. member must read the value, and calls [Scanner.Once] for a name that must be unique.
func (s *Scanner) Document(member func() error) error {
	if err := s.OpenDocument(); err != nil {
		return err
	}
	for first := true; ; first = false {
		more, err := s.Member(first)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if err := member(); err != nil {
			return err
		}
	}
	if err := s.Leave(0); err != nil {
		return err
	}
	return s.End()
}

// OpenDocument reads the opening brace of a text that must be one object. The error for another JSON value is
// [ErrNotObject].
func (s *Scanner) OpenDocument() error {
	if s.Peek() == '{' {
		return s.Open()
	}
	value, err := s.Raw()
	if err != nil {
		return err
	}
	if err := s.End(); err != nil {
		return err
	}
	return &Error{ErrNotObject, 0, Quote(value)}
}

// Peek skips white space and returns the byte that follows, 0 at the end of the text.
func (s *Scanner) Peek() byte {
	if s.Pos < len(s.Data) && s.Data[s.Pos] > ' ' {
		return s.Data[s.Pos]
	}
	return s.skip()
}

func (s *Scanner) skip() byte {
	for s.Pos < len(s.Data) {
		switch c := s.Data[s.Pos]; c {
		case ' ', '\t', '\n', '\r':
			s.Pos++
		default:
			return c
		}
	}
	return 0
}

// End returns an error unless only white space follows.
func (s *Scanner) End() error {
	s.Peek()
	if s.Pos < len(s.Data) {
		return s.syntax("the end of text")
	}
	return nil
}

// Open reads the bracket at s.Pos and close the one that ends what it began.
func (s *Scanner) Open() error {
	if s.Depth >= MaxDepth {
		return &Error{ErrTooDeep, s.Pos, "more than " + strconv.Itoa(MaxDepth) + " levels"}
	}
	s.Depth++
	s.Pos++
	return nil
}

// close reads the closing bracket or brace at s.Pos.
func (s *Scanner) close() {
	s.Depth--
	s.Pos++
}

// Element moves to the next element of an array, or to the white space before it. If there is none, it reads the closing
// bracket and returns false.
func (s *Scanner) Element(first bool) (more bool, err error) {
	c := s.Peek()
	if c == ']' {
		s.close()
		return false, nil
	}
	if !first {
		if c != ',' {
			return false, s.syntax("',' or ']'")
		}
		s.Pos++
	}
	return true, nil
}

// Member reads the next name of an object into s.Name and moves to its value, or to the white space before it. If there
// is none, it reads the closing brace and returns false.
func (s *Scanner) Member(first bool) (more bool, err error) {
	c := s.Peek()
	if c == '}' {
		s.close()
		return false, nil
	}
	if !first {
		if c != ',' {
			return false, s.syntax("',' or '}'")
		}
		s.Pos++
		c = s.Peek()
	}
	if c != '"' {
		return false, s.syntax("a name")
	}
	s.NameAt = s.Pos
	data, start := s.Data, s.Pos+1
	if i := skipPlain(data, start); i+1 < len(data) && data[i] == '"' && data[i+1] == ':' {
		s.Name, s.Pos = data[start:i:i], i+2 // as most are
		return true, nil
	}
	if s.Name, err = s.Text(); err != nil {
		return false, err
	}
	if s.Peek() != ':' {
		return false, s.syntax("':'")
	}
	s.Pos++
	return true, nil
}

// Names returns how many names are noted: the base that [Scanner.Once] and [Scanner.Leave] expect for an object that has
// just been opened.
func (s *Scanner) Names() int { return len(s.names) }

// Once notes s.Name as a name of the object whose names begin at base. A duplicate is an error, of this call or, in an
// object of many names, of Leave.
func (s *Scanner) Once(base int) error {
	if len(s.names)-base < fewNames {
		for _, n := range s.names[base:] {
			if bytes.Equal(n.text, s.Name) {
				return s.Duplicate()
			}
		}
	}
	if s.names == nil {
		s.names = make([]name, 0, fewNames/2)
	}
	if len(s.names) == cap(s.names) {
		s.names = Grow(s, s.names, 0, LeastMember)
	}
	s.names = append(s.names, name{s.Name, s.NameAt})
	return nil
}

// Leave forgets the names of an object that has ended.
func (s *Scanner) Leave(base int) error {
	if names := s.names[base:]; len(names) > fewNames {
		slices.SortFunc(names, func(a, b name) int {
			if c := bytes.Compare(a.text, b.text); c != 0 {
				return c
			}
			return a.at - b.at
		})
		for i := 1; i < len(names); i++ {
			if bytes.Equal(names[i-1].text, names[i].text) {
				return duplicate(names[i].at, names[i].text)
			}
		}
	}
	s.names = s.names[:base]
	return nil
}

func duplicate(at int, text []byte) *Error { return &Error{ErrDuplicateName, at, Quote(text)} }

// Duplicate returns the error of a second member with the name that was just read.
func (s *Scanner) Duplicate() *Error { return duplicate(s.NameAt, s.Name) }

// Grow returns the items list[from:] in new memory with capacity for more. The items before from stay where they are,
// because others refer to them. least is the fewest bytes of text that an item takes.
//
// A long list gets capacity for the rest of the text, under the assumption that the rest is like the text so far, and never
// for more items than the rest can hold. Growing by a constant factor would take several times the memory. A text must
// have few such lists, since each may get capacity for all of the rest.
func Grow[T any](s *Scanner, list []T, from, least int) []T {
	const short = 16
	n := len(list)
	if n < short {
		return append(make([]T, 0, max(2*n, 1)), list[from:]...)
	}
	rest := len(s.Data) - s.Pos
	likely := int(1.125 * float64(n) * float64(rest) / float64(s.Pos))
	list = list[from:]
	return append(make([]T, 0, 1+min(n+max(n, likely), len(list)+rest/least)), list...)
}

// The fewest bytes of text that a member of an object and an element of an array take, with a comma.
const (
	LeastMember  = len(`"":0,`)
	LeastElement = len(`0,`)
)

// Raw reads a value and returns its text.
func (s *Scanner) Raw() ([]byte, error) {
	s.Peek()
	start := s.Pos
	if err := s.Value(); err != nil {
		return nil, err
	}
	return s.Data[start:s.Pos:s.Pos], nil
}

// Value reads over any value.
func (s *Scanner) Value() error {
	switch c := s.Peek(); c {
	case '"':
		_, _, err := s.quoted()
		return err
	case '{':
		return s.object()
	case '[':
		return s.array()
	case 't':
		return s.Literal("true")
	case 'f':
		return s.Literal("false")
	case 'n':
		return s.Literal("null")
	default:
		if c != '-' && !IsDigit(c) {
			return s.syntax("a value")
		}
		_, _, err := s.Number()
		return err
	}
}

func (s *Scanner) object() error {
	if err := s.Open(); err != nil {
		return err
	}
	base := len(s.names)
	for first := true; ; first = false {
		more, err := s.Member(first)
		if err != nil {
			return err
		}
		if !more {
			return s.Leave(base)
		}
		if err := s.Once(base); err != nil {
			return err
		}
		if err := s.Value(); err != nil {
			return err
		}
	}
}

func (s *Scanner) array() error {
	if err := s.Open(); err != nil {
		return err
	}
	for first := true; ; first = false {
		more, err := s.Element(first)
		if err != nil || !more {
			return err
		}
		if err := s.Value(); err != nil {
			return err
		}
	}
}

func (s *Scanner) Literal(word string) error {
	if !bytes.HasPrefix(s.Data[s.Pos:], []byte(word)) {
		return s.syntax("a value")
	}
	s.Pos += len(word)
	return nil
}

// Number reads over a number. One that is a plain integer, without fraction and exponent, comes with its
// Value when that fits into 64 bits.
func (s *Scanner) Number() (value int64, plain bool, err error) {
	data, i := s.Data, s.Pos
	negative := data[i] == '-'
	if negative {
		i++
	}
	start := i
	for ; i < len(data) && IsDigit(data[i]); i++ {
		value = value*10 + int64(data[i]-'0')
	}
	s.Pos = i
	plain = true
	switch n := i - start; {
	case n == 0:
		return 0, false, s.syntax("a digit")
	case n > 1 && data[start] == '0':
		s.Pos = start + 1
		return 0, false, s.syntax("the end of a number that begins with 0")
	case n >= 19: // value may have overflowed
		value, err = strconv.ParseInt(string(data[start:i]), 10, 64)
		plain = err == nil
	}
	if i < len(data) && (data[i] == '.' || data[i]|0x20 == 'e') {
		return 0, false, s.fraction()
	}
	if negative {
		value = -value
	}
	return value, plain, nil
}

// fraction reads over the fraction and the exponent of a number, at least one of which is present.
func (s *Scanner) fraction() error {
	if s.Data[s.Pos] == '.' {
		s.Pos++
		if err := s.digits(); err != nil {
			return err
		}
	}
	if s.Pos < len(s.Data) && s.Data[s.Pos]|0x20 == 'e' {
		s.Pos++
		if s.Pos < len(s.Data) && (s.Data[s.Pos] == '+' || s.Data[s.Pos] == '-') {
			s.Pos++
		}
		return s.digits()
	}
	return nil
}

func (s *Scanner) digits() error {
	start := s.Pos
	for s.Pos < len(s.Data) && IsDigit(s.Data[s.Pos]) {
		s.Pos++
	}
	if s.Pos == start {
		return s.syntax("a digit")
	}
	return nil
}

// plain reports which bytes are ASCII characters that stand for themselves in a string.
var plain = func() (p [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		p[c] = c != '"' && c != '\\'
	}
	return p
}()

// skipPlain returns the index of the first character from i on that is not plain.
func skipPlain(data []byte, i int) int {
	for i <= len(data)-8 {
		if special := specials(binary.LittleEndian.Uint64(data[i:])); special != 0 {
			return i + bits.TrailingZeros64(special)/8
		}
		i += 8
	}
	for i < len(data) && plain[data[i]] {
		i++
	}
	return i
}

// specials returns a word in which the lowest bit that is set is the highest bit of the first byte that is not plain. Bits
// above it may be set too.
func specials(eight uint64) uint64 {
	const each, high = 0x0101010101010101, 0x8080808080808080
	quote, escape := eight^each*'"', eight^each*'\\'
	// The lowest borrow of a subtraction starts at a byte that is smaller than what is subtracted from it, and such bytes are
	// among those searched for. So the lowest byte that is reported is right. Bytes above it may be wrong.
	return (eight | (eight-each*' ')&^eight | (quote-each)&^quote | (escape-each)&^escape) & high
}

// Text reads a string and returns it decoded. Without escapes the result aliases s.Data.
func (s *Scanner) Text() ([]byte, error) {
	inner, escaped, err := s.quoted()
	if err != nil || !escaped {
		return inner, err
	}
	return unescape(inner), nil
}

// quoted reads over a string and returns the text between its quotes.
func (s *Scanner) quoted() (inner []byte, escaped bool, err error) {
	data := s.Data
	start := s.Pos + 1
	ascii := true
	for i := skipPlain(data, start); i < len(data); i = skipPlain(data, i+1) {
		switch c := data[i]; {
		case c == '"':
			inner = data[start:i:i]
			if !ascii && !utf8.Valid(inner) {
				return nil, false, &Error{ErrSyntax, start, "string that is not UTF-8"}
			}
			s.Pos = i + 1
			return inner, escaped, nil
		case c == '\\':
			n := escape(data[i:])
			if n == 0 {
				return nil, false, &Error{ErrSyntax, i, Quote(data[i:min(i+6, len(data))]) + " instead of an escape"}
			}
			escaped = true
			i += n - 1
		case c < ' ':
			s.Pos = i
			return nil, false, s.syntax("an escape")
		default: // not ASCII
			ascii = false
		}
	}
	s.Pos = len(data)
	return nil, false, s.syntax("'\"'")
}

// escape returns the length of the escape, or pair of surrogate escapes, at the beginning of text, and 0 if there is none.
func escape(text []byte) int {
	if len(text) < 2 {
		return 0
	}
	switch text[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		switch u := hex4(text[2:]); {
		case u < 0, isLowSurrogate(u):
			return 0
		case !isHighSurrogate(u):
			return 6
		case len(text) >= 12 && text[6] == '\\' && text[7] == 'u' && isLowSurrogate(hex4(text[8:])):
			return 12
		}
	}
	return 0
}

// unescape decodes the text between the quotes of a string that quoted has read. Another thread may have changed the text
// since then, so that it must not rely on the escapes being valid.
func unescape(inner []byte) []byte {
	out := make([]byte, 0, len(inner))
	for i := 0; i < len(inner); {
		if inner[i] != '\\' || i+1 == len(inner) { // a final backslash: the text has changed
			out = append(out, inner[i])
			i++
			continue
		}
		n := max(escape(inner[i:]), 1) // 0: the text has changed
		switch c := inner[i+1]; c {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			u := hex4(inner[i+2:])
			if n == 12 {
				u = 0x10000 + (u-0xd800)<<10 + hex4(inner[i+8:]) - 0xdc00
			}
			out = utf8.AppendRune(out, u)
		default:
			out = append(out, c)
		}
		i += n
	}
	return out
}

// hex4 returns the number that the first four hexadecimal digits of text stand for, and -1 if there are no four.
func hex4(text []byte) rune {
	if len(text) < 4 {
		return -1
	}
	var u rune
	for _, c := range text[:4] {
		switch {
		case IsDigit(c):
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return -1
		}
		u = u<<4 | rune(c)
	}
	return u
}

// IsDigit reports whether c is an ASCII digit.
func IsDigit(c byte) bool         { return c-'0' < 10 }
func isHighSurrogate(u rune) bool { return u>>10 == 0xd800>>10 }
func isLowSurrogate(u rune) bool  { return u>>10 == 0xdc00>>10 }
