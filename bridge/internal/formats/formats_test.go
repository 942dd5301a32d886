//go:build cgo

package formats_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/internal/formats"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

const root = "../../.."

// optional are the fields that a row may leave empty.
var optional = []string{"Several", "Common", "Header", "NoDType", "NoRank", "NoElements", "DecodeTo", "ReadTensor", "WriteTensor", "TooLarge", "Others", "Payloads", "Samples"}

func TestEveryFormatHasARow(t *testing.T) {
	folders := []string{"bridge"} // TENS, whose messages are read in package tens
	files := must.Do(filepath.Glob(filepath.Join(root, "bridge/*/view.go")))(t)
	for _, file := range files {
		source := must.Do(os.ReadFile(file))(t)
		if strings.Contains(string(source), "\nfunc DecodeView(") {
			folders = append(folders, "bridge/"+filepath.Base(filepath.Dir(file)))
		}
	}
	var rows []string
	for _, f := range formats.All {
		rows = append(rows, f.Folder)
		row := reflect.ValueOf(f).Elem()
		for i := range row.NumField() {
			name := row.Type().Field(i).Name
			may := slices.Contains(optional, name) || name == "InC" && f == formats.TENS
			assert.True(t, may || !row.Field(i).IsZero(), "%s: the row has no %s", f.Folder, name)
		}
	}
	assert.ElementsMatch(t, folders, rows, "each package of bridge with DecodeView in view.go is a format, and has a row: "+
		"a file bridge/internal/formats/NAME.go, which calls add. The fields of Format say what a "+
		"row needs; hostile inputs are in bridge/NAME/NAMEtest. The other tables are bridge/capi/formats.h and formats.go, "+
		"bridge/capi/testdata/formats.h and bridge/python/tests/formats.py")
}

// Each new format needs its own lines in every file that knows a format, so there should be few such files.
func TestFewFilesKnowAFormat(t *testing.T) {
	const most = 25
	files := sources(t)
	for _, f := range formats.All {
		if f == formats.TENS {
			continue
		}
		text := "(?i)" + f.Name()
		if f.Common {
			text = fmt.Sprintf(`(?i)bridge/%[1]s|dlb_%[1]s|dlbridge\.%[1]s`, f.Name())
		}
		names := regexp.MustCompile(text)
		var knowing []string
		for file, source := range files {
			if !strings.HasPrefix(file, f.Folder+"/") && names.Match(source) {
				knowing = append(knowing, file)
			}
		}
		slices.Sort(knowing)
		assert.LessOrEqual(t, len(knowing), most, "files that know %s: say \"a format\", run over a table, or move what only it needs to its folder; "+
			"the row of a format whose name is an ordinary word sets Common:\n%s",
			f.Folder, strings.Join(knowing, "\n"))
		assert.NotEmpty(t, knowing)
	}
}

// sources returns the files of the repository by path: the files that git knows or, without git, all files except build
// outputs.
func sources(t *testing.T) map[string][]byte {
	var names []string
	if out, err := exec.Command("git", "-C", root, "ls-files", "-z").Output(); err == nil {
		names = strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	} else {
		built := regexp.MustCompile(`^(\.git|build|__pycache__|\.\w+_cache|.*\.egg-info)$`)
		require.NoError(t, fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() && built.MatchString(entry.Name()) {
				return fs.SkipDir
			}
			if err == nil && entry.Type().IsRegular() {
				names = append(names, path)
			}
			return err
		}))
	}
	require.Greater(t, len(names), 500)
	files := map[string][]byte{}
	for _, name := range names {
		source, err := os.ReadFile(filepath.Join(root, name))
		if err == nil { // the file was not just deleted
			files[name] = source
		}
	}
	return files
}

// A collector is a sink that keeps all elements.
type collector struct{ elements.Elements }

func (c *collector) Memory(size int) ([]byte, error) { return make([]byte, size), nil }

func (c *collector) Begin(dtype string, shape []int64, _ int, _ bool) error {
	c.Type, c.Shape = dtype, append([]int64{}, shape...)
	return nil
}

func (c *collector) Take(values [][]byte, _ []string) { c.Values = append(c.Values, values...) }

func TestSinksGetAllElements(t *testing.T) {
	for _, f := range formats.All {
		if f.NoElements == nil {
			continue
		}
		t.Run(f.Name(), func(t *testing.T) {
			e := elements.Elements{Type: "string", Shape: []int64{50, 10}}
			for i := range 500 {
				e.Values = append(e.Values, []byte(strings.Repeat("x", i)))
			}
			data := must.Do(f.Encode(formats.Named{Elements: &e}))(t)
			var c collector
			require.NoError(t, f.DecodeTo(&c, data))
			assert.Equal(t, e, c.Elements)
		})
	}
}
