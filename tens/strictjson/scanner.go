package strictjson

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxDepth is the largest depth of nested arrays and objects, including the outermost one.
const MaxDepth = 256

// A Scanner reads one JSON text from its beginning to its end. It recurses at most [MaxDepth] levels deep. Its time is
// linear in the text, except for sorting the names of large objects.
//
// Err is the first error. After an error the scanner stands at the end of the text, so that loops over members and
// elements end. Callers therefore need to check Err only after the last read. If Err is set, the values that were read
// have no meaning.
type Scanner struct {
	Data  []byte
	Pos   int
	Depth int // number of open arrays and objects at Pos; set it at the start if the text will be nested in others
	Err   error

	Name   []byte // the name that Member read, decoded
	NameAt int    // index in Data of the quote before that name
	names  []name // the names that Once noted in all open objects, the outermost object first
	opened bool   // Open was just called: no comma precedes the next member or element
}

type name struct {
	text []byte
	at   int // see NameAt
}

// fewNames is the largest number of names for which Once compares a name with all others of its object. The names of a
// larger object are sorted at its end (see Leave).
const fewNames = 16

// Fail sets Err and ends the reading, unless there was an error before.
func (s *Scanner) Fail(err error) {
	if s.Err == nil {
		s.Err = err
	}
	s.Pos, s.opened = len(s.Data), false
}

// syntax fails because the text is not JSON at s.Pos. wanted describes the expected text.
func (s *Scanner) syntax(wanted string) {
	found := "end of text"
	if s.Pos < len(s.Data) {
		_, n := utf8.DecodeRune(s.Data[s.Pos:])
		found = Quote(s.Data[s.Pos : s.Pos+n])
	}
	s.Fail(&Error{ErrSyntax, s.Pos, found + " instead of " + wanted})
}

// Document reads all of the text, which must be one object, and calls member for each member. The scanner then stands at
// the value. member must read the value, and call [Scanner.Once] for a name that must be unique. Document returns s.Err; it
// is [ErrNotObject] if the text is another JSON value.
func (s *Scanner) Document(member func()) error {
	if s.Peek() != '{' {
		value := s.Raw()
		s.End()
		s.Fail(&Error{ErrNotObject, 0, Quote(value)})
		return s.Err
	}
	s.Open()
	for s.Member() {
		member()
	}
	s.Leave(0)
	s.End()
	return s.Err
}

// Peek skips white space and returns the next byte, or 0 at the end of the text.
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

// End fails if there is more than white space left.
func (s *Scanner) End() {
	if s.Peek(); s.Pos < len(s.Data) {
		s.syntax("the end of text")
	}
}

// Open reads the opening bracket or brace at s.Pos. [Scanner.Element] or [Scanner.Member] reads the closing one.
func (s *Scanner) Open() {
	if s.Depth >= MaxDepth {
		s.Fail(&Error{ErrTooDeep, s.Pos, "more than " + strconv.Itoa(MaxDepth) + " levels"})
		return
	}
	s.Depth++
	s.Pos++
	s.opened = true
}

// next moves to the next member or element, after its comma; the first one has no comma. If there is no next one, it
// reads the closing bracket and returns false. wanted is for the error.
func (s *Scanner) next(closing byte, wanted string) bool {
	c, first := s.Peek(), s.opened
	if c == ',' && !first {
		s.Pos++
		return true
	}
	s.opened = false
	if c == closing {
		s.Depth--
		s.Pos++
		return false
	}
	if !first {
		s.syntax(wanted)
	}
	return first
}

// Element moves to the next element of an array, or to the white space before it. If there is no further element, it
// reads the closing bracket and returns false.
func (s *Scanner) Element() bool { return s.next(']', "',' or ']'") }

// Member reads the next name of an object into s.Name and moves to its value, or to the white space before it. If there
// is no further member, it reads the closing brace and returns false.
func (s *Scanner) Member() bool {
	if !s.next('}', "',' or '}'") {
		return false
	}
	if s.Peek() != '"' {
		s.syntax("a name")
		return false
	}
	s.NameAt = s.Pos
	data, start := s.Data, s.Pos+1
	if i := skipPlain(data, start); i+1 < len(data) && data[i] == '"' && data[i+1] == ':' {
		s.Name, s.Pos = data[start:i:i], i+2 // most names have no escapes, and no space before the colon
		return true
	}
	s.Name = s.Text()
	if s.Peek() != ':' {
		s.syntax("':'")
		return false
	}
	s.Pos++
	return true
}

