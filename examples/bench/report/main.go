// Command report writes the README and the picture of one benchmark run. It reads results as lines of `name value
// unit`. It reads tables as lines of fields separated by tabs. A table begins with the fields `table`, title and note.
// A row has the fields `row`, path, description, peer, `true` if the path is itself a peer, and the required ratio of
// its speed to the peer's, or 0.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"html"
	"log"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

type results map[string]float64

func main() {
	log.SetFlags(0)
	readme := flag.String("readme", "README.md", "write the report to this `file`")
	plot := flag.String("plot", "times.svg", "write the plot to this `file`")
	flag.Parse()
	r, err := read(flag.Arg(0))
	if err != nil {
		log.Fatal("report: ", err)
	}
	if err := os.WriteFile(*plot, r.plot(), 0o644); err != nil {
		log.Fatal("report: ", err)
	}
	if err := os.WriteFile(*readme, r.text(), 0o644); err != nil {
		log.Fatal("report: ", err)
	}
}

func read(file string) (results, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := results{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if fields := strings.Split(lines.Text(), "\t"); len(fields) > 1 {
			if err := describe(fields[0], fields[1:]); err != nil {
				return nil, fmt.Errorf("%s: %q: %w", file, lines.Text(), err)
			}
			continue
		}
		var name, unit string
		var value float64
		if _, err := fmt.Sscan(lines.Text(), &name, &value, &unit); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", file, lines.Text(), err)
		}
		r[name] = value
		if work, ok := strings.CutPrefix(name, "throughput_"); ok {
			if work, ok = strings.CutSuffix(work, "_2"); ok { // the line of one goroutine comes first
				r["gain_"+work] = value / r["throughput_"+work+"_1"]
			}
		}
	}
	return r, lines.Err()
}

// describe adds the table or the row of a line with tabs to tables.
func describe(kind string, fields []string) error {
	switch {
	case kind == "table" && len(fields) == 2:
		tables = append(tables, table{title: fields[0], note: fields[1]})
	case kind == "row" && len(fields) == 5:
		aim, err := strconv.ParseFloat(fields[4], 64)
		last := &tables[len(tables)-1]
		last.rows = append(last.rows, row{fields[0], fields[1], fields[2], fields[3] == "true", aim})
		return err
	default:
		return errors.New("no table or row")
	}
	return nil
}

// A row is the row of a path in a table. peer is the path for comparison, or "".
type row struct {
	path, what, peer string
	peers            bool    // the path belongs to a peer, not to dlbridge
	aim              float64 // how many times as fast as its peer the path must be, or 0
}

type table struct {
	title, note string
	rows        []row
}

// A story is a task of users, with the paths of the libraries that they would use for it. The first path is dlbridge's.
type story struct {
	what  string
	paths []side
}

type side struct{ name, path string }

var stories = []story{
	{"A Go slice of 16 MiB becomes a NumPy array", []side{{"dlbridge", "py_dlbridge_slice_16MiB"}, {"a copy", "py_copy_slice_16MiB"}}},
	{"Go exports a tensor and releases it", []side{{"dlbridge", "export_release_slice"}, {"arrow-go", "arrow_export_release_go_memory"}}},
	{"Go reads a message of three tensors", []side{{"dlbridge", "tens_parse_4KiB"}, {"Arrow IPC", "arrow_ipc_view_3_columns"}}},
	{"Python writes and reads a message of three arrays of 1 MiB", []side{{"dlbridge", "py_dlbridge_message_1MiB"}, {"pickle", "py_pickle_message_1MiB"}}},
	{"Python converts 32 images from NHWC uint8 to NCHW float32", []side{
		{"dlbridge", "py_dlbridge_images_nchw"}, {"NumPy", "py_numpy_images_nchw"}, {"PyTorch", "py_torch_images_nchw"}}},
	{"Go transposes a matrix of 64 MiB", []side{
		{"dlbridge", "copy_transpose_4"}, {"NumPy", "py_numpy_copy_transpose_4"}, {"PyTorch", "py_torch_copy_transpose_4"}}},
	{"A NumPy array of 16 MiB reaches another process", []side{{"dlbridge", "py_dlbridge_process_16MiB"}, {"multiprocessing", "py_multiprocessing_process_16MiB"}}},
}

// peers are the names of the libraries whose paths begin with a prefix.
var peers = []struct{ prefix, name string }{
	{"arrow_", "arrow-go"}, {"gorgonia_", "gorgonia"}, {"dynamicpb_", "protobuf-go"}, {"libtorch_naive", "the naive way"}, {"naive_", "the naive design"},
	{"strided_sum_by_hand", "the loop without dlbridge"}, {"tensorflow_copy", "a copying reader"}, {"decthings_copy", "a copying reader"}, {"memcpy_", "Go's `copy`"},
	{"go_", "Go"}, {"copy_", "one core"}, {"new_close", "`dlpack.New`"}, {"py_numpy_", "NumPy"}, {"py_torch_", "PyTorch"}, {"py_json_numpy", "`json` and NumPy"},
	{"py_dlpark", "dlpark"}, {"py_decthings", "the Python client"}, {"py_ctypes", "ctypes"}, {"py_pyzmq", "`send_pyobj`"}, {"py_import_numpy", "NumPy"},
	{"py_served_tvmffi", "TVM-FFI"}, {"py_safetensors_", "safetensors"}, {"py_gguf_", "gguf"},
}

func peer(path string) string {
	for _, p := range peers {
		if strings.HasPrefix(path, p.prefix) {
			return p.name
		}
	}
	return path
}

