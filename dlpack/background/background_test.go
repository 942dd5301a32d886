package background_test

import (
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/dlbridge/dlbridge/dlpack/background"
)

func TestReleasesThatNeverReturnDelayNoOtherUntilAllPlacesAreTaken(t *testing.T) {
	forever := make(chan bool)
	var blocked sync.WaitGroup
	block := func() {
		blocked.Add(1)
		background.Release(func() {
			blocked.Done()
			<-forever
		})
	}
	for range background.MaxRunning - 1 {
		block()
	}
	blocked.Wait()
	for range 1000 { // one after another: one place is left
		ran := make(chan bool)
		background.Release(func() { close(ran) })
		<-ran
	}
	block()
	blocked.Wait()
	var later []int
	for i := range 100 {
		background.Release(func() { later = append(later, i) })
	}
	forever <- true // one returns, and the others run in its place, in order of their calls
	done := make(chan bool)
	background.Release(func() { close(done) })
	<-done
	assert.Len(t, later, 100)
	assert.IsIncreasing(t, later)
	close(forever)
	background.Wait()
}

func TestReleasesMayReleaseMore(t *testing.T) {
	var all sync.WaitGroup
	all.Add(100)
	var next func(n int)
	next = func(n int) {
		all.Done()
		if n > 1 {
			background.Release(func() { next(n - 1) })
		}
	}
	background.Release(func() { next(100) })
	all.Wait()
	background.Wait()
}

func TestGoroutinesAreInNobodysBubble(t *testing.T) {
	forever := make(chan bool)
	synctest.Test(t, func(t *testing.T) {
		background.Go(func() { <-forever })
		background.Release(func() { <-forever })
	})
	close(forever)
	background.Wait()
}

// In a bubble of testing/synctest, Wait waits for releases outside it.
func TestWaitMayBeCalledInABubble(t *testing.T) {
	release := make(chan bool)
	returned := false
	background.Release(func() {
		<-release
		returned = true
	})
	go func() {
		stacks := make([]byte, 1<<20)
		for !strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "background.Wait(") {
			runtime.Gosched()
		}
		close(release)
	}()
	synctest.Test(t, func(t *testing.T) {
		background.Wait()
		assert.True(t, returned)
	})
}

func TestNilFunctionsDoNothing(t *testing.T) {
	background.Go(nil)
	background.Release(nil)
	background.Wait()
}

// If a release ends its goroutine, the next release takes its place.
func TestReleasesMayEndTheirGoroutine(t *testing.T) {
	for range 2 * background.MaxRunning {
		background.Release(runtime.Goexit)
	}
	ran := false
	background.Release(func() { ran = true })
	background.Wait()
	assert.True(t, ran)
}
