//go:build cgo

package core

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/dlbridge/dlbridge/dlpack/background"
)

var (
	liveAllocations, liveImports counter
	forgotten                    atomic.Int64
)

// A counter counts what is alive. Many goroutines change it at once, each a part of its own, and few read it.
type counter [maxShards]struct {
	begun, ended atomic.Int64
	_            [48]byte
}

func (c *counter) begin()      { c[here()%maxShards].begun.Add(1) }
func (c *counter) end(n int64) { c[here()%maxShards].ended.Add(n) }

// live is never below what is alive throughout: what has ended is read first.
func (c *counter) live() (n int64) {
	for i := range c {
		n -= c[i].ended.Load()
	}
	for i := range c {
		n += c[i].begun.Load()
	}
	return n
}

// foreign accounts for bytes that the collector does not see. Forgotten imports of many megabytes
// would not bring about a single collection, and so would never be released.
var foreign = accounts{due: make(chan struct{}, 1)}

// A collection is due when the bytes pass a limit. Each that is due doubles the limit, so that memory in
// use, or closed in time, brings about few; collections and what they find lower it again.
type accounts struct {
	bytes atomic.Int64
	small [maxShards]struct { // bytes that do not make a batch yet
		n atomic.Int64
		_ [56]byte
	}
	limit atomic.Int64
	once  sync.Once
	mu    sync.Mutex // held while the limit is lowered, so that the last to do so has the last word
	due   chan struct{}
}

// foreignMost is as many bytes as one memory counts. A producer may describe memory that nobody has: without a bound,
// two descriptions would let the sum overflow, or the limit rise so high that no collection is started any more.
const foreignMost = 1 << 30

// foreignFloor is how many foreign bytes may lie about before a collection looks for forgotten ones.
const foreignFloor = 64 << 20

// foreignBatch is from how many bytes on they are added up, so that small tensors change no word that all share.
const foreignBatch = 256 << 10

func (a *accounts) add(n int64) {
	small := &a.small[here()%maxShards].n
	if sum := small.Add(n); -foreignBatch < sum && sum < foreignBatch {
		return
	}
	now := a.bytes.Add(small.Swap(0))
	if n < 0 || now <= max(a.limit.Load(), foreignFloor) {
		return
	}
	a.limit.Store(2 * now)
	a.once.Do(a.start)
	select {
	case a.due <- struct{}{}:
	default:
	}
}

func (a *accounts) start() {
	eachCycle(a.settle)
	background.Go(func() {
		for range a.due {
			runtime.GC()
		}
	})
}

// sum is how many bytes there are. While others change them it may be off by some batches.
func (a *accounts) sum() int64 {
	sum := a.bytes.Load()
	for i := range a.small {
		sum += a.small[i].n.Load()
	}
	return max(sum, 0)
}

// settle lowers the limit, not all at once, towards twice what a collection left.
func (a *accounts) settle() {
	a.mu.Lock()
	defer a.mu.Unlock()
	limit := a.limit.Load()
	a.limit.Store(max(2*a.bytes.Load(), limit-limit/8))
}
