package tens

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf8"
)

// MaxDepth is how deep arrays and objects of a label may be nested, the label itself included.
const MaxDepth = 256

// scanner reads JSON text (RFC 8259) once, from its beginning to its end, and is stricter than the RFC
// where that lets readers differ: names of an object are unique once their escapes are decoded, \u escapes
// of surrogates come in pairs, nesting ends at MaxDepth. Recursion goes as deep as that and no deeper; the
// time is linear in the text, but for the sorting of the names of large objects.
type scanner struct {
	data  []byte
	pos   int
	depth int

	name  []byte // decoded name of the member that was just met
	at    int    // and where it begins
	names []name // unique names of the objects that are open, outermost first

	tensor    int    // index of the tensor that is being read, or -1
	attribute string // known attribute that is being read, or ""
}

type name struct {
	text []byte
	at   int
}

// fewNames is how many names of an object are compared each with each.
const fewNames = 16

func (s *scanner) fail(kind error, at int, detail string) *Error {
	return &Error{Kind: kind, Tensor: s.tensor, Attribute: s.attribute, Offset: at, Detail: detail}
}

// syntax is the error of text that is no JSON at s.pos.
func (s *scanner) syntax(wanted string) *Error {
	if s.pos >= len(s.data) {
		return s.fail(ErrLabelNotJSON, s.pos, "end of text instead of "+wanted)
	}
	_, n := utf8.DecodeRune(s.data[s.pos:])
	return s.fail(ErrLabelNotJSON, s.pos, quote(s.data[s.pos:s.pos+n])+" instead of "+wanted)
}

// refuse reads over a value that is good JSON but not what must stand here.
func (s *scanner) refuse(kind error, wanted string) error {
	value, err := s.raw()
	if err != nil {
		return err
	}
	return s.fail(kind, s.pos-len(value), quote(value)+" instead of "+wanted)
}

// peek skips white space and returns the byte that follows, 0 at the end of the text.
func (s *scanner) peek() byte {
	if s.pos < len(s.data) && s.data[s.pos] > ' ' {
		return s.data[s.pos]
	}
	return s.skip()
}

func (s *scanner) skip() byte {
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; c {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return c
		}
	}
	return 0
}

// end checks that nothing follows.
func (s *scanner) end() error {
	s.peek()
	if s.pos < len(s.data) {
		return s.syntax("the end of text")
	}
	return nil
}

// open reads the bracket at s.pos and close the one that ends what it began.
func (s *scanner) open() error {
	if s.depth >= MaxDepth {
		return s.fail(ErrLabelTooDeep, s.pos, "more than "+strconv.Itoa(MaxDepth)+" levels")
	}
	s.depth++
	s.pos++
	return nil
}

func (s *scanner) close() {
	s.depth--
	s.pos++
}

// element goes to the next element of an array, or the white space before it, and reads the end of the
// array when there is none.
func (s *scanner) element(first bool) (more bool, err error) {
	c := s.peek()
	if c == ']' {
		s.close()
		return false, nil
	}
	if !first {
		if c != ',' {
			return false, s.syntax("',' or ']'")
		}
		s.pos++
	}
	return true, nil
}

// member reads the next name of an object into s.name and goes to its value, or the white space before it,
// and reads the end of the object when there is none.
func (s *scanner) member(first bool) (more bool, err error) {
	c := s.peek()
	if c == '}' {
		s.close()
		return false, nil
	}
	if !first {
		if c != ',' {
			return false, s.syntax("',' or '}'")
		}
		s.pos++
		c = s.peek()
	}
	if c != '"' {
		return false, s.syntax("a name")
	}
	s.at = s.pos
	data, start := s.data, s.pos+1
	if i := skipPlain(data, start); i+1 < len(data) && data[i] == '"' && data[i+1] == ':' {
		s.name, s.pos = data[start:i:i], i+2 // as most are
		return true, nil
	}
	if s.name, err = s.text(); err != nil {
		return false, err
	}
	if s.peek() != ':' {
		return false, s.syntax("':'")
	}
	s.pos++
	return true, nil
}

// once notes the name of a member of the object whose names begin at base. A name that is there already
// is an error, now or, in an object of many names, at its end.
func (s *scanner) once(base int) error {
	if len(s.names)-base < fewNames {
		for _, n := range s.names[base:] {
			if bytes.Equal(n.text, s.name) {
				return s.duplicate(s.at, s.name)
			}
		}
	}
	if s.names == nil {
		s.names = make([]name, 0, fewNames/2)
	}
	if len(s.names) == cap(s.names) {
		s.names = room(s, s.names, 0, leastMember)
	}
	s.names = append(s.names, name{s.name, s.at})
	return nil
}

