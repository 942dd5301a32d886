//go:build linux || darwin

package files

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/internal/errtext"
	"github.com/dlbridge/dlbridge/bridge/safetensors"
)

// OpenSet opens all files of an index of safetensors, such as model.safetensors.index.json, as one File with the
// tensors that the index lists. A tensor is left out if the index does not list it, or lists it in another file. The
// metadata come from the index, and their numbers have the type [json.Number].
//
// Ownership, Lifetime, Threads: as [Open]. On error: as [Open]; [elements.ErrNoName] if a tensor is missing in the file that the index
// names for it; errors of [safetensors.DecodeIndex], which name the byte of the index.
func OpenSet(path string) (*File, error) {
	f := &File{index: map[string]int{}}
	if err := f.openSet(path); err != nil {
		f.Close()
		return nil, fmt.Errorf("files: open set %s: %w", path, err)
	}
	return f, nil
}

func (f *File) openSet(path string) error {
	x, err := readIndex(path)
	if err != nil {
		return err
	}
	for _, name := range slices.Compact(slices.Sorted(maps.Values(x.Files))) {
		if err := f.addPart(filepath.Join(filepath.Dir(path), filepath.FromSlash(name)), name, x); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if len(f.list) < len(x.Files) {
		for _, name := range slices.Sorted(maps.Keys(x.Files)) {
			if _, ok := f.index[name]; !ok {
				return fmt.Errorf("%s: the index lists tensor %s in this file, but the file does not have it: %w", x.Files[name], errtext.Quote(name), elements.ErrNoName)
			}
		}
	}
	f.format = Safetensors
	if f.metadata, err = fieldsOf(x.Metadata); err != nil {
		return fmt.Errorf("the metadata of the index: %w", err)
	}
	return nil
}

// addPart adds the tensors of a file of the set.
func (f *File) addPart(path, name string, x *safetensors.Index) error {
	first := len(f.list)
	if err := f.add(path, opening{}); err != nil {
		return err
	}
	if f.format != Safetensors {
		return fmt.Errorf("the format is %s, but must be safetensors: %w", f.format, ErrFormat)
	}
	n := first
	for i := first; i < len(f.list); i++ {
		if e := &f.list[i]; x.Files[e.Name] == name {
			f.list[n], f.entries[n] = *e, f.entries[i]
			f.index[e.Name] = n
			n++
		}
	}
	f.list, f.entries = f.list[:n], f.entries[:n]
	return nil
}

func readIndex(path string) (x *safetensors.Index, err error) {
	p, err := openPart(path, false)
	if err != nil {
		return nil, err
	}
	defer p.close()
	err = p.reading(func() error {
		if len(p.data) > safetensors.MaxHeader {
			return fmt.Errorf("an index of %d bytes is larger than %d: %w", len(p.data), safetensors.MaxHeader, ErrFormat)
		}
		x, err = safetensors.DecodeIndex(p.data)
		return err
	})
	return x, err
}

// fieldsOf returns the members of a JSON object, and no members for an empty text.
func fieldsOf(text []byte) (fields []Field, err error) {
	if len(text) == 0 {
		return nil, nil
	}
	values := map[string]any{}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&values); err != nil {
		return nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		fields = append(fields, Field{key, values[key]})
	}
	return fields, nil
}