var tables = []table{
	{"Files", "The files are in memory (`/dev/shm`), so the times do not include a disk. The safetensors file has 300 tensors of 1 MiB. The " +
		"GGUF file has a vocabulary of 10,000 words in its metadata. Each writer writes one array of 128 MiB, and replaces the file that it wrote before; its " +
		"time is the fastest of 12.", []row{
		{path: "files_open_safetensors", what: "Go: open a safetensors file, and list its tensors", peer: "py_safetensors_open", aim: 2},
		{path: "py_safetensors_open", what: "safetensors in Python: `safe_open` and `keys`", peers: true},
		{path: "files_open_gguf", what: "Go: open a GGUF file, and read its metadata", peer: "py_gguf_open", aim: 5},
		{path: "py_gguf_open", what: "gguf in Python: `GGUFReader`", peers: true},
		{path: "files_open_npy", what: "Go: open an npy file, and make its tensor", peer: "py_numpy_open"},
		{path: "py_dlbridge_npy_open", what: "Python: `dlbridge.open_file` of an npy file", peer: "py_numpy_open", aim: 2},
		{path: "py_numpy_open", what: "`numpy.load` with `mmap_mode=\"r\"`", peers: true},
		{path: "py_dlbridge_safetensors_read", what: "Python: open the safetensors file, and read each element once", peer: "py_safetensors_read", aim: 1.43},
		{path: "py_safetensors_read", what: "the same with `safetensors.numpy.load_file`", peers: true},
		{path: "files_write_safetensors", what: "Go: `files.Write` of a safetensors file", peer: "py_safetensors_write", aim: 0.9},
		{path: "py_dlbridge_safetensors_write", what: "Python: `dlbridge.safetensors.save`", peer: "py_safetensors_write", aim: 0.9},
		{path: "py_safetensors_write", what: "`safetensors.numpy.save_file`", peers: true},
		{path: "files_write_npy", what: "Go: `files.Write` of an npy file", peer: "py_numpy_write", aim: 0.9},
		{path: "py_dlbridge_npy_write", what: "Python: `dlbridge.npy.save`", peer: "py_numpy_write", aim: 0.9},
		{path: "py_numpy_write", what: "`numpy.save`", peers: true},
	}},
	{"Whole lifetimes", "The rows create, export, release and close tensors of 1024 float32, as real programs do. arrow-go exports its arrays without " +
		"their schema, which favours arrow-go. For the slowest export, the program makes and releases a million exports, and then " +
		"times 100,000 in groups of 1,000. Each group has 20 trials; the trial with the shortest maximum counts.", []row{
		{path: "life_export_slice", what: "a slice: `ExportSlice`, release", peer: "arrow_life_go_memory"},
		{path: "life_slice_1", what: "a slice: create a tensor, export it once, release, close", peer: "arrow_life_go_memory"},
		{path: "life_new_1", what: "zeroed memory of `dlpack.New`: create, export once, release, close", peer: "arrow_life_c_memory"},
		{path: "life_slice_8", what: "a slice: create, export and release 8 times, close"},
		{path: "life_new_8", what: "memory of `dlpack.New`: create, export and release 8 times, close"},
		{path: "life_slice_64", what: "a slice: create, export and release 64 times, close"},
		{path: "life_new_64", what: "memory of `dlpack.New`: create, export and release 64 times, close"},
		{path: "export_release_slice", what: "export and release of the same tensor, repeated"},
		{path: "life_alive_256", what: "export, and release of the oldest of 256 live exports"},
		{path: "life_turns_1000", what: "export and release of 1,000 tensors in turn"},
		{path: "life_handed_over", what: "export by one goroutine, release by another"},
		{path: "life_worst_export", what: "the slowest of 100,000 exports"},
		{path: "atomic_add", what: "an atomic addition (an export and its release need five operations of this cost)", peers: true},
		{path: "c_fill_free", what: "plain C, existing memory: `malloc` a managed tensor, fill it, `free`", peers: true},
		{path: "c_life", what: "plain C: allocate zeroed, reference-counted memory, export once, release both", peers: true},
		{path: "arrow_life_go_memory", what: "arrow-go cdata, Go memory: create an array, export once, release both", peers: true},
		{path: "arrow_life_c_memory", what: "arrow-go cdata, C memory: create an array, export once, release both", peers: true},
		{path: "dlpark_export_drop", what: "dlpark (Rust), existing memory: export, drop", peers: true},
		{path: "dlpark_life", what: "dlpark (Rust): allocate zeroed memory, export once, drop both", peers: true},
	}},
	{"Export and release", "Go exports a tensor of 1024 float32 and releases it. The time includes the deleter.", []row{
		{path: "export_release_new", what: "dlbridge, memory of `dlpack.New`", peer: "arrow_export_release_c_memory", aim: 7},
		{path: "export_release_slice", what: "dlbridge, a Go slice", peer: "arrow_export_release_go_memory", aim: 7},
		{path: "cgo_call", what: "an empty cgo call", peers: true},
		{path: "c_fill_free", what: "plain C: `malloc` a managed tensor, fill it, `free`", peers: true},
		{path: "dlpark_export_drop", what: "dlpark (Rust): export, drop", peers: true},
		{path: "arrow_export_release_c_memory", what: "arrow-go cdata, C memory", peers: true},
		{path: "arrow_export_release_go_memory", what: "arrow-go cdata, Go memory", peers: true},
	}},
	{"The deleter alone", "Each time is for one call of the deleter, on a thread that Go did not create unless the row says otherwise. \"First call\" is " +
		"the first call on a new thread; its time is the median of 400 threads. Each tensor has 32 live exports unless the row gives " +
		"another number. The naive design uses `malloc`, `cgo.Handle` and a deleter written in Go.",
		[]row{
			{path: "delete_on_foreign_thread_new", what: "dlbridge, memory of `dlpack.New`", peer: "naive_delete_on_foreign_thread"},
			{path: "delete_on_foreign_thread_slice", what: "dlbridge, a Go slice", peer: "naive_delete_on_foreign_thread"},
			{path: "delete_on_foreign_thread_new_of_256", what: "dlbridge, memory of `dlpack.New`, 256 live exports of one tensor", peer: "naive_delete_on_foreign_thread"},
			{path: "delete_on_foreign_thread_slice_of_256", what: "dlbridge, a Go slice, 256 live exports of one tensor", peer: "naive_delete_on_foreign_thread"},
			{path: "first_delete_on_new_thread", what: "dlbridge, first call", peer: "naive_first_delete_on_new_thread"},
			{path: "callback_on_go_thread", what: "an empty callback into Go, on a Go thread", peers: true},
			{path: "callback_on_foreign_thread", what: "an empty callback into Go, on a foreign thread", peers: true},
			{path: "naive_delete_on_go_thread", what: "the naive design, on a Go thread", peers: true},
			{path: "naive_delete_on_foreign_thread", what: "the naive design, on a foreign thread", peers: true},
			{path: "naive_first_delete_on_new_thread", what: "the naive design, first call", peers: true},
		}},
	{"Import, typed view, close", "Go imports a tensor of 1024 float32 from C, views its values and closes it. The time that C needs to free the tensor is " +
		"subtracted.", []row{
		{path: "import_close_without_guard", what: "dlbridge, without the cleanup guard (`WithoutGuard`)", peer: "arrow_import_release"},
		{path: "import_close_with_guard", what: "dlbridge", peer: "arrow_import_release", aim: 2.5},
		{path: "import_own_new", what: "dlbridge, export of `dlpack.New` and its import (`WithoutGuard`)", peer: "arrow_import_release"},
		{path: "import_own_slice", what: "dlbridge, export of a Go slice and its import (`WithoutGuard`)", peer: "arrow_import_release"},
		{path: "dlpark_export_import_drop", what: "dlpark (Rust): export, import, validate, view, drop", peers: true},
		{path: "arrow_import_release", what: "arrow-go cdata", peers: true},
	}},
	{"Messages", "A message has three tensors of 1024 float32 unless the row gives another size. Arrow views a record of an open file in " +
		"memory, or writes a record to a stream. Go's encoding is compared with Arrow's encoding of one column.",
		[]row{
			{path: "tens_parse_4KiB", what: "Go: parse the message and its label", peer: "arrow_ipc_view_3_columns", aim: 1.4},
			{path: "tens_parse_16MiB", what: "Go: parse the message and its label, tensors of 16 MiB", peer: "arrow_ipc_view_3_columns", aim: 1.4},
			{path: "tens_encode", what: "Go: encode the message and its label", peer: "arrow_ipc_encode_1_column", aim: 2},
			{path: "json_unmarshal_label", what: "`encoding/json`: parse only the label", peers: true},
			{path: "arrow_ipc_view_1_column", what: "arrow-go IPC: view one column", peers: true},
			{path: "arrow_ipc_view_3_columns", what: "arrow-go IPC: view three columns", peers: true},
			{path: "arrow_ipc_encode_1_column", what: "arrow-go IPC: encode one column", peers: true},
			{path: "arrow_ipc_encode_3_columns", what: "arrow-go IPC: encode three columns", peers: true},
			{path: "py_json_numpy_parse", what: "Python: parse with `json` and NumPy", peers: true},
			{path: "py_dlbridge_decode", what: "Python: `dlbridge.tens.decode`", peer: "py_json_numpy_parse"},
		}},
	{"Tensors and views in C", "The tensor has 3×4×5 float32. Each time includes the release of the new tensor or view.", []row{
		{path: "c_alloc", what: "`dlb_tensor_alloc`"},
		{path: "c_view_transpose", what: "`dlb_tensor_transpose`"},
		{path: "c_view_slice", what: "`dlb_tensor_slice`, as `t[1:3, 2]`"},
		{path: "c_view_index", what: "`dlb_tensor_index`"},
		{path: "c_view_reshape", what: "`dlb_tensor_reshape`"},
		{path: "c_block", what: "`malloc` and `free` of 256 bytes, the size of a control block", peers: true},
	}},
	{"Copies and conversions in C and in Go", "The tensor is a 512×512 matrix of float32. A copy or conversion makes a new tensor, and its time includes the release; " +
		"`dlb_tensor_copy_into` writes to an existing tensor. C and Go both run on one core.", newCopyRows()},
	{"Views and elements", "The tensor has 3×4×5 float32 unless the row gives another size. The time of a new tensor or view includes its `Close`.", []row{
		{path: "view_transpose", what: "`Transpose`"},
		{path: "view_slice", what: "`Slice`, as `t[1:3, 2]`", peer: "gorgonia_slice"},
		{path: "view_slice_by_steps", what: "`Slice`, as `t[1:, 2, ::-2]`"},
		{path: "view_narrow", what: "`Narrow`"},
		{path: "view_reshape", what: "`Reshape`"},
		{path: "view_apply", what: "`Apply` of `Transpose` and `Narrow`"},
		{path: "gorgonia_slice", what: "gorgonia's `Slice`, as `t[1:3, 2]`", peers: true},
		{path: "at_generic", what: "`dlpack.At[float32]`", peer: "gorgonia_at"},
		{path: "set_at_generic", what: "`dlpack.SetAt[float32]`", peer: "gorgonia_set_at"},
		{path: "at_any", what: "`Tensor.At`", peer: "gorgonia_at"},
		{path: "set_at_any", what: "`Tensor.SetAt`", peer: "gorgonia_set_at"},
		{path: "gorgonia_at", what: "gorgonia's `At`", peers: true},
		{path: "gorgonia_set_at", what: "gorgonia's `SetAt`", peers: true},
		{path: "strided_sum_all", what: "the sum of a transposed 64×32 matrix: `ReadStrided` and `Strided.All`", peer: "strided_sum_by_hand"},
		{path: "strided_sum_loop", what: "the same sum: `ReadStrided` and a loop with strides", peer: "strided_sum_by_hand"},
		{path: "strided_sum_contiguous", what: "the same sum: `Contiguous` and `Read`", peer: "strided_sum_by_hand"},
		{path: "strided_sum_at", what: "the same sum: `dlpack.At`", peer: "strided_sum_by_hand"},
		{path: "strided_sum_by_hand", what: "the same sum without dlbridge: a loop with strides over a slice", peers: true},
		{path: "description_bind", what: "`Description.Bind`, shape [?,4,5]"},
		{path: "description_allocate", what: "`Description.Allocate`, rows aligned to 64 bytes", peer: "new_close"},
		{path: "new_close", what: "`dlpack.New`"},
	}},
	{"gorgonia", "`Dense` wraps a matrix of float32 for gorgonia; its time includes the release. `FromDense` makes a tensor from a lazily " +
		"transposed gorgonia matrix; its time includes `Close`. Both are compared with gorgonia's `tensor.New`.",
		[]row{
			{path: "gorgonia_dense_4KiB", what: "`Dense`, 4 KiB", peer: "gorgonia_tensor_new_4KiB"},
			{path: "gorgonia_dense_16MiB", what: "`Dense`, 16 MiB", peer: "gorgonia_tensor_new_16MiB"},
			{path: "gorgonia_from_dense_4KiB", what: "`FromDense`, 4 KiB", peer: "gorgonia_tensor_new_4KiB"},
			{path: "gorgonia_from_dense_16MiB", what: "`FromDense`, 16 MiB", peer: "gorgonia_tensor_new_16MiB"},
			{path: "gorgonia_tensor_new_4KiB", what: "gorgonia's `tensor.New` with the same options, 4 KiB", peers: true},
			{path: "gorgonia_tensor_new_16MiB", what: "gorgonia's `tensor.New` with the same options, 16 MiB", peers: true},
		}},
	{"libtorch", "1024 float32 in Go memory become an `at::Tensor`, which is then freed (see `examples/libtorch`). The time includes the release. " +
		"The naive way uses `runtime.Pinner`, `cgo.Handle`, `malloc`, a deleter written in Go, and `at::fromDLPackVersioned`.",
		[]row{
			{path: "libtorch_slice", what: "a slice, exported once", peer: "libtorch_naive"},
			{path: "libtorch_tensor", what: "a tensor, exported repeatedly", peer: "libtorch_naive"},
			{path: "libtorch_naive", what: "the naive way", peers: true},
			{path: "libtorch_part", what: "libtorch alone, with the same two calls into C", peers: true},
			{path: "libtorch_own_import", what: "libtorch alone, by `at::fromDLPackVersioned`", peers: true},
		}},
	{"TVM-FFI: from Go", "Go calls a TVM-FFI function that adds two vectors of 16 float32. The code of the function is like the output of a kernel " +
		"compiler.", []row{
		{path: "tvmffi_prepared", what: "a prepared call"},
		{path: "tvmffi_call_slices", what: "a call with three slices, arguments checked"},
		{path: "tvmffi_call_tensors", what: "a call with three tensors, arguments checked"},
	}},
	{"TVM-FFI: from Python", "Python calls a TVM-FFI function that scales a vector of 16 float32. The empty functions have the same arguments; the " +
		"difference between their times is the cost of a callback into Go.", []row{
		{path: "py_tvmffi_scale_go", what: "a function in Go"},
		{path: "py_tvmffi_scale_cpp", what: "a function in C++", peers: true},
		{path: "py_tvmffi_scale_more", what: "the difference: the additional cost of Go"},
		{path: "py_tvmffi_nothing_go", what: "an empty function in Go, without dlbridge", peers: true},
		{path: "py_tvmffi_nothing_cpp", what: "an empty function in C", peers: true},
		{path: "py_tvmffi_nothing_more", what: "the difference: a callback into Go", peers: true},
	}},
	{"A Go function from Python", "Python calls a Go function that doubles a NumPy array of 16 float32. `capi.Serve` serves the function to `dlbridge.wrap`, and " +
		"`tvmffi.Serve` serves it to TVM-FFI.", []row{
		{path: "py_served_wrap", what: "through `dlbridge.wrap`"},
		{path: "py_served_tvmffi", what: "through TVM-FFI", peers: true},
	}},
	{"Copies", "The copies write to existing memory. They run on one core, and the matrices are square with 4096 rows, unless the row says " +
		"otherwise. A copy transposes a matrix, or copies every second element, every third element, or all elements in reverse order " +
		"of each matrix row. There are 32 images of 224×224 with 3 channels, or of 56×56 with 64 channels. The contiguous copy has 64 " +
		"MiB. PyTorch has no flipped views, so its time for the reverse order includes the allocation of the result.",
		copyRows()},
	{"Python: np.from_dlpack", "Each row creates an object, converts it to a NumPy array and frees both. The minimal extension is written in C with the full " +
		"Python API and checks nothing.",
		[]row{
			{path: "py_dlbridge_from_address_new", what: "dlbridge, `from_address` of Go's `dlpack.New`", peer: "py_dlpark"},
			{path: "py_dlbridge_from_address_slice", what: "dlbridge, `from_address` of a Go slice", peer: "py_dlpark"},
			{path: "py_floor_from_address_new", what: "the minimal extension, `from_address` of `dlpack.New`", peers: true},
			{path: "py_dlpark", what: "dlpark", peers: true},
			{path: "py_pyo3_dlpack", what: "pyo3-dlpack", peers: true},
			{path: "py_nanobind", what: "nanobind", peers: true},
			{path: "py_dlbridge_empty", what: "dlbridge, new memory", peer: "py_numpy_empty"},
			{path: "py_numpy_empty", what: "NumPy, new memory", peers: true},
			{path: "py_torch_empty", what: "PyTorch, new memory", peers: true},
		}},
	{"Python: torch.from_dlpack", "The rows repeat the measurement above with PyTorch in place of NumPy.", []row{
		{path: "py_dlbridge_from_address_new_torch", what: "dlbridge, `from_address` of Go's `dlpack.New`", peer: "py_dlpark_torch"},
		{path: "py_dlbridge_from_address_slice_torch", what: "dlbridge, `from_address` of a Go slice", peer: "py_dlpark_torch"},
		{path: "py_floor_from_address_new_torch", what: "the minimal extension, `from_address` of `dlpack.New`", peers: true},
		{path: "py_dlpark_torch", what: "dlpark", peers: true},
		{path: "py_pyo3_dlpack_torch", what: "pyo3-dlpack", peers: true},
		{path: "py_nanobind_torch", what: "nanobind", peers: true},
		{path: "py_dlbridge_empty_torch", what: "dlbridge, new memory", peer: "py_numpy_empty_torch"},
		{path: "py_numpy_empty_torch", what: "NumPy, new memory", peers: true},
		{path: "py_torch_empty_torch", what: "PyTorch, new memory", peers: true},
	}},
	{"Python: calls of C functions", "Python calls a C function that computes `x += y` for two tensors of 16 floats. With `dlbridge.wrap`, the function takes " +
		"ownership of its arguments. With ctypes, the program makes a capsule for each argument, and the function borrows both.",
		[]row{
			{path: "py_wrap_dlbridge", what: "`wrap` with `dlbridge.Tensor`s"},
			{path: "py_wrap_numpy", what: "`wrap` with NumPy arrays", peer: "py_ctypes_capsules_numpy"},
			{path: "py_wrap_torch", what: "`wrap` with PyTorch tensors", peer: "py_ctypes_capsules_torch"},
			{path: "py_ctypes_capsules_numpy", what: "ctypes with NumPy arrays", peers: true},
			{path: "py_ctypes_capsules_torch", what: "ctypes with PyTorch tensors", peers: true},
		}},
	{"Python: views", "The rows make views of a 16×16 matrix of floats. `x[3, 5]` is a Tensor in dlbridge, and a number in NumPy.",
		[]row{
			{path: "py_dlbridge_element", what: "`x[3, 5]`", peer: "py_numpy_element"},
			{path: "py_dlbridge_slice", what: "`x[2:8, 1:]`", peer: "py_numpy_slice"},
			{path: "py_dlbridge_reshape", what: "`x.reshape(256)`", peer: "py_numpy_reshape"},
			{path: "py_dlbridge_array", what: "`x.numpy()`", peer: "py_numpy_array"},
			{path: "py_numpy_element", what: "NumPy, `x[3, 5]`", peers: true},
			{path: "py_numpy_slice", what: "NumPy, `x[2:8, 1:]`", peers: true},
			{path: "py_numpy_reshape", what: "NumPy, `x.reshape(256)`", peers: true},
			{path: "py_numpy_array", what: "`numpy.from_dlpack` of a Tensor", peers: true},
		}},
	{"Python: data types", "The rows compare a data type with a NumPy type, and allocate 3 elements of a NumPy type.",
		[]row{
			{path: "py_dlbridge_dtype", what: "`t.dtype == numpy.float32`", peer: "py_numpy_dtype"},
			{path: "py_dlbridge_small", what: "`empty(3, numpy.float32)`", peer: "py_numpy_small"},
			{path: "py_numpy_dtype", what: "NumPy, `x.dtype == numpy.float32`", peers: true},
			{path: "py_numpy_small", what: "`numpy.empty(3, numpy.float32)`", peers: true},
		}},
	{"Python: messages over pyzmq", "A socket sends arrays of 16 floats to another socket of the same process. The time does not include receiving.",
		[]row{
			{path: "py_dlbridge_send_1", what: "`tens.send`, 1 array", peer: "py_pyzmq_send_pyobj_1"},
			{path: "py_dlbridge_send_2", what: "`tens.send`, 2 arrays", peer: "py_pyzmq_send_pyobj_2"},
			{path: "py_dlbridge_send_3", what: "`tens.send`, 3 arrays", peer: "py_pyzmq_send_pyobj_3"},
			{path: "py_dlbridge_send_named", what: "`tens.send`, 1 array with a name", peer: "py_pyzmq_send_pyobj_named"},
			{path: "py_pyzmq_send_pyobj_1", what: "pyzmq, `send_pyobj`, 1 array", peers: true},
			{path: "py_pyzmq_send_pyobj_2", what: "pyzmq, `send_pyobj`, 2 arrays", peers: true},
			{path: "py_pyzmq_send_pyobj_3", what: "pyzmq, `send_pyobj`, 3 arrays", peers: true},
			{path: "py_pyzmq_send_pyobj_named", what: "pyzmq, `send_pyobj`, a dict of 1 array", peers: true},
		}},
	{"Python: import", "Each time is the fastest of 10 imports, each in a new process. dlbridge loads its Go library later, when a program first uses " +
		"a format. Both of its rows are compared with `import numpy`.",
		[]row{
			{path: "py_import_dlbridge", what: "`import dlbridge`", peer: "py_import_numpy", aim: 10},
			{path: "py_import_dlbridge_after_numpy", what: "`import dlbridge` after `import numpy`", peer: "py_import_numpy"},
			{path: "py_import_numpy", what: "`import numpy`", peers: true},
		}},
}

