//go:build linux || darwin

package files

import (
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/internal/errtext"
	"github.com/dlbridge/dlbridge/bridge/internal/payload"
	"github.com/dlbridge/dlbridge/dlpack"
)

// A Format is the name of a format of files.
type Format string

// An Entry describes a tensor of a file.
type Entry struct {
	Name string
	// Type is the format's own name for the element type, such as F32 in safetensors, <f4 in npy and Q4_K in GGUF.
	Type string
	// DType is the type of the tensor that [File.Tensor] returns.
	DType dlpack.DataType `json:",omitzero"`
	// Shape is the shape of the tensor. For quantised blocks, it is the shape in numbers instead of blocks.
	Shape []int64
	// Offset is the index of the first byte of the elements in the file, or of their deflated bytes if Copied is "deflated". Size is the
	// number of bytes of the tensor.
	Offset, Size int64
	// Aligned reports whether the elements are aligned to their type in a mapping of the file.
	Aligned bool
	// Copied says why [File.Tensor] returns a copy: "big-endian", or "deflated" in an npz file. It is empty if the
	// tensor is not copied.
	Copied string
	// Err says why a member of an npz file has no tensor, for example because it is an array of texts. Only Name and Path are set then.
	Err error `json:"-"`
	// Path is the path of the file.
	Path string
}

// A Field is one item of the metadata of a file. The value is a string in a file of safetensors, and any JSON value in
// an index (see [OpenSet]). For GGUF see [gguf.Entry].
type Field struct {
	Key   string
	Value any
}

// A File is an open file with tensors, or a set of such files. Its methods may be called by any goroutine.
type File struct {
	format   Format
	metadata []Field
	list     []Entry
	index    map[string]int // into list and entries

	mutex   sync.RWMutex // held while a method reads a part, so that Close does not close it
	parts   []*part
	entries []entry
	closed  bool
}

// An entry has the data from which the tensor of an Entry is made.
type entry struct {
	part *part
	view any // the description by the package of the format, which refers to the memory of part
}

// Open opens a file, maps it, and checks the descriptions of its tensors without reading the elements. The contents of
// the file decide the format, not its name.
//
// Ownership: the caller closes the File. Lifetime: tensors stay valid after Close, and after the file was deleted.
// Threads: any. On error: nothing stays open. The errors are [ErrKind]; [ErrFormat]; [ErrChanged] if the file becomes
// shorter meanwhile; [dlpack.ErrMemory]; those of package os; and those of the package of the format, which name the
// byte of the file.
func Open(path string, options ...OpenOption) (*File, error) {
	f := &File{}
	err := f.add(path, openingOf(options))
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("files: open %s: %w", path, err)
	}
	f.index = make(map[string]int, len(f.list))
	for i := range f.list {
		f.index[f.list[i].Name] = i
	}
	return f, nil
}

// add adds the tensors of a file. After an error, Close closes the parts that are open.
func (f *File) add(path string, o opening) error {
	p, err := openPart(path, o.writable)
	if err != nil {
		return err
	}
	f.parts = append(f.parts, p)
	return p.reading(func() error {
		row, err := formatOf(p.data)
		if err != nil {
			return err
		}
		switch {
		case o.writable && !row.writable:
			return fmt.Errorf("the format is %s, but only npy can be opened for writing: %w", row.name, ErrFormat)
		case o.dtype != 0 && row.name != NPY && row.name != NPZ:
			return fmt.Errorf("the format is %s, but only npy and npz files can be opened as another type: %w", row.name, ErrFormat)
		}
		f.format = row.name
		return row.parse(f, p, o)
	})
}

// grow makes room for n more tensors.
func (f *File) grow(n int) { f.list, f.entries = slices.Grow(f.list, n), slices.Grow(f.entries, n) }

// put adds a tensor. view is the argument from which tensorOf makes it.
func (f *File) put(p *part, e Entry, view any) {
	e.Path = p.path
	f.list = append(f.list, e)
	f.entries = append(f.entries, entry{p, view})
}

// Format returns the format of the file.
func (f *File) Format() Format {
	if f == nil {
		return ""
	}
	return f.format
}

// Entries returns descriptions of all tensors, in the order of the file. The slice is the File's.
func (f *File) Entries() []Entry {
	if f == nil {
		return nil
	}
	return f.list
}

// Metadata returns the metadata of a file, in the order of the file or, for safetensors, in the order of the keys. The
// slice is the File's.
func (f *File) Metadata() []Field {
	if f == nil {
		return nil
	}
	return f.metadata
}