// Names returns the number of noted names. Its result just after an object was opened is the base for [Scanner.Once]
// and [Scanner.Leave].
func (s *Scanner) Names() int { return len(s.names) }

// Once notes s.Name as a name of the object whose names begin at base. It fails for a duplicate name. If the object has
// more than 16 names, [Scanner.Leave] fails instead.
func (s *Scanner) Once(base int) {
	if len(s.names)-base < fewNames {
		for _, n := range s.names[base:] {
			if bytes.Equal(n.text, s.Name) {
				s.Duplicate()
				return
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
}

// Leave removes the names of an object that has ended. If the object has more than 16 names, Leave fails if two of them
// are equal.
func (s *Scanner) Leave(base int) {
	if names := s.names[base:]; len(names) > fewNames {
		slices.SortFunc(names, func(a, b name) int {
			return cmp.Or(bytes.Compare(a.text, b.text), a.at-b.at)
		})
		for i := 1; i < len(names); i++ {
			if bytes.Equal(names[i-1].text, names[i].text) {
				s.duplicate(names[i])
				break
			}
		}
	}
	s.names = s.names[:base]
}

func (s *Scanner) duplicate(n name) { s.Fail(&Error{ErrDuplicateName, n.at, Quote(n.text)}) }

// Duplicate fails because the name that was just read is a duplicate.
func (s *Scanner) Duplicate() { s.duplicate(name{s.Name, s.NameAt}) }

// Grow returns the items list[from:] in new memory with capacity for more. It does not copy the items before
// list[from], because they belong to slices that were returned before. least is the smallest number of bytes of text
// for an item.
//
// A list of 16 items or more gets capacity for the rest of the text. Grow assumes that the rest is like the text so
// far, but never adds capacity for more items than the rest can hold. Growing by a constant factor would take several
// times the memory. The items of a text must be in few such lists, because each list may get capacity for the whole
// rest.
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

// The smallest number of bytes of text for a member of an object, and for an element of an array, with the comma after
// it.
const (
	LeastMember  = len(`"":0,`)
	LeastElement = len(`0,`)
)

// Raw reads a value and returns its text.
func (s *Scanner) Raw() []byte {
	s.Peek()
	start := s.Pos
	s.Value()
	return s.Data[start:s.Pos:s.Pos]
}

// Value skips a value of any type. It fails if an object in it has duplicate names.
func (s *Scanner) Value() {
	switch s.Peek() {
	case '"':
		s.quoted()
	case '{':
		s.Open()
		base := len(s.names)
		for s.Member() {
			s.Once(base)
			s.Value()
		}
		s.Leave(base)
	case '[':
		s.Open()
		for s.Element() {
			s.Value()
		}
	case 't':
		s.Literal("true")
	case 'f':
		s.Literal("false")
	case 'n':
		s.Literal("null")
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		s.Number()
	default:
		s.syntax("a value")
	}
}

// Literal skips word, which is true, false or null.
func (s *Scanner) Literal(word string) {
	if !bytes.HasPrefix(s.Data[s.Pos:], []byte(word)) {
		s.syntax("a value")
		return
	}
	s.Pos += len(word)
}

// Number skips a number. plain reports whether it is an integer without fraction and exponent whose absolute value is
// less than 1<<63. If so, value is the integer.
func (s *Scanner) Number() (value int64, plain bool) {
	data, start := s.Data, s.Pos
	negative := data[start] == '-'
	if negative {
		start++
	}
	i := start
	for ; i < len(data) && IsDigit(data[i]); i++ {
		value = value*10 + int64(data[i]-'0')
	}
	s.Pos = i
	plain = true
	switch n := i - start; {
	case n == 0:
		s.syntax("a digit")
	case n > 1 && data[start] == '0':
		s.Pos = start + 1
		s.syntax("the end of a number that begins with 0")
	case n >= 19: // value may have overflowed
		_, err := strconv.ParseInt(string(data[start:i]), 10, 64)
		plain = err == nil
	}
	if i < len(data) && (data[i] == '.' || data[i]|0x20 == 'e') {
		s.fraction()
		plain = false
	}
	if negative {
		value = -value
	}
	return value, plain
}

// fraction skips the fraction and the exponent of a number, if there are any.
func (s *Scanner) fraction() {
	if s.accept('.') {
		s.digits()
	}
	if s.accept('e') || s.accept('E') {
		if !s.accept('+') {
			s.accept('-')
		}
		s.digits()
	}
}

// accept skips the byte at s.Pos if it is c, and reports whether it is.
func (s *Scanner) accept(c byte) bool {
	if s.Pos == len(s.Data) || s.Data[s.Pos] != c {
		return false
	}
	s.Pos++
	return true
}

// digits skips one or more digits.
func (s *Scanner) digits() {
	start := s.Pos
	for s.Pos < len(s.Data) && IsDigit(s.Data[s.Pos]) {
		s.Pos++
	}
	if s.Pos == start {
		s.syntax("a digit")
	}
}

// plain reports which bytes are ASCII characters that stand for themselves in a string.
var plain = func() (p [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		p[c] = c != '"' && c != '\\'
	}
	return p
}()

// skipPlain returns the index of the first byte that is not plain, at i or later, or len(data).
func skipPlain(data []byte, i int) int {
	for i < len(data) && plain[data[i]] {
		i++
	}
	return i
}

// Text reads a string and returns it decoded. If it has no escapes, the result aliases s.Data.
func (s *Scanner) Text() []byte {
	inner, escaped := s.quoted()
	if escaped {
		return unescape(inner)
	}
	return inner
}

// quoted skips a string. It returns the text between the quotes, not decoded, and whether it has escapes.
func (s *Scanner) quoted() (inner []byte, escaped bool) {
	data := s.Data
	start := s.Pos + 1
	ascii := true
	for i := skipPlain(data, start); i < len(data); i = skipPlain(data, i+1) {
		switch c := data[i]; {
		case c == '"':
			inner = data[start:i:i]
			s.Pos = i + 1
			if !ascii && !utf8.Valid(inner) {
				s.Fail(&Error{ErrSyntax, start, "string that is not UTF-8"})
			}
			return inner, escaped
		case c == '\\':
			_, n := escape(data[i:])
			if n == 0 {
				s.Fail(&Error{ErrSyntax, i, Quote(data[i:min(i+6, len(data))]) + " instead of an escape"})
				return nil, false
			}
			escaped = true
			i += n - 1
		case c < ' ':
			s.Pos = i
			s.syntax("an escape")
			return nil, false
		default: // not ASCII
			ascii = false
		}
	}
	s.Pos = len(data)
	s.syntax("'\"'")
	return nil, false
}

// The letter of each two-character escape, and the character that the escape stands for.
const (
	letters  = `"\/bfnrt`
	meanings = "\"\\/\b\f\n\r\t"
)

// escape decodes the escape at the beginning of text, or the pair of escapes for two surrogates. n is its length, or 0
// for an invalid escape.
func escape(text []byte) (c rune, n int) {
	if len(text) < 2 {
		return 0, 0
	}
	if i := strings.IndexByte(letters, text[1]); i >= 0 {
		return rune(meanings[i]), 2
	}
	c = hex4(text[1:])
	switch {
	case c < 0:
		return 0, 0
	case !utf16.IsSurrogate(c):
		return c, 6
	case len(text) >= 12 && text[6] == '\\':
		if c = utf16.DecodeRune(c, hex4(text[7:])); c != utf8.RuneError {
			return c, 12
		}
	}
	return 0, 0
}

// unescape decodes the text between the quotes of a string, after quoted. Another thread may have changed the text since
// then, so unescape must not rely on valid escapes.
func unescape(inner []byte) []byte {
	out := make([]byte, 0, len(inner))
	for i := 0; i < len(inner); {
		if inner[i] == '\\' {
			if c, n := escape(inner[i:]); n > 0 { // otherwise another thread has changed the text
				out = utf8.AppendRune(out, c)
				i += n
				continue
			}
		}
		out = append(out, inner[i])
		i++
	}
	return out
}

// hex4 returns the number in text, an escape without its backslash: u and four hexadecimal digits. It returns -1 for
// any other text.
func hex4(text []byte) rune {
	if len(text) < 5 || text[0] != 'u' {
		return -1
	}
	u, err := strconv.ParseUint(string(text[1:5]), 16, 32)
	if err != nil {
		return -1
	}
	return rune(u)
}

// IsDigit reports whether c is an ASCII digit.
func IsDigit(c byte) bool { return c-'0' < 10 }
