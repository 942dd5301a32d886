//go:build cgo && !asan

package zeromq_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/zeromq"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

const sentBytes = 4 << 20 // of each message

// TestSender is the other process of TestAReceiverHoldsItsHighWaterMark: it sends to the endpoint in otherVariable until it is killed.
func TestSender(t *testing.T) {
	endpoint := os.Getenv(otherVariable)
	if endpoint == "" {
		return
	}
	c := newContext(t)
	push := newSocket(t, c, zeromq.Push, zeromq.SendHighWater(1))
	require.NoError(t, push.Connect(endpoint))
	x := numbers(t, sentBytes/4)
	for {
		require.NoError(t, push.SendTensors(context.Background(), []*dlpack.Tensor{x}))
	}
}

// resident returns the resident memory of this process.
func resident(t *testing.T) int {
	text := must.Do(os.ReadFile("/proc/self/statm"))(t)
	var size, pages int
	must.Do(fmt.Sscan(string(text), &size, &pages))(t)
	return pages * os.Getpagesize()
}

// A receiver that is slower than its sender holds at most one message more than the high-water mark allows.
func TestAReceiverHoldsItsHighWaterMark(t *testing.T) {
	dlpacktest.CheckLeaks(t)
	const mark = 4
	c := newContext(t)
	pull := newSocket(t, c, zeromq.Pull, zeromq.ReceiveHighWater(mark))
	endpoint := must.Do(pull.Bind("tcp://127.0.0.1:*"))(t)
	before := resident(t)
	sender := exec.Command(os.Args[0], "-test.run=^TestSender$")
	sender.Env = append(os.Environ(), otherVariable+"="+endpoint)
	require.NoError(t, sender.Start())
	defer sender.Wait()
	defer sender.Process.Kill()
	most := 0
	for range 20 {
		time.Sleep(20 * time.Millisecond) // so that the sender gets ahead
		got := must.Do(pull.Recv(deadline(t)))(t)
		data, _, err := got.Tensors[0].UnsafeBytes() // without a copy
		require.NoError(t, err)
		require.Len(t, data, sentBytes)
		most = max(most, resident(t))
		got.Close()
	}
	t.Logf("%.1f messages of %d", float64(most-before)/sentBytes, mark)
	// Half a message is added for other memory that the process uses in the meantime.
	assert.Less(t, most-before, (mark+2)*sentBytes+sentBytes/2, "the high-water mark, one message that arrives, and the one that is in use")
}
