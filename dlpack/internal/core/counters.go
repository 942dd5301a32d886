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

// A sharded is a sum in parts. Goroutines that change it at the same time mostly change different parts. A reader adds
// up all parts; that is rare.
type sharded [maxShards]struct {
	n atomic.Int64
	_ [56]byte
}

// own returns the caller's part.
func (s *sharded) own() *atomic.Int64 { return &s[shardOfThisThread()%maxShards].n }

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

// live returns a count that is at least the number of objects that are alive throughout the call, because it reads the
// number of ended objects first.
func (c *counter) live() int64 {
	ended := c.ended.sum()
	return c.begun.sum() - ended
}

// foreign counts bytes that the garbage collector does not see. Without this count, forgotten imports of many megabytes
// would cause no collection, and so would never be released.
var foreign = byteCounts{due: make(chan struct{}, 1)}

// byteCounts starts a garbage collection when the bytes exceed a limit, and then sets the limit to twice the bytes. So
// memory that is in use, or closed in time, causes few collections. Later calls of settle adjust the limit to the
// remaining bytes.
type byteCounts struct {
	bytes atomic.Int64
	small sharded // bytes that do not make a batch yet
	limit atomic.Int64
	once  sync.Once
	mu    sync.Mutex // held by settle: of two calls at once, the value of the later one must stay
	due   chan struct{}
}

// foreignMost is the largest number of bytes that are counted for one memory. A producer may describe more memory than
// exists. Without this bound, two descriptions could make the sum overflow, or raise the limit so high that no
// collection ever starts.
const foreignMost = 1 << 30

// foreignFloor is the lowest limit, in bytes.
const foreignFloor = 64 << 20

// foreignBatch is the number of bytes that a part of small must reach before it is added to bytes, so that small
// tensors rarely change a word that all goroutines share.
const foreignBatch = 256 << 10

func (a *byteCounts) add(n int64) {
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

func (a *byteCounts) start() {
	eachCycle(a.settle)
	background.Go(func() {
		for range a.due {
			runtime.GC()
		}
	})
}

// sum returns the number of foreign bytes. It may lack changes that other goroutines make during the call.
func (a *byteCounts) sum() int64 {
	return max(a.bytes.Load()+a.small.sum(), 0)
}

// settle is called after each garbage collection and after each release of forgotten memory. It sets the limit for the
// next collection to twice the foreign bytes that are still alive, but lowers it by at most an eighth.
func (a *byteCounts) settle() {
	a.mu.Lock()
	defer a.mu.Unlock()
	limit := a.limit.Load()
	a.limit.Store(max(2*a.bytes.Load(), limit-limit/8))
}