// Find returns the description of the tensor with the given name.
//
// Errors: [elements.ErrNoName]; [elements.ErrNil] for a nil File.
func (f *File) Find(name string) (Entry, error) {
	i, err := f.find(name)
	if err != nil {
		return Entry{}, err
	}
	return f.list[i], nil
}

func (f *File) find(name string) (int, error) {
	if f == nil {
		return 0, fmt.Errorf("files: the File is %w", elements.ErrNil)
	}
	return payload.Find(name, f.index, func(i int) string { return f.list[i].Name }, "files")
}

// with calls use with a tensor, and keeps its part open during the call.
func (f *File) with(name string, use func(e *Entry, of *entry) error) error {
	i, err := f.find(name)
	if err != nil {
		return err
	}
	f.mutex.RLock()
	defer f.mutex.RUnlock()
	e := &f.list[i]
	switch {
	case f.closed:
		err = fmt.Errorf("the File is %w", dlpack.ErrClosed)
	case e.Err != nil:
		err = e.Err
	default:
		err = use(e, &f.entries[i])
	}
	if err != nil {
		return fmt.Errorf("files: %s: tensor %s: %w", e.Path, errtext.Quote(e.Name), err)
	}
	return nil
}

// AppendBytes appends the bytes of a tensor to dst, as they are in the file. It reads the file and not the mapping, so
// it returns an error if the file has become shorter.
//
// Errors: [elements.ErrNoName]; [ErrFormat] if the tensor is deflated in the file; [io.ErrUnexpectedEOF] if the file has become shorter;
// [dlpack.ErrMemory]; [dlpack.ErrClosed]; Entry.Err; those of package os. dst is then returned unchanged.
func (f *File) AppendBytes(dst []byte, name string) ([]byte, error) {
	out := dst
	err := f.with(name, func(e *Entry, of *entry) error {
		if e.Copied == deflated {
			return fmt.Errorf("the elements are deflated; File.Tensor inflates them: %w", ErrFormat)
		}
		if err := dlpack.RequireMemory(int64(len(dst)) + e.Size); err != nil {
			return err
		}
		n := len(dst)
		out = append(dst, make([]byte, e.Size)...)
		return of.part.readAt(out[n:], e.Offset)
	})
	if err != nil {
		return dst, err
	}
	return out, nil
}

// readAt reads bytes of the file, not of the mapping.
func (p *part) readAt(dst []byte, offset int64) error {
	n, err := p.file.ReadAt(dst, offset)
	if err == io.EOF {
		return fmt.Errorf("the file ends at byte %d of %d: %w: %w", offset+int64(n), p.opened.Size(), ErrChanged, io.ErrUnexpectedEOF)
	}
	return withoutPath(err)
}

// Verify returns [ErrChanged] if the file has changed since it was opened. It compares the size of the file. Unless the
// file is open for writing, it also compares the time of the last change, which many systems count in steps of some
// milliseconds. Verify looks at the open file: another file that has taken its name since, as after [Write], is no
// change.
//
// Errors: [ErrChanged], [dlpack.ErrClosed], those of package os.
func (f *File) Verify() error { return f.each((*part).verify) }

// Sync waits until all changes to the tensors of a file opened with [Writable] are on the disk. Without Sync the system
// writes them later, at a time of its choice.
//
// Errors: [dlpack.ErrClosed], those of package os.
func (f *File) Sync() error {
	return f.each(func(p *part) error { return withoutPath(p.file.Sync()) })
}

func (f *File) each(do func(p *part) error) error {
	if f == nil {
		return fmt.Errorf("files: the File is %w", elements.ErrNil)
	}
	f.mutex.RLock()
	defer f.mutex.RUnlock()
	if f.closed {
		return fmt.Errorf("files: the File is %w", dlpack.ErrClosed)
	}
	for _, p := range f.parts {
		if err := do(p); err != nil {
			return fmt.Errorf("files: %s: %w", p.path, err)
		}
	}
	return nil
}

// Close closes the file. Its tensors stay valid. The mapping ends when the last tensor is closed. Calls after the first have no effect.
//
// Ownership: ends the mapping, unless tensors use it. Lifetime: [File.Entries] and [File.Metadata] stay valid. Threads:
// any. On error: never fails; the result makes File an io.Closer.
func (f *File) Close() error {
	if f == nil {
		return nil
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	for _, p := range f.parts {
		p.close()
	}
	f.parts, f.entries, f.closed = nil, nil, true
	return nil
}
