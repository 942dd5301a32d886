// Command bench times the paths of dlbridge beside those of its peers, in one process. It prints lines of
// `name value unit`. Each path runs in many short batches, in turn with all other paths, so that other work of
// the machine affects all alike. This is repeated in several turns. The time of a path is the median over the turns of its
// fastest batch; the fastest batch of all would favour a path that ran while the processor was faster for a moment.
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

// A path is something to time. Either run or clocked is set.
type path struct {
	name    string
	rounds  int                       // in a batch; 0: as many as take about batchTime
	before  func(n int)               // before each batch, not timed
	run     func(n int)               // n rounds
	clocked func(n int) time.Duration // n rounds that are timed where they run
	after   func(n int)               // after each batch, not timed
	less    string                    // a path whose time is taken off
	counted bool                      // report allocations and crossings as well
	fastest [turns]float64            // nanoseconds of a round
}

const (
	batchTime = 100 * time.Microsecond
	turns     = 20
)

var (
	batches = flag.Int("batches", 100, "batches of each path in each of the turns")
	spells  = flag.Int("spells", 200, "spells of each throughput")
	rust    = flag.String("rust", "", "the Rust library; without one its paths are left out")
	kernel  = flag.String("kernels", "", "the library of C++ functions for TVM-FFI; without one its paths are left out")
	only    = flag.String("only", "", "names of paths, with commas between: these and nothing else")
)

func main() {
	flag.Parse()
	paths := concat(yardsticks(), lives(), exchange(), naive(), arrowExchange(), messages(), small(), smallProtos(), views(), gorgonias())
	if *rust != "" {
		peer, err := loops(*rust, "dlpark_life", "dlpark_export_drop", "dlpark_export_import_drop")
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		paths = append(paths, peer...)
	}
	if *kernel != "" {
		paths = append(paths, tvmffiCalls(*kernel)...)
	}
	if *only != "" {
		measure(named(paths, strings.Split(*only, ",")), *batches)
		return
	}
	measure(paths, *batches)
	firstDeletes()
	worstExport()
	throughput()
	pinnedTimes()
	measure(sweeps(), *batches) // last, since large slices put collections off
	measure(concat(large(), largeProtos()), max(1, *batches/25))
	checkReference()
	copies(max(1, *batches/25))
}

func measure(paths []path, batches int) {
	for i := range paths {
		p := &paths[i]
		for n := 1; p.rounds == 0; n *= 2 {
			// The first calls are slow.
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

// count reports the allocations and the crossings of a round: the least of several rounds, because those that the garbage
// collector causes do not repeat.
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

func report(name string, value float64, unit string) { fmt.Printf("%s %.2f %s\n", name, value, unit) }

func name(kind, of string, count int) string { return fmt.Sprintf("%s_%s_%d", kind, of, count) }

// named returns the paths with these names, and the paths whose times are subtracted from theirs.
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
