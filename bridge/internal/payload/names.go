package payload

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/internal/errtext"
)

// Find returns the index of the tensor with the given name among the tensors of a file. nameAt returns the name of the
// tensor with an index.
//
// Errors: [elements.ErrNoName] after the name of the package.
func Find(name string, index map[string]int, nameAt func(i int) string, format string) (int, error) {
	i, ok := index[name]
	if ok {
		return i, nil
	}
	first := make([]string, min(len(index), 8))
	for i := range first {
		first[i] = errtext.Quote(nameAt(i))
	}
	return 0, fmt.Errorf("%s: %s is not one of the %d tensors in the file, which begin with %v: %w", format, errtext.Quote(name), len(index), first, elements.ErrNoName)
}

// IsRelativePath reports whether name, which is UTF-8 with forward slashes, names a file inside a folder on every system.
func IsRelativePath(name string) bool {
	return fs.ValidPath(name) && name != "." && !strings.ContainsAny(name, "\\\x00")
}
