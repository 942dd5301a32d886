//go:build cgo && (linux || darwin)

package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/internal/errtext"
	"github.com/dlbridge/dlbridge/bridge/npy"
)

// Named is a tensor and its name in a file. Package npy has the same type for the members of an npz file.
type Named = npy.Named

// A WriteOption changes how a file is written.
type WriteOption func(*writing)

type writing struct {
	format   Format
	metadata map[string]string
	align    int
	progress func(written, total int64) error
}

// InFormat chooses the format of a file. Without this option, the extension of the file's name chooses the format:
// .safetensors, .npy or .npz.
func InFormat(format Format) WriteOption { return func(w *writing) { w.format = format } }

// Metadata writes texts into a file of safetensors.
func Metadata(texts map[string]string) WriteOption { return func(w *writing) { w.metadata = texts } }

// Align aligns the tensors of a file of safetensors to n bytes where the format allows it, like Align of package
// safetensors.
func Align(n int) WriteOption { return func(w *writing) { w.align = n } }

// Progress calls f repeatedly while a file is written, with the number of bytes written so far and the number of bytes
// of all tensors. The small headers count as written. In the last call both numbers are equal, but the file is not on
// the disk yet. If f returns an error, [Write] stops and returns that error.
func Progress(f func(written, total int64) error) WriteOption {
	return func(w *writing) { w.progress = f }
}

// Write writes a file with the given tensors, in any layout. It writes to a temporary file in the same folder,
// .dlbridge-….tmp, waits until this file is on the disk, and then renames it to path. So a file at path is always
// complete, and tensors of the old file stay unchanged. The new file has the permissions of the old one.
//
// Ownership: the tensors stay the caller's. Lifetime: none. Threads: any, while nobody writes to the tensors. On error:
// the old file stays unchanged, and no temporary file is left. There is one exception: the last step writes the folder
// to the disk. If this step fails, the new file is already in place. The errors are [ErrKind] for a path that names a
// directory, device or FIFO; [ErrChanged] or [syscall.EFAULT] if the memory of a row-major tensor can no longer be read
// (if a tensor must be copied because of its layout, SIGBUS ends the process); [ErrFormat]; [elements.ErrDuplicate]; the
// error that the function of [Progress] returns; and errors of package os and of the format's package.
func Write(path string, tensors []Named, options ...WriteOption) error {
	w := writing{format: Format(strings.TrimPrefix(filepath.Ext(path), "."))}
	var err error
	total, names := int64(0), make(map[string]bool, len(tensors))
	for _, t := range tensors {
		total += t.Tensor.NumBytes()
		if names[t.Name] {
			err = fmt.Errorf("two tensors have the name %s: %w", errtext.Quote(t.Name), elements.ErrDuplicate)
		}
		names[t.Name] = true
	}
	for _, option := range options {
		if option != nil { // a nil option changes nothing
			option(&w)
		}
	}
	write := writers[w.format]
	switch {
	case err != nil:
	case w.format != Safetensors && (w.metadata != nil || w.align != 0):
		err = fmt.Errorf("metadata and alignment are for safetensors, not for %.20q: %w", w.format, ErrFormat)
	case write == nil:
		err = fmt.Errorf("%.20q is not one of the formats %q; InFormat chooses one: %w", w.format, slices.Sorted(maps.Keys(writers)), ErrFormat)
	default:
		err = replace(path, func(out io.Writer) error {
			if w.progress != nil {
				out = &progress{out: out, total: total, tell: w.progress}
			}
			err := withoutFaults(func() error { return write(out, tensors, w) }, func(address uintptr) error {
				return fmt.Errorf("memory of a tensor at %#x can no longer be read: %w", address, ErrChanged)
			})
			if err == nil && w.progress != nil {
				err = w.progress(total, total)
			}
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("files: write %s: %w", path, err)
	}
	return nil
}

// progress is a writer that reports how many bytes it has written.
type progress struct {
	out            io.Writer
	written, total int64
	tell           func(written, total int64) error
}

func (p *progress) Write(data []byte) (n int, err error) {
	const step = 16 << 20
	for err == nil && n < len(data) {
		var m int
		m, err = p.out.Write(data[n:min(n+step, len(data))])
		n += m
		p.written += int64(m)
		if err == nil {
			err = p.tell(min(p.written, p.total), p.total)
		}
	}
	return n, err
}

// replace writes a file and gives it a name, even if another file has that name. The errors have no prefix.
func replace(path string, write func(out io.Writer) error) (err error) {
	if target, err := filepath.EvalSymlinks(path); err == nil { // replace the file, not the link
		path = target
	}
	old, err := os.Stat(path)
	switch {
	case err == nil:
		if err := checkKind(old); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return withoutPath(err)
	}
	folder := filepath.Dir(path)
	temporary := filepath.Join(folder, fmt.Sprintf(".dlbridge-%016x.tmp", rand.Uint64()))
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return fmt.Errorf("a temporary file in %s: %w", folder, withoutPath(err))
	}
	defer func() {
		if file != nil {
			file.Close()
			os.Remove(temporary)
		}
	}()
	if old != nil {
		if err := file.Chmod(old.Mode().Perm()); err != nil {
			return withoutPath(err)
		}
	}
	if err := write(file); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return withoutPath(err)
	}
	if err := file.Close(); err != nil {
		return withoutPath(err)
	}
	if err := os.Rename(temporary, path); err != nil {
		var e *os.LinkError
		if errors.As(err, &e) {
			err = e.Err
		}
		return err
	}
	file = nil
	return syncFolder(folder)
}

// syncFolder waits until the names of the files in a folder are on the disk. Some file systems do not need this and
// cannot do it.
func syncFolder(folder string) error {
	d, err := os.Open(folder)
	if err != nil {
		return withoutPath(err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, fs.ErrInvalid) {
		return fmt.Errorf("the file is written, but its name may not be on the disk: %w", withoutPath(err))
	}
	return nil
}