// layouts are the layouts that the benchmarks copy. aim says how many times as fast as NumPy dlbridge must be; 0 stands for no aim.
var layouts = []struct {
	name, what string
	aim        float64
}{
	{"transpose_1", "transpose, uint8", 0},
	{"transpose_2", "transpose, int16", 0},
	{"transpose_4", "transpose, float32", 6},
	{"transpose_4_odd", "transpose, float32, 4095 rows", 0},
	{"transpose_8", "transpose, float64", 0},
	{"transpose_16", "transpose, complex128", 0},
	{"nchw_3_channels", "NHWC to NCHW, float32, 3 channels", 0},
	{"nchw_64_channels", "NHWC to NCHW, float32, 64 channels", 0},
	{"nhwc_3_channels", "NCHW to NHWC, float32, 3 channels", 0},
	{"step_2", "every second element, float32", 0},
	{"step_3", "every third element, float32", 0},
	{"flip", "reverse order, float32", 0},
	{"contiguous", "contiguous, 64 MiB", 0},
}

func copyRows() (rows []row) {
	for _, l := range layouts {
		rows = append(rows, row{path: "copy_" + l.name, what: l.what, peer: "py_numpy_copy_" + l.name, aim: l.aim})
		switch l.name {
		case "transpose_4":
			rows = append(rows, row{path: "copy_transpose_4_all_cores", what: l.what + ", on all cores", peer: "copy_transpose_4"},
				row{path: "c_transpose_4", what: "the same in C: 8×8 tiles in registers, 64×64 blocks, non-temporal stores", peers: true})
		case "contiguous":
			rows = append(rows, row{path: "copy_contiguous_all_cores", what: "contiguous, 64 MiB, on all cores", peer: "copy_contiguous"},
				row{path: "c_memcpy", what: "the same in C with `memcpy`", peers: true}, row{path: "go_copy", what: "the same with Go's `copy`", peers: true})
		}
		rows = append(rows, row{path: "py_numpy_copy_" + l.name, what: "the same in NumPy", peers: true},
			row{path: "py_torch_copy_" + l.name, what: "the same in PyTorch", peers: true})
	}
	return rows
}

