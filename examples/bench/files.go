package main

import (
	"math"
	"path/filepath"
	"time"

	"github.com/dlbridge/dlbridge/bridge/files"
	"github.com/dlbridge/dlbridge/dlpack"
)

// opening returns a path that opens a file, uses it and closes it.
func opening(name, file string, use func(*files.File)) path {
	return path{name: name, counted: true, run: func(n int) {
		for range n {
			f := must(files.Open(file))
			use(f)
			f.Close()
		}
	}}
}

// openings returns the paths that open the files of the folder, which python/files.py has written.
func openings(folder string) []path {
	return []path{
		opening("files_open_safetensors", filepath.Join(folder, "model.safetensors"), func(f *files.File) {
			if len(f.Entries()) != 300 {
				panic("the file has not 300 tensors")
			}
		}),
		opening("files_open_gguf", filepath.Join(folder, "vocabulary.gguf"), func(f *files.File) {
			if len(f.Metadata()) == 0 {
				panic("the file has no metadata")
			}
		}),
		opening("files_open_npy", filepath.Join(folder, "array.npy"), func(f *files.File) {
			must(f.Tensor(f.Entries()[0].Name)).Close()
		}),
	}
}

// writings times the writing of 128 MiB into the folder. The fastest of 12 times counts.
func writings(folder string) {
	large := []files.Named{{Name: "x", Tensor: touched(dlpack.Float32, 32<<20)}}
	for _, format := range []files.Format{files.Safetensors, files.NPY} {
		fastest := time.Duration(math.MaxInt64)
		for range 12 {
			start := time.Now()
			if err := files.Write(filepath.Join(folder, "written."+string(format)), large); err != nil {
				panic(err)
			}
			fastest = min(fastest, time.Since(start))
		}
		report("files_write_"+string(format), float64(fastest), "ns")
	}
}
