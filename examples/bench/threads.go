package main

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const newThreads = 400

// firstDeletes reports the median time of a deleter's first call on a new thread that Go did not create.
func firstDeletes() {
	own, list := sliceTensor(elements), map[string][]time.Duration{}
	data := make([]float32, elements)
	for range newThreads {
		list["first_delete_on_new_thread"] = append(list["first_delete_on_new_thread"], deleteOnNewThread(must(own.Export())))
		list["naive_first_delete_on_new_thread"] = append(list["naive_first_delete_on_new_thread"], deleteOnNewThread(naiveExport(data)))
	}
	for _, name := range []string{"first_delete_on_new_thread", "naive_first_delete_on_new_thread"} {
		slices.Sort(list[name])
		report(name, float64(list[name][newThreads/2]), "ns")
	}
}

// throughput reports how many rounds one goroutine, and two concurrent goroutines, complete per microsecond. Each value
// is the best of many intervals. Independent loops serve as the baseline.
func throughput() {
	const spell = 2 * time.Millisecond
	a, b := newTensor(elements), newTensor(elements)
	c, d := sliceTensor(elements), sliceTensor(elements)
	works := []struct {
		name string
		work [2]func(n int)
	}{
		{"spin", [2]func(int){spin, spin}},
		{"export_release_new", [2]func(int){exportRelease(a), exportRelease(b)}},
		{"export_release_slice", [2]func(int){exportRelease(c), exportRelease(d)}},
		{"export_release_one_new", [2]func(int){exportRelease(a), exportRelease(a)}},
	}
	best := make([][2]float64, len(works))
	for range *spells {
		for i, w := range works {
			for count := 1; count <= 2; count++ {
				best[i][count-1] = max(best[i][count-1], rate(spell, w.work[:count]))
			}
		}
	}
	for i, w := range works {
		for count := 1; count <= 2; count++ {
			report(name("throughput", w.name, count), best[i][count-1], "per_us")
		}
	}
}

// rate returns how many rounds per microsecond the workers complete together. The time runs from the common start until the last
// worker stops, so workers that run one after the other do not count as faster.
func rate(spell time.Duration, workers []func(n int)) float64 {
	const rounds = 100
	var wait sync.WaitGroup
	var done atomic.Int64
	ready := make(chan time.Time)
	for _, work := range workers {
		wait.Go(func() {
			end := <-ready
			n := int64(0)
			for ; time.Now().Before(end); n += rounds {
				work(rounds)
			}
			done.Add(n)
		})
	}
	start := time.Now()
	for range workers {
		ready <- start.Add(spell)
	}
	wait.Wait()
	return float64(done.Load()) / float64(time.Since(start).Nanoseconds()) * 1000
}

var spun [2 * 64]uint64

func spin(n int) {
	x := uint64(n)
	for range n * 16 {
		x = x*6364136223846793005 + 1442695040888963407
	}
	if x == 1 {
		spun[0]++ // never happens, but keeps the compiler from removing the loop
	}
}
