//go:build cgo

package formats_test

import (
	"os"
	"path/filepath"
	"reflect"
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
var optional = []string{"Several", "Header", "NoDType", "NoRank", "NoElements", "DecodeTo", "TooLarge", "Others", "Payloads", "Samples"}

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

// A collector is a sink that keeps what it is given.
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