// leave forgets the names of an object that has ended.
func (s *scanner) leave(base int) error {
	if names := s.names[base:]; len(names) > fewNames {
		slices.SortFunc(names, func(a, b name) int {
			if c := bytes.Compare(a.text, b.text); c != 0 {
				return c
			}
			return a.at - b.at
		})
		for i := 1; i < len(names); i++ {
			if bytes.Equal(names[i-1].text, names[i].text) {
				return s.duplicate(names[i].at, names[i].text)
			}
		}
	}
	s.names = s.names[:base]
	return nil
}

func (s *scanner) duplicate(at int, text []byte) *Error {
	return s.fail(ErrDuplicateName, at, quote(text))
}

// room returns a list that is full from an index on, with room for more, each of which has at least so many bytes of
// text. A long list gets as much as the rest of the text fills if it goes on like the text that was read, and no more
// than the rest can have: growing step by step would take several times the memory. What is before the index stays
// where it is, for those who have it. There must be few such lists in a text, since each may get room for all the rest.
func room[T any](s *scanner, list []T, from, least int) []T {
	const short = 16
	n := len(list)
	if n < short {
		return append(make([]T, 0, max(2*n, 1)), list[from:]...)
	}
	rest := len(s.data) - s.pos
	likely := int(1.125 * float64(n) * float64(rest) / float64(s.pos))
	list = list[from:]
	return append(make([]T, 0, 1+min(n+max(n, likely), len(list)+rest/least)), list...)
}

// The least text of a name with a value, of an element of an array, and of a tensor, with a comma.
const (
	leastMember  = len(`"":0,`)
	leastElement = len(`0,`)
	leastTensor  = len(`{"shape":[],"word":1,"dtype":"b"},`)
)

// raw reads a value and returns its text.
func (s *scanner) raw() ([]byte, error) {
	s.peek()
	start := s.pos
	if err := s.value(); err != nil {
		return nil, err
	}
	return s.data[start:s.pos:s.pos], nil
}

// value reads over any value.
func (s *scanner) value() error {
	switch c := s.peek(); c {
	case '"':
		_, _, err := s.quoted()
		return err
	case '{':
		return s.object()
	case '[':
		return s.array()
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	default:
		if c != '-' && !isDigit(c) {
			return s.syntax("a value")
		}
		_, _, err := s.number()
		return err
	}
}

func (s *scanner) object() error {
	if err := s.open(); err != nil {
		return err
	}
	base := len(s.names)
	for first := true; ; first = false {
		more, err := s.member(first)
		if err != nil {
			return err
		}
		if !more {
			return s.leave(base)
		}
		if err := s.once(base); err != nil {
			return err
		}
		if err := s.value(); err != nil {
			return err
		}
	}
}

func (s *scanner) array() error {
	if err := s.open(); err != nil {
		return err
	}
	for first := true; ; first = false {
		more, err := s.element(first)
		if err != nil || !more {
			return err
		}
		if err := s.value(); err != nil {
			return err
		}
	}
}

func (s *scanner) literal(word string) error {
	if !bytes.HasPrefix(s.data[s.pos:], []byte(word)) {
		return s.syntax("a value")
	}
	s.pos += len(word)
	return nil
}