// newCopyRows returns the rows of copies and conversions to new memory. Each has the name of the path, with the prefix
// c_ or go_, and a description.
func newCopyRows() (rows []row) {
	for _, n := range newCopies {
		rows = append(rows, row{path: "c_" + n.c, what: "`dlb_tensor_" + n.what, peer: "go_" + n.inGo},
			row{path: "go_" + n.inGo, what: "the same in Go", peers: true})
	}
	return rows
}

var newCopies = []struct{ c, inGo, what string }{
	{"copy", "copy_matrix", "copy`"}, {"copy_transposed", "copy_transposed", "copy` of the transposed view"},
	{"convert_float64", "convert_float64", "convert` to float64"}, {"convert_float16", "convert_float16", "convert` to float16"},
	{"convert_int32", "convert_int32", "convert` to int32"}, {"copy_into", "copy_into", "copy_into`"},
	{"copy_into_transposed", "copy_into_transposed", "copy_into` of the transposed view"},
	{"copy_into_float64", "copy_into_float64", "copy_into` of float64"},
}

// vectors has the lengths of the vectors that conversions.py converts between all pairs of types.
var vectors = []string{"131072", "4194304"}

// comparisons lists the comparisons over all pairs of types. Each gives the first times as multiples of the second.
var comparisons = []struct{ of, by, what string }{
	{"dlbridge", "numpy", "relative to NumPy"},
	{"dlbridge", "torch", "relative to PyTorch"},
	{"scaled", "dlbridge", "with scale and shift, relative to none"},
}

