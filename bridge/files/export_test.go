//go:build linux || darwin

package files

import (
	"bytes"
	"os"
)

// ReadCut maps a file, truncates it to size bytes, and reads the whole mapping.
func ReadCut(path string, size int64) error {
	p, err := openPart(path, false)
	if err != nil {
		return err
	}
	defer p.close()
	if err := os.Truncate(path, size); err != nil {
		return err
	}
	return p.reading(func() error {
		bytes.Count(p.data, []byte{1})
		return nil
	})
}