// number reads over a number. One that is a plain integer, without fraction and exponent, comes with its
// value when that fits into 64 bits.
func (s *scanner) number() (value int64, plain bool, err error) {
	data, i := s.data, s.pos
	negative := data[i] == '-'
	if negative {
		i++
	}
	start := i
	for ; i < len(data) && isDigit(data[i]); i++ {
		value = value*10 + int64(data[i]-'0')
	}
	s.pos = i
	plain = true
	switch n := i - start; {
	case n == 0:
		return 0, false, s.syntax("a digit")
	case n > 1 && data[start] == '0':
		s.pos = start + 1
		return 0, false, s.syntax("the end of a number that begins with 0")
	case n >= 19: // may have wrapped
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

// fraction reads over the fraction of a number and its exponent, one of which is there.
func (s *scanner) fraction() error {
	if s.data[s.pos] == '.' {
		s.pos++
		if err := s.digits(); err != nil {
			return err
		}
	}
	if s.pos < len(s.data) && s.data[s.pos]|0x20 == 'e' {
		s.pos++
		if s.pos < len(s.data) && (s.data[s.pos] == '+' || s.data[s.pos] == '-') {
			s.pos++
		}
		return s.digits()
	}
	return nil
}

func (s *scanner) digits() error {
	start := s.pos
	for s.pos < len(s.data) && isDigit(s.data[s.pos]) {
		s.pos++
	}
	if s.pos == start {
		return s.syntax("a digit")
	}
	return nil
}

// themselves are the ASCII characters that stand for themselves in a string.
var themselves = func() (p [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		p[c] = c != '"' && c != '\\'
	}
	return p
}()

// skipPlain returns where the plain characters from i on end.
func skipPlain(data []byte, i int) int {
	for i <= len(data)-8 {
		if special := specials(binary.LittleEndian.Uint64(data[i:])); special != 0 {
			return i + bits.TrailingZeros64(special)/8
		}
		i += 8
	}
	for i < len(data) && themselves[data[i]] {
		i++
	}
	return i
}

// specials has the highest bit of the first byte set that does not stand for itself, and no bits below. What is
// above may be set too.
func specials(eight uint64) uint64 {
	const each, high = 0x0101010101010101, 0x8080808080808080
	quote, escape := eight^each*'"', eight^each*'\\'
	// The subtractions borrow from a byte that is below what is taken off, and only then from those above it.
	return (eight | (eight-each*' ')&^eight | (quote-each)&^quote | (escape-each)&^escape) & high
}

// text reads a string and returns it decoded: a piece of the text where it has no escapes.
func (s *scanner) text() ([]byte, error) {
	inner, escaped, err := s.quoted()
	if err != nil || !escaped {
		return inner, err
	}
	return unescape(inner), nil
}

// quoted reads over a string and returns what stands between its quotes.
func (s *scanner) quoted() (inner []byte, escaped bool, err error) {
	data := s.data
	start := s.pos + 1
	ascii := true
	for i := skipPlain(data, start); i < len(data); i = skipPlain(data, i+1) {
		switch c := data[i]; {
		case c == '"':
			inner = data[start:i:i]
			if !ascii && !utf8.Valid(inner) {
				return nil, false, s.fail(ErrLabelNotJSON, start, "string that is not UTF-8")
			}
			s.pos = i + 1
			return inner, escaped, nil
		case c == '\\':
			n := escape(data[i:])
			if n == 0 {
				return nil, false, s.fail(ErrLabelNotJSON, i, quote(data[i:min(i+6, len(data))])+" instead of an escape")
			}
			escaped = true
			i += n - 1
		case c < ' ':
			s.pos = i
			return nil, false, s.syntax("an escape")
		default: // not ASCII
			ascii = false
		}
	}
	s.pos = len(data)
	return nil, false, s.syntax("'\"'")
}

// escape is the size of the escape, or pair of escapes, that text begins with, 0 where it is none.
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

// unescape decodes what stands between the quotes of a string that was read over before.
func unescape(inner []byte) []byte {
	out := make([]byte, 0, len(inner))
	for i := 0; i < len(inner); {
		if inner[i] != '\\' || i+1 == len(inner) { // which no string ends with, unless another thread has changed it
			out = append(out, inner[i])
			i++
			continue
		}
		n := max(escape(inner[i:]), 1) // 0 likewise
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

// hex4 is the number that four hexadecimal digits give, -1 where text does not begin with them.
func hex4(text []byte) rune {
	if len(text) < 4 {
		return -1
	}
	var u rune
	for _, c := range text[:4] {
		switch {
		case isDigit(c):
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

func isDigit(c byte) bool         { return c-'0' < 10 }
func isHighSurrogate(u rune) bool { return u>>10 == 0xd800>>10 }
func isLowSurrogate(u rune) bool  { return u>>10 == 0xdc00>>10 }

// appendString appends text, which must be UTF-8, as a JSON string. It escapes what must be escaped, in
// the way of the C++ peer's writer.
func appendString(dst []byte, text string) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			if c < ' ' {
				dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
				continue
			}
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

// appendCompact appends JSON text, which must be good, without the white space between its tokens.
func appendCompact(dst, text []byte) []byte {
	inside := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '"':
			inside = !inside
		case '\\':
			dst = append(dst, c)
			if i++; i == len(text) { // somebody has changed it since it was checked
				return dst
			}
		case ' ', '\t', '\n', '\r':
			if !inside {
				continue
			}
		}
		dst = append(dst, text[i])
	}
	return dst
}