// A pair is a conversion from one type to another: its name, and its time as a multiple of the other library's time.
type pair struct {
	name  string
	times float64
}

// pairs returns the pairs of types for which of and by have both converted vectors of the given length. The slowest
// pair is last.
func (r results) pairs(of, by, elements string) (pairs []pair) {
	for name, value := range r {
		if types, ok := strings.CutPrefix(name, "py_"+of+"_"+elements+"_"); ok {
			if other, ok := r["py_"+by+"_"+elements+"_"+types]; ok {
				pairs = append(pairs, pair{types, value / other})
			}
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int { return cmp.Compare(a.times, b.times) })
	return pairs
}

// over returns how many of the pairs take more than bound times as long.
func over(pairs []pair, bound float64) (count int) {
	for _, p := range pairs {
		if p.times > bound {
			count++
		}
	}
	return count
}

func (r results) text() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `# Benchmarks

These tables compare the times of dlbridge with the times of other libraries for the same task. Each time is for one operation on the machine
below. Compare times only within this page.

%s, %d cores, %s.

| | dlbridge | alternative | times as fast |
|---|--:|:--|--:|
`, cpu(), runtime.NumCPU(), runtime.Version())
	for _, s := range stories {
		ours := r[s.paths[0].path]
		var times, ratios []string
		for _, p := range s.paths[1:] {
			if value, ok := r[p.path]; ok && ours > 0 {
				times, ratios = append(times, p.name+" "+duration(value)), append(ratios, digits(value/ours))
			}
		}
		if times != nil {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", s.what, duration(ours), strings.Join(times, "<br>"), strings.Join(ratios, "<br>"))
		}
	}
	fmt.Fprintf(&b, `
![The times of this table](times.svg)

In the first row, the alternative is a copy by Go into a new NumPy array. In the last row, the time of dlbridge includes a copy of the array
into shared memory; multiprocessing pickles the array.

A C function that keeps no pointer after it returns does not need dlbridge. An empty cgo call takes %s, and an export of a Go slice with its
release takes another %s. Two other pages give the times of [tensors for other processes](processes/README.md)
and of [messages over ZeroMQ](zeromq/README.md).

## How it is measured

`+"`make bench` (or `sh examples/bench/run.sh`)"+` builds dlbridge, installs its peers from the package registries, times all of them, and writes
this page. It runs several programs one after another; for example, one times the paths in Go, and another one those in Python. The paths of
a program take turns in short batches. The time of a path is the median, over 20 turns, of the fastest batch in each turn. This hides most
garbage collections, and other work of the machine affects all paths of a program alike. A ratio between paths of two programs, such as one
in Go and one in NumPy, is less certain. Slow paths, such as files and messages to other processes, have fewer turns.

Each table has a row for each path, which is one way to do the task. Rows in bold are paths of dlbridge; the others are its peers.
"2.00 times as fast" means half the time. An aim of 2 means that a path should be at least twice as fast as its peer. A crossing is a call
from Go into C. Allocations and crossings are numbers for one operation. `+"`dlpack.New`"+` allocates memory in C.
For maintainers: [GUARANTEES.md](../../dlpack/GUARANTEES.md), [DESIGN.md](../../dlpack/DESIGN.md),
[CONTRIBUTING.md](../../.github/CONTRIBUTING.md).
`, duration(r["cgo_call"]), duration(r["life_export_slice"]))
	for _, peer := range []struct{ path, what string }{
		{"dlpark_export_drop", "the Rust peers, because cargo was not installed"},
		{"py_torch_empty", "PyTorch (`BENCH_TORCH=1` installs it)"},
	} {
		if _, ok := r[peer.path]; !ok {
			fmt.Fprintf(&b, "\nNot in this run: %s.\n", peer.what)
		}
	}
	for _, t := range tables {
		r.table(&b, t)
	}
	r.conversions(&b)
	r.scaling(&b)
	r.unpinning(&b)
	return b.Bytes()
}

