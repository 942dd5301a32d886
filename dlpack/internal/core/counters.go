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

// A sharded is a sum that many goroutines change at once, mostly each a part of its own, and few read.
type sharded [maxShards]struct {
	n atomic.Int64
	_ [56]byte
}

// own returns the caller's part.
func (s *sharded) own() *atomic.Int64 { return &s[here()%maxShards].n }

func (s *sharded) sum() (sum int64) {
	for i := range s {
		sum += s[i].n.Load()
	}
	return sum
}

// A counter counts live objects.
type counter struct{ begun, ended sharded }

func (c *counter) begin()      { c.begun.own().Add(1) }
func (c *counter) end(n int64) { c.ended.own().Add(n) }

// live returns a count that is never below the number of objects that are alive throughout the call: it reads what has
// ended first.
func (c *counter) live() int64 {
	ended := c.ended.sum()
	return c.begun.sum() - ended
}

// foreign accounts for bytes that the collector does not see. Forgotten imports of many megabytes
// would not bring about a single collection, and so would never be released.
var foreign = accounts{due: make(chan struct{}, 1)}

// A collection is due when the bytes pass a limit. Each that is due doubles the limit, so that memory in
// use, or closed in time, brings about few; collections and what they find lower it again.
type accounts struct {
	bytes atomic.Int64
	small sharded // bytes that do not make a batch yet
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
	small := a.small.own()
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
	return max(a.bytes.Load()+a.small.sum(), 0)
}

// settle lowers the limit, not all at once, towards twice what a collection left.
func (a *accounts) settle() {
	a.mu.Lock()
	defer a.mu.Unlock()
	limit := a.limit.Load()
	a.limit.Store(max(2*a.bytes.Load(), limit-limit/8))
}
