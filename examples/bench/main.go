// Command bench times the paths of dlbridge and of its peers in one process. It prints the tables for the report and
// then lines of `name value unit`, in the form that the command report reads.
//
// In each of several turns, the program alternates between short batches of all paths, so that other work of the
// machine affects all paths equally. It finds the fastest batch of each path in each turn. The time of a path is the
// median of these batches. The fastest batch of the whole run would favour a path that ran while the processor was
// briefly faster.
package main

import (
	"flag"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// A path is an operation to time. Either run or clocked is set.
type path struct {
	name    string
	rounds  int                       // rounds in a batch; 0 stands for the number that takes about batchTime
	before  func(n int)               // runs before each batch; not timed
	run     func(n int)               // runs n rounds
	clocked func(n int) time.Duration // runs n rounds and returns the time it measured
	after   func(n int)               // runs after each batch; not timed
	less    string                    // the path whose time is subtracted
	counted bool                      // report allocations and crossings as well
	fastest [turns]float64            // nanoseconds of a round
}

const (
	batchTime = 100 * time.Microsecond
	turns     = 20
)

var (
	batches = flag.Int("batches", 100, "number of batches of each path in each turn")
	spells  = flag.Int("spells", 200, "number of intervals for each throughput")
	rust    = flag.String("rust", "", "`path` of the Rust library; if empty, its paths are skipped")
	inC     = flag.String("views", "", "`path` of the library with views and copies in C; if empty, its paths are skipped")
	kernel  = flag.String("kernels", "", "`path` of the C++ library for TVM-FFI; if empty, its paths are skipped")
	folder  = flag.String("files", "", "time only files of tensors, in the `folder` that python/files.py has filled")
	only    = flag.String("only", "", "time only these paths (comma-separated `names`)")
)

func main() {
	flag.Parse()
	if *folder != "" {
		measure(openings(*folder), *batches)
		writings(*folder)
		return
	}
	paths := concat(yardsticks(), lives(), exchange(), naive(), arrowExchange(), messages(), small(), smallProtos(), views(), stridedSums(), newCopies(), gorgonias())
	for _, c := range []struct {
		library string
		names   []string
	}{
		{*rust, []string{"dlpark_life", "dlpark_export_drop", "dlpark_export_import_drop"}},
		{*inC, []string{"c_alloc", "c_view_transpose", "c_view_slice", "c_view_index", "c_view_reshape", "c_block", "c_copy", "c_copy_transposed",
			"c_convert_float64", "c_convert_float16", "c_convert_int32", "c_copy_into", "c_copy_into_transposed", "c_copy_into_float64"}},
	} {
		if c.library == "" {
			continue
		}
		timed, err := loops(c.library, c.names...)
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		paths = append(paths, timed...)
	}
	if *kernel != "" {
		paths = append(paths, tvmffiCalls(*kernel)...)
	}
	if *only != "" {
		measure(named(paths, strings.Split(*only, ",")), *batches)
		return
	}
	for _, t := range slices.Concat(streamTables, protoTables) {
		t.print()
	}
	measure(paths, *batches)
	firstDeletes()
	worstExport()
	throughput()
	pinnedTimes()
	measure(sweeps(), *batches) // after the others, because large slices delay garbage collections
	measure(concat(large(), largeProtos()), max(1, *batches/25))
	checkReference()
	copies(max(1, *batches/25))
}

func measure(paths []path, batches int) {
	for i := range paths {
		p := &paths[i]
		for n := 1; p.rounds == 0; n *= 2 {
			// The first calls are slow, so the fastest of three counts.
			if took := min(p.once(n), p.once(n), p.once(n)); took > batchTime/2 {
				p.rounds = max(1, int(float64(n)*float64(batchTime)/float64(took)))
			}
		}
	}
	for turn := range turns {
		for i := range paths {
			paths[i].fastest[turn] = math.Inf(1)
		}
		for range batches {
			for i := range paths {
				p := &paths[i]
				p.fastest[turn] = min(p.fastest[turn], float64(p.once(p.rounds))/float64(p.rounds))
			}
		}
	}
	times := map[string]float64{}
	for i := range paths {
		p := &paths[i]
		slices.Sort(p.fastest[:])
		times[p.name] = p.fastest[turns/2]
		report(p.name, times[p.name]-times[p.less], "ns")
		if p.counted {
			p.count()
		}
	}
}

func (p *path) once(n int) (took time.Duration) {
	if p.before != nil {
		p.before(n)
	}
	if p.clocked != nil {
		took = p.clocked(n)
	} else {
		start := time.Now()
		p.run(n)
		took = time.Since(start)
	}
	if p.after != nil {
		p.after(n)
	}
	return took
}

// count reports the allocations and the crossings (calls from Go into C) of a round. It takes the minimum over several
// batches, because the garbage collector sometimes adds allocations or crossings to a batch.
func (p *path) count() {
	allocations, crossings := math.Inf(1), math.Inf(1)
	n := max(p.rounds, batch)
	if p.before != nil || p.after != nil {
		n = p.rounds
	}
	for range 10 {
		if p.before != nil {
			p.before(n)
		}
		var start, end runtime.MemStats
		runtime.ReadMemStats(&start)
		calls := runtime.NumCgoCall()
		p.run(n)
		calls = runtime.NumCgoCall() - calls
		runtime.ReadMemStats(&end)
		if p.after != nil {
			p.after(n)
		}
		allocations = min(allocations, float64(end.Mallocs-start.Mallocs)/float64(n))
		crossings = min(crossings, float64(calls)/float64(n))
	}
	report(p.name+"_allocations", allocations, "per_round")
	report(p.name+"_crossings", crossings, "per_round")
}

// A table of the report: its title, a note and its rows.
type table struct {
	title, note string
	rows        []row
}

// A row is the row of a path: what the path does, the path of its peer or "", whether it is itself a peer, and how many
// times as fast as its peer it must be, or 0.
type row struct {
	path, what, peer string
	peers            bool
	aim              float64
}

func (t *table) print() {
	fmt.Printf("table\t%s\t%s\n", t.title, t.note)
	for _, r := range t.rows {
		fmt.Printf("row\t%s\t%s\t%s\t%v\t%g\n", r.path, r.what, r.peer, r.peers, r.aim)
	}
}

func report(name string, value float64, unit string) { fmt.Printf("%s %.2f %s\n", name, value, unit) }

func name(kind, of string, count int) string { return fmt.Sprintf("%s_%s_%d", kind, of, count) }

// named returns the paths with these names, and the paths whose times are subtracted.
func named(paths []path, names []string) (found []path) {
	for _, p := range paths {
		if slices.Contains(names, p.name) {
			names = append(names, p.less)
		}
	}
	for _, p := range paths {
		if slices.Contains(names, p.name) {
			found = append(found, p)
		}
	}
	return found
}

func concat(lists ...[]path) (all []path) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
