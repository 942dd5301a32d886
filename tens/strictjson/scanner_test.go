package strictjson

import (
	"math/rand/v2"
	"testing"
)

// Another thread may overwrite an escape between the time when the string is scanned and the time when it is decoded.
func TestWhatIsNoEscapeAnyLongerEnds(t *testing.T) {
	for _, text := range []string{`\Z0041xy`, `\u00`, `\uzzzz`, `\ud83dxx`, `\\Z`, `ab\`, `\`} {
		if got := unescape([]byte(text)); len(got) > 3*len(text) {
			t.Fatalf("%q gives %d bytes", text, len(got))
		}
	}
}

func TestPlainCharactersEndWhereTheFirstOtherOneIs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	edges := []byte{0, 1, 0x1F, ' ', '!', '"', '#', '[', '\\', ']', 0x7E, 0x7F, 0x80, 0x81, 0xA2, 0xDC, 0xFF}
	for range 200_000 {
		data := make([]byte, r.IntN(27))
		for i := range data {
			data[i] = 'a' + byte(r.IntN(26))
			if r.IntN(6) == 0 {
				data[i] = edges[r.IntN(len(edges))]
			}
			if r.IntN(50) == 0 {
				data[i] = byte(r.Uint32())
			}
		}
		start := r.IntN(len(data) + 1)
		want := start
		for want < len(data) && data[want] >= ' ' && data[want] < 0x80 && data[want] != '"' && data[want] != '\\' {
			want++
		}
		if got := skipPlain(data, start); got != want {
			t.Fatalf("%q from %d on: %d instead of %d", data, start, got, want)
		}
	}
}
