package strictjson

import (
	"fmt"
	"strings"
)

// AppendString appends text, which must be UTF-8, as a JSON string. It escapes only the characters that require it, in
// the form of the C++ implementation of ZIO.
func AppendString(dst []byte, text string) []byte {
	dst = append(dst, '"')
	for _, c := range []byte(text) {
		if c >= ' ' && c != '"' && c != '\\' {
			dst = append(dst, c)
		} else if i := strings.IndexByte(meanings, c); i >= 0 {
			dst = append(dst, '\\', letters[i])
		} else {
			dst = fmt.Appendf(dst, `\u%04x`, c)
		}
	}
	return append(dst, '"')
}

// AppendCompact appends JSON text, which must be valid, without the white space between its tokens.
func AppendCompact(dst, text []byte) []byte {
	inside := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '"':
			inside = !inside
		case '\\':
			dst = append(dst, c)
			if i++; i == len(text) { // another thread has changed the text since it was checked
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