// table writes the measured rows of a table, and the columns in which a row has a value.
func (r results) table(b *bytes.Buffer, t table) {
	columns := []string{"", "time", "compared with a peer", "allocations", "crossings"}
	var rows [][]string
	used := []bool{true, true, false, false, false}
	measured := false
	for _, row := range t.rows {
		value, ok := r[row.path]
		if !ok {
			continue
		}
		what, beside := row.what, ""
		if !row.peers {
			measured, what = true, "**"+what+"**"
		}
		if other, ok := r[row.peer]; ok {
			beside = digits(other/value) + " times as fast as " + peer(row.peer)
			if row.aim > 0 {
				beside += fmt.Sprintf(" (aim: %g)", row.aim)
			}
			if other < row.aim*value {
				log.Printf("report: %s is %s, which misses its aim", row.path, beside)
			}
		}
		cells := []string{what, duration(value), beside, r.count(row.path + "_allocations"), r.count(row.path + "_crossings")}
		for i := range cells {
			used[i] = used[i] || cells[i] != ""
		}
		rows = append(rows, cells)
	}
	if !measured {
		return
	}
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n", t.title, t.note)
	for _, cells := range append([][]string{columns, {"---", "--:", ":--", "--:", "--:"}}, rows...) {
		b.WriteString("|")
		for i, cell := range cells {
			if used[i] {
				fmt.Fprintf(b, " %s |", cell)
			}
		}
		b.WriteString("\n")
	}
}

