//go:build cgo && (linux || darwin)

package files_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/dlbridge/dlbridge/bridge/files"
	"github.com/dlbridge/dlbridge/dlpack"
)

// This example writes a file of safetensors, and reads a tensor in the memory of the file.
func Example() {
	folder, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "model.safetensors")

	weight, err := dlpack.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	if err != nil {
		log.Fatal(err)
	}
	defer weight.Close()
	err = files.Write(path, []files.Named{{Name: "weight", Tensor: weight}}, files.Metadata(map[string]string{"format": "pt"}))
	if err != nil {
		log.Fatal(err)
	}

	f, err := files.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	for _, e := range f.Entries() {
		fmt.Println(e.Name, e.Type, e.Shape, e.Size, "bytes")
	}
	t, err := f.Tensor("weight")
	if err != nil {
		log.Fatal(err)
	}
	defer t.Close()
	fmt.Println(t)
	// Output:
	// weight F32 [2 3] 24 bytes
	// float32[2 3] on cpu, read-only
	// [[1 2 3]
	//  [4 5 6]]
}
