package strictjson

import "testing"

// Another thread may overwrite an escape after the string is scanned and before it is decoded.
func TestWhatIsNoEscapeAnyLongerEnds(t *testing.T) {
	for _, text := range []string{`\Z0041xy`, `\u00`, `\uzzzz`, `\ud83dxx`, `\\Z`, `ab\`, `\`} {
		if got := unescape([]byte(text)); len(got) > 3*len(text) {
			t.Fatalf("%q gives %d bytes", text, len(got))
		}
	}
}
