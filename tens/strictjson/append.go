package strictjson

// AppendString appends text, which must be UTF-8, as a JSON string. It escapes only the characters that must be escaped,
// in the same form as the C++ implementation of ZIO.
func AppendString(dst []byte, text string) []byte {
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
