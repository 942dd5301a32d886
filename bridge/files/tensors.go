//go:build cgo && (linux || darwin)

package files

import (
	"fmt"
	"io"

	"github.com/dlbridge/dlbridge/bridge/gguf"
	"github.com/dlbridge/dlbridge/bridge/npy"
	"github.com/dlbridge/dlbridge/bridge/safetensors"
	"github.com/dlbridge/dlbridge/dlpack"
)

// tensorOf returns the tensor of a description in the memory of a file, or a copy if Entry.Copied is not empty.
func tensorOf(view any, memory *dlpack.Tensor) (*dlpack.Tensor, error) {
	switch v := view.(type) {
	case *safetensors.View:
		return v.TensorFrom(memory)
	case *gguf.View:
		return v.TensorFrom(memory)
	case *npy.View:
		return v.TensorFrom(memory)
	}
	panic(fmt.Sprintf("files: a description of type %T", view))
}

// writers write files of each format that can be written.
var writers = map[Format]func(w io.Writer, tensors []Named, o writing) error{
	Safetensors: writeSafetensors,
	NPY:         writeNPY,
	NPZ:         writeNPZ,
}

func writeSafetensors(w io.Writer, tensors []Named, o writing) error {
	byName := make(map[string]*dlpack.Tensor, len(tensors))
	for _, t := range tensors {
		byName[t.Name] = t.Tensor
	}
	_, err := safetensors.WriteTensors(w, byName, o.metadata, safetensors.Align(o.align))
	return err
}

func writeNPY(w io.Writer, tensors []Named, o writing) error {
	if len(tensors) != 1 {
		return fmt.Errorf("there are %d tensors, but an npy file has one: %w", len(tensors), ErrFormat)
	}
	return npy.WriteTensor(w, tensors[0].Tensor)
}

func writeNPZ(w io.Writer, tensors []Named, _ writing) error { return npy.WriteZip(w, tensors) }

// Tensor returns a tensor in the memory of the file, without reading it. It is read-only unless the file was opened
// with [Writable]. It is aligned to its type only if Entry.Aligned is set; [File.Copy] always returns an aligned
// tensor. If Entry.Copied is not empty, the result is a copy instead, which is aligned and may be written to.
//
// If another program makes the file shorter, reading a lost page ends the process (SIGBUS), as in every program that
// maps files. [File.Copy] returns an error instead.
//
// Ownership: the caller closes the tensor. Lifetime: the tensor and its exports keep the mapping, even after Close of
// the File and after the file was deleted. Threads: any. On error: [elements.ErrNoName]; [ErrChanged] if a copy is made
// and the file has become shorter; [dlpack.ErrClosed], [dlpack.ErrMemory], and those of the package of the format.
func (f *File) Tensor(name string) (t *dlpack.Tensor, err error) {
	err = f.with(name, func(_ *Entry, of *entry) error {
		return of.part.reading(func() (err error) {
			t, err = tensorOf(of.view, of.part.memory)
			return err
		})
	})
	return t, err
}

// Copy returns a copy of a tensor in new memory. The copy may be written to, and is aligned to [dlpack.AllocAlignment]
// bytes. Copy reads the file and not the mapping, unless Entry.Copied is set. It returns an error if the file has
// become shorter.
//
// Ownership: the caller closes the tensor. Lifetime: until its Close. Threads: any. On error: [elements.ErrNoName]; [io.ErrUnexpectedEOF] or
// [ErrChanged] if the file has become shorter; [dlpack.ErrMemory], [dlpack.ErrClosed], those of package os, and those of the package of
// the format.
func (f *File) Copy(name string) (c *dlpack.Tensor, err error) {
	err = f.with(name, func(e *Entry, of *entry) error {
		return of.part.reading(func() error {
			t, err := tensorOf(of.view, of.part.memory)
			if err != nil || e.Copied != "" {
				c = t
				return err
			}
			defer t.Close() // a view; its elements are not read
			c, err = of.part.copied(t, e)
			return err
		})
	})
	return c, err
}

// copied returns a copy of t in the same layout. t lies in the file.
func (p *part) copied(t *dlpack.Tensor, e *Entry) (*dlpack.Tensor, error) {
	memory, err := dlpack.New(dlpack.Uint8, e.Size)
	if err != nil {
		return nil, err
	}
	defer memory.Close()
	if err := dlpack.Use(memory, func(data []byte) error { return p.readAt(data, e.Offset) }); err != nil {
		return nil, err
	}
	padded := t.Flags()&dlpack.SubbytePadded != 0
	return memory.View(dlpack.Spec{DType: t.DType(), Shape: t.Shape(), Strides: t.Strides(), Padded: padded, Copied: true})
}

// Tensors returns all tensors of the file by name, each as [File.Tensor] returns it.
//
// Ownership: the caller closes the tensors. Lifetime, Threads: as [File.Tensor]. On error: as [File.Tensor]; no tensor stays open.
func (f *File) Tensors() (map[string]*dlpack.Tensor, error) {
	all := make(map[string]*dlpack.Tensor, len(f.Entries()))
	for _, e := range f.Entries() {
		t, err := f.Tensor(e.Name)
		if err != nil {
			for _, t := range all {
				t.Close()
			}
			return nil, err
		}
		all[e.Name] = t
	}
	return all, nil
}