// duration returns a time in nanoseconds with three digits and a unit.
func duration(ns float64) string {
	for _, unit := range []string{"ns", "µs", "ms"} {
		if ns < 999.5 {
			return digits(ns) + " " + unit
		}
		ns /= 1000
	}
	return digits(ns) + " s"
}

// digits returns a number with three digits, or with all digits before the point if there are more.
func digits(x float64) string {
	switch {
	case x < 9.995:
		return fmt.Sprintf("%.2f", x)
	case x < 99.95:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.0f", x)
}

func (r results) count(name string) string {
	value, ok := r[name]
	if !ok {
		return ""
	}
	return fmt.Sprintf("%.2g", value)
}

func (r results) conversions(b *bytes.Buffer) {
	b.WriteString("\n## Python: conversions between all types\n\nThe table summarises the conversions of vectors between all pairs of bool, the 8 integer types, float16, bfloat16, float32, " +
		"float64, float8_e4m3fn and float8_e5m2. Integers are random over the range that both types have. Floats that become integers " +
		"are random over half of that range; other floats are normally distributed. Each number is a ratio: the time of dlbridge " +
		"divided by the time of NumPy (with ml_dtypes) or PyTorch, or its time with scale and shift divided by its time without. The " +
		"last three columns count the pairs with a larger ratio.\n\n" +
		"| | pairs of types | median | slowest | above 1 | above 1.25 | above 1.5 |\n|---|--:|--:|:--|--:|--:|--:|\n")
	for _, elements := range vectors {
		for _, c := range comparisons {
			if pairs := r.pairs(c.of, c.by, elements); len(pairs) > 0 {
				slowest := pairs[len(pairs)-1]
				fmt.Fprintf(b, "| %s numbers, %s | %d | %.2f | %.2f (%s) | %d | %d | %d |\n", elements, c.what, len(pairs),
					pairs[len(pairs)/2].times, slowest.times, slowest.name, over(pairs, 1), over(pairs, 1.25), over(pairs, 1.5))
			}
		}
	}
}

func (r results) scaling(b *bytes.Buffer) {
	b.WriteString("\n## Dependence on rank, size and goroutines\n\nThe time of an export and its release, in nanoseconds, by rank of the tensor:\n\n| rank |")
	rule, values := "|---|", "| ns |"
	for rank := 1; rank <= 64; rank *= 2 {
		fmt.Fprintf(b, " %d |", rank)
		rule += "--:|"
		values += fmt.Sprintf(" %.1f |", r[fmt.Sprintf("sweep_rank_%d", rank)])
	}
	fmt.Fprintf(b, "\n%s\n%s\n\nThe same time, by size of the tensor:\n\n| | 1 KiB | 64 KiB | 4 MiB | 256 MiB |\n|---|--:|--:|--:|--:|\n", rule, values)
	for _, memory := range []string{"new", "slice"} {
		fmt.Fprintf(b, "| %s |", map[string]string{"new": "`dlpack.New`", "slice": "a Go slice"}[memory])
		for size := 1 << 10; size <= 1<<28; size <<= 6 {
			fmt.Fprintf(b, " %.1f |", r[fmt.Sprintf("sweep_bytes_%s_%d", memory, size)])
		}
		b.WriteString("\n")
	}
	b.WriteString("\nThe operations per microsecond of one goroutine, and of two at the same time:\n\n" +
		"| | one | two | speedup | relative to independent loops |\n|---|--:|--:|--:|--:|\n")
	for _, w := range []struct{ name, what string }{
		{"spin", "independent loops"},
		{"export_release_new", "**export and release, one tensor per goroutine, `dlpack.New`**"},
		{"export_release_slice", "**export and release, one tensor per goroutine, a Go slice**"},
		{"export_release_one_new", "**export and release, the same tensor on all goroutines, `dlpack.New`**"},
	} {
		fmt.Fprintf(b, "| %s | %.1f | %.1f | %.2f | %.2f |\n", w.what, r["throughput_"+w.name+"_1"], r["throughput_"+w.name+"_2"],
			r["gain_"+w.name], r["gain_"+w.name]/r["gain_spin"])
	}
}

func (r results) unpinning(b *bytes.Buffer) {
	b.WriteString("\n## How long released Go memory stays pinned\n\nThe times are in microseconds. They begin when a foreign thread calls the last deleter, and end when the Go slice is " +
		"unpinned. The deleter wakes Go if 1 MiB or more waits to be unpinned; `dlpack.WakeAt` sets another limit. Less memory waits " +
		"for the next export, the next garbage collection or a call of `dlpack.Reap`. Memory of `dlpack.New` and imported memory does " +
		"not wait: the deleter frees it.\n\n" +
		"| | median of 50 | longest |\n|---|--:|--:|\n")
	for _, program := range []struct{ name, what string }{
		{"idle_8MiB", "8 MiB, idle program"},
		{"idle_without_collector_8MiB", "8 MiB, idle program, garbage collector off"},
		{"computing_8MiB", "8 MiB, every processor computes"},
		{"allocating_8MiB", "8 MiB, every processor allocates"},
		{"idle_wake_at_1_4KiB", "4 KiB, idle program, `dlpack.WakeAt(1)`"},
		{"allocating_4KiB", "4 KiB, every processor allocates (the next collection unpins)"},
	} {
		fmt.Fprintf(b, "| %s | %.0f | %.0f |\n", program.what, r["pinned_"+program.name+"_median"], r["pinned_"+program.name+"_longest"])
	}
}

// plot draws the bars of each story. The longest bar of a story has the full length.
func (r results) plot() []byte {
	const width, left, bar, high = 640, 130, 400, 16
	var body bytes.Buffer
	y := 4
	for _, s := range stories {
		longest := 0.0
		for _, p := range s.paths {
			longest = max(longest, r[p.path])
		}
		y += high
		fmt.Fprintf(&body, `<text x="10" y="%d" class="title">%s</text>`+"\n", y, html.EscapeString(s.what))
		for i, p := range s.paths {
			value, ok := r[p.path]
			if !ok {
				continue
			}
			y += high
			length := max(1, value/longest*bar)
			fmt.Fprintf(&body, `<text x="%d" y="%d" class="label">%s</text><rect x="%d" y="%d" width="%.1f" height="11" class="%s"/>`+
				`<text x="%.1f" y="%d">%s</text>`+"\n",
				left-8, y, p.name, left, y-9, length, []string{"ours", "peer"}[min(i, 1)], left+length+6, y, duration(value))
		}
		y += high / 2
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d">
<style>text{font:12px sans-serif;fill:#333}.title{font-weight:bold}.label{text-anchor:end}.ours{fill:#1a73b8}.peer{fill:#b5b5b5}</style>
<rect width="100%%" height="100%%" fill="#fff"/>
`, width, y, width, y)
	b.Write(body.Bytes())
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func cpu() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
