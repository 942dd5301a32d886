package main

import (
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dlbridge/dlbridge/dlpack"
)

// pinnedTimes reports how long a Go slice stays pinned after its last consumer has released it on a foreign thread.
// During this time the program is idle, with or without the garbage collector, or computes or allocates on every
// processor.
func pinnedTimes() {
	const rounds = 50
	data := make([]float32, 2<<20)
	for _, program := range []struct {
		name   string
		floats int
		wakeAt int64 // bytes; 0 leaves the setting unchanged
		goGC   int
		busy   func(n int)
	}{
		{name: "idle_8MiB", floats: 2 << 20, goGC: 100},
		{name: "computing_8MiB", floats: 2 << 20, goGC: 100, busy: spin},
		{name: "allocating_8MiB", floats: 2 << 20, goGC: 100, busy: allocate},
		{name: "idle_without_collector_8MiB", floats: 2 << 20, goGC: -1},
		{name: "idle_wake_at_1_4KiB", floats: 1 << 10, wakeAt: 1, goGC: 100},
		{name: "allocating_4KiB", floats: 1 << 10, goGC: 100, busy: allocate},
	} {
		goGC := debug.SetGCPercent(program.goGC)
		var last int64
		if program.wakeAt != 0 {
			last = dlpack.WakeAt(program.wakeAt)
		}
		var stop atomic.Bool
		var workers sync.WaitGroup
		if program.busy != nil {
			for range runtime.GOMAXPROCS(0) {
				workers.Go(func() {
					for !stop.Load() {
						program.busy(100)
					}
				})
			}
		}
		var took []time.Duration
		for range rounds {
			dlpack.Reap()
			t := must(dlpack.FromSlice(data[:program.floats]))
			m := must(t.Export())
			t.Close()
			took = append(took, unpinning(m))
		}
		stop.Store(true)
		workers.Wait()
		if program.wakeAt != 0 {
			dlpack.WakeAt(last)
		}
		debug.SetGCPercent(goGC)
		slices.Sort(took)
		report("pinned_"+program.name+"_median", float64(took[rounds/2].Nanoseconds())/1000, "us")
		report("pinned_"+program.name+"_longest", float64(took[rounds-1].Nanoseconds())/1000, "us")
	}
}

var allocated atomic.Pointer[[1 << 14]byte]

func allocate(n int) {
	for range n {
		allocated.Store(new([1 << 14]byte))
	}
}
