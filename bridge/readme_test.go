//go:build cgo

package bridge_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/tens"
)

// story is the README's Go example, with the error handling that the README omits.
func story(frames [][]byte, send func([][]byte) error) (*bridge.Report, error) {
	msg, err := tens.Decode(frames) // frames [][]byte, as a socket delivered them
	if err != nil {
		return nil, err
	}
	ts, err := bridge.Decode(msg, bridge.Writable()) // DLPack tensors that alias the frames
	if err != nil {
		return nil, err
	}
	defer ts[0].Close()
	x, err := dlpack.Values[float32](ts[0]) // the same bytes as []float32
	if err != nil {
		return nil, err
	}
	x[0] = 42
	m, err := ts[0].Export() // a DLManagedTensorVersioned *, for C
	if err != nil {
		return nil, err
	}
	u, err := dlpack.Import(m) // and one that C handed us
	if err != nil {
		return nil, err
	}
	defer u.Close()
	out, report, err := bridge.Encode([]*dlpack.Tensor{u})
	if err != nil {
		return nil, err
	}
	err = send(out.Encode()) // the payload part is u's memory, or report says why not
	return report, err
}

func TestG87ReadmeShowsWhatStoryDoes(t *testing.T) {
	assert.Equal(t, statements(t, "../README.md", "```go", "```"), statements(t, "readme_test.go", "func story(", "}"))
}

// statements returns the lines of a file from the one that begins with first to the one that is last, without error handling and
// indentation.
func statements(t *testing.T, path, first, last string) (lines []string) {
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	inside, handling := false, false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		words := strings.Join(strings.Fields(line), " ")
		switch {
		case !inside:
			inside = strings.HasPrefix(line, first)
		case line == last:
			require.NotEmpty(t, lines)
			return lines
		case handling:
			handling = words != "}"
		case words == "if err != nil {":
			handling = true
		case !strings.HasPrefix(words, "return "):
			lines = append(lines, words)
		}
	}
	require.Failf(t, "no such lines", "%s has none from %q to %q", path, first, last)
	return nil
}

func TestG87StoryOfTheReadmeIsTrue(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	pixels, err := dlpack.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	require.NoError(t, err)
	defer pixels.Close()
	msg, _, err := bridge.Encode([]*dlpack.Tensor{pixels})
	require.NoError(t, err)
	frames := msg.Encode()

	var sent [][]byte
	report, err := story(frames, func(f [][]byte) error { sent = f; return nil })
	require.NoError(t, err)
	assert.Equal(t, []string{""}, report.Copied)
	require.Len(t, sent, 3)
	assert.Same(t, unsafe.SliceData(frames[2]), unsafe.SliceData(sent[2]))
	assert.Equal(t, frames[2], sent[2])
	values, err := dlpack.Values[float32](pixels)
	require.NoError(t, err)
	assert.Equal(t, []float32{42, 2, 3, 4, 5, 6}, values)

	_, err = story(frames[:2], nil)
	require.ErrorIs(t, err, tens.ErrPartMissing)
}

// Every test and every test file that .ci/README.md names exists.
func TestProofsThatAreNamedExist(t *testing.T) {
	text, err := os.ReadFile("../.ci/README.md")
	require.NoError(t, err)
	named := regexp.MustCompile("`((?:Test|Fuzz|test_)[A-Za-z0-9_]+(?:\\.py)?)").FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, named)
	tests := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^(?:func|def) ((?:Test|Fuzz|test_)\w+)`)
	for _, folder := range []string{"../bridge", "../dlpack", "../tens"} {
		require.NoError(t, fs.WalkDir(os.DirFS(folder), ".", func(path string, entry fs.DirEntry, err error) error {
			name := entry.Name()
			if err != nil || !strings.HasSuffix(name, "_test.go") && !strings.HasPrefix(name, "test_") {
				return err
			}
			tests[name] = true
			source, err := os.ReadFile(filepath.Join(folder, path))
			for _, test := range declared.FindAllSubmatch(source, -1) {
				tests[string(test[1])] = true
			}
			return err
		}))
	}
	for _, name := range named {
		assert.True(t, tests[name[1]], name[1])
	}
}
