//go:build linux && cgo

package shm_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/shm"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
)

var four = dlpack.Spec{DType: dlpack.Float32, Shape: []int64{4}}

// offered returns a handle of a tensor of 4 numbers. Only the offer holds the tensor. The first call in a process opens
// its socket.
func offered(t *testing.T, timeout time.Duration, options ...shm.SendOption) shm.Handle {
	x := must.Do(shm.New(dlpack.Float32, 4))(t)
	defer x.Close()
	require.NoError(t, x.Fill(float32(3)))
	h := must.Do(shm.Offer(x, timeout, append(options, nil)...))(t)
	return h
}

// offering checks at the end of the test that nothing is offered and nothing has leaked.
func offering(t *testing.T) {
	x := must.Do(shm.Fetch(t.Context(), offered(t, time.Minute), four, nil))(t)
	x.Close()
	leavesNothing(t)
}

func TestAnOfferIsFetchedOnce(t *testing.T) {
	offering(t)
	h := offered(t, time.Minute)
	assert.Equal(t, uint64(16), h.Size)
	assert.Equal(t, 1, shm.Offered())
	text := must.Do(json.Marshal(h))(t)
	assert.Less(t, len(text), 200)
	x := must.Do(shm.Fetch(t.Context(), h, four))(t)
	defer x.Close()
	assert.Equal(t, "float32[4] on cpu, read-only [3 3 3 3]", fmt.Sprint(x))
	assert.Zero(t, shm.Offered())
	_, err := shm.Fetch(t.Context(), h, four)
	require.ErrorIs(t, err, shm.ErrNotOffered)
	require.ErrorContains(t, err, "it was used before, its time is over, or its process has ended")
}

func TestViewsAndWritableOffers(t *testing.T) {
	offering(t)
	x := numbers(t, 4, 5)
	row := must.Do(x.Narrow(0, 2, 1))(t)
	defer row.Close()
	h := must.Do(shm.Offer(row, time.Minute, shm.Writable()))(t)
	assert.Equal(t, uint64(40), h.Offset)
	y, err := shm.Fetch(t.Context(), h, dlpack.Spec{DType: dlpack.Float32, Shape: []int64{12}, Strides: []int64{-1}})
	require.ErrorIs(t, err, dlpack.ErrOverflow) // 11 elements before the row
	require.Nil(t, y)
	y = must.Do(shm.Fetch(t.Context(), h, dlpack.Spec{DType: dlpack.Float32, Shape: []int64{5}}))(t)
	defer y.Close()
	require.NoError(t, y.SetAt(float32(-1), 4))
	v := must.Do(x.At(2, 4))(t)
	assert.Equal(t, float32(-1), v)
	h = must.Do(shm.Offer(numbers(t, 4, 5), time.Minute))(t)
	assert.True(t, h.ReadOnly)
	h.ReadOnly = false
	must.Fail(shm.Fetch(t.Context(), h, dlpack.Spec{DType: dlpack.Float32, Shape: []int64{4, 5}}))(t, dlpack.ErrReadOnly)
	plain := must.Do(dlpack.New(dlpack.Float32, 3))(t)
	defer plain.Close()
	must.Fail(shm.Offer(plain, time.Minute))(t, shm.ErrNotShared)
	_, err = shm.Offer(numbers(t, 0, 3), time.Minute)
	require.ErrorIs(t, err, dlpack.ErrLayout)
	require.ErrorContains(t, err, "it has no elements, so there is nothing to fetch")
}

func TestAnOfferEnds(t *testing.T) {
	offering(t)
	h := offered(t, time.Millisecond)
	require.Eventually(t, func() bool { return shm.Offered() == 0 }, 10*time.Second, time.Millisecond)
	must.Fail(shm.Fetch(t.Context(), h, four))(t, shm.ErrNotOffered)
}

func TestHandlesThatAreNotOfOfferAreRefused(t *testing.T) {
	offering(t)
	for _, test := range []struct {
		name   string
		change func(h *shm.Handle, s *dlpack.Spec)
		text   string
	}{
		{"socket", func(h *shm.Handle, _ *dlpack.Spec) { h.Socket = "../../run/docker.sock" }, "the socket must be"},
		{"another socket", func(h *shm.Handle, _ *dlpack.Spec) { h.Socket = "dlbridge-shm-/tmp" }, "the socket must be"},
		{"nobody", func(h *shm.Handle, _ *dlpack.Spec) { h.Socket = "dlbridge-shm-" + strings.Repeat("0", 32) }, "its process has ended"},
		{"no token", func(h *shm.Handle, _ *dlpack.Spec) { h.Token = "" }, "the token must be 32 hexadecimal digits"},
		{"token", func(h *shm.Handle, _ *dlpack.Spec) { h.Token = strings.Repeat("x", 32) }, "the token must be 32 hexadecimal digits"},
		{"another token", func(h *shm.Handle, _ *dlpack.Spec) { h.Token = strings.Repeat("0", 32) }, "it was used before"},
		{"offset", func(h *shm.Handle, _ *dlpack.Spec) { h.Offset = 4 }, "the segment has 16 bytes"},
		{"size", func(h *shm.Handle, s *dlpack.Spec) { h.Size, s.Shape = 20, []int64{5} }, "the segment has 16 bytes"},
		{"small size", func(h *shm.Handle, _ *dlpack.Spec) { h.Size = 15 }, "the segment has 15 bytes"},
		{"large offset", func(h *shm.Handle, _ *dlpack.Spec) { h.Offset = 1 << 63 }, "the segment has 16 bytes"},
		{"shape", func(_ *shm.Handle, s *dlpack.Spec) { s.Shape = []int64{5} }, "the segment has 16 bytes"},
		{"no elements", func(_ *shm.Handle, s *dlpack.Spec) { s.Shape = []int64{0} }, "it has no elements, but is in a segment"},
		{"negative shape", func(_ *shm.Handle, s *dlpack.Spec) { s.Shape = []int64{-4} }, "shape[0] is -4, must not be negative"},
		{"broadcast", func(_ *shm.Handle, s *dlpack.Spec) { s.Shape, s.Strides = []int64{5}, []int64{0} }, "is a broadcast"},
		{"type", func(_ *shm.Handle, s *dlpack.Spec) { s.DType = 0xff }, "dtype"},
		{"rank", func(_ *shm.Handle, s *dlpack.Spec) { s.Shape = make([]int64, 1000) }, "dimensions"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h, spec := offered(t, time.Minute), four
			bad := h
			test.change(&bad, &spec)
			x, err := shm.Fetch(t.Context(), bad, spec)
			require.ErrorContains(t, err, test.text)
			require.Nil(t, x)
			if x, err := shm.Fetch(t.Context(), h, four); err == nil { // unless the segment itself was refused
				x.Close()
			}
		})
	}
	assert.Zero(t, shm.Offered())
}

// A process that connects and sends nothing, or something wrong, disturbs nobody.
func TestStrangersAtTheSocketDisturbNobody(t *testing.T) {
	offering(t)
	h := offered(t, time.Minute)
	var strangers []net.Conn
	for i := range 50 {
		conn := must.Do(net.Dial("unix", "@"+h.Socket))(t)
		conn.Write(make([]byte, i))
		strangers = append(strangers, conn)
	}
	x := must.Do(shm.Fetch(t.Context(), h, four))(t)
	x.Close()
	for _, conn := range strangers {
		conn.Close()
	}
}

// On a busy machine a process may take long between connecting and sending the last byte of its token.
func TestATokenMayComeSlowly(t *testing.T) {
	offering(t)
	h := offered(t, time.Minute)
	token := must.Do(hex.DecodeString(h.Token))(t)
	conn := must.Do(net.Dial("unix", "@"+h.Socket))(t)
	defer conn.Close()
	must.Do(conn.Write(token[:8]))(t)
	time.Sleep(1200 * time.Millisecond)
	must.Do(conn.Write(token[8:]))(t)
	answer, control := make([]byte, 1), make([]byte, 64)
	n, m, _, _, err := conn.(*net.UnixConn).ReadMsgUnix(answer, control)
	require.NoError(t, err)
	require.Equal(t, []byte{1}, answer[:n])
	messages := must.Do(syscall.ParseSocketControlMessage(control[:m]))(t)
	files := must.Do(syscall.ParseUnixRights(&messages[0]))(t)
	syscall.Close(files[0])
}

// poll refuses more descriptors than RLIMIT_NOFILE, which a process may lower after it has opened them.
func TestOffersAreAnsweredAfterTheLimitOfDescriptorsWasLowered(t *testing.T) {
	offering(t)
	h := offered(t, time.Minute)
	var visitors []*net.UnixConn
	for range 5 {
		conn := must.Do(net.Dial("unix", "@"+h.Socket))(t)
		defer conn.Close()
		_, err := conn.Write([]byte{0}) // of a token
		require.NoError(t, err)
		visitors = append(visitors, conn.(*net.UnixConn))
	}
	x, err := shm.Fetch(t.Context(), offered(t, time.Minute), four) // by then all of them have been accepted
	require.NoError(t, err)
	x.Close()
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before))
	defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before)
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 3, Max: before.Max}))
	for _, conn := range visitors[:2] { // poll may have begun before the first
		_, err = conn.Write(make([]byte, 15)) // the rest of a token without an offer
		require.NoError(t, err)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
		must.Fail(conn.Read(make([]byte, 1)))(t, io.EOF)
	}
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before))
	x = must.Do(shm.Fetch(t.Context(), h, four))(t)
	x.Close()
}

func init() {
	// has as many descriptors in transit as a user other than root may have
	roles["too many under way"] = func() (err error) {
		if os.Getuid() == 0 {
			if err := syscall.Setuid(65534); err != nil {
				return err
			}
		}
		var before syscall.Rlimit
		syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before)
		syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 64, Max: before.Max})
		a, b := ends(failure{})
		x, err := shm.New(dlpack.Float32, 4)
		if err != nil {
			return err
		}
		h, err := shm.Offer(x, time.Minute)
		if err != nil {
			return err
		}
		sent := 0
		for ; err == nil && sent < 200; sent++ {
			err = shm.Send(context.Background(), a, []*dlpack.Tensor{x})
		}
		if !errors.Is(err, syscall.ETOOMANYREFS) {
			return fmt.Errorf("send: %v", err)
		}
		_, err = shm.Fetch(context.Background(), h, four)
		if !errors.Is(err, syscall.ETOOMANYREFS) || !strings.Contains(err.Error(), "too many of its user's descriptors are in transit") || shm.Offered() != 1 {
			return fmt.Errorf("fetch: %v, with %d offers", err, shm.Offered())
		}
		for range sent - 1 {
			if _, err := shm.Recv(context.Background(), b); err != nil {
				return err
			}
		}
		_, err = shm.Fetch(context.Background(), h, four)
		return err
	}
}

// If the system refuses to send a descriptor, the offer stays unchanged.
func TestAnOfferThatCannotBeSentRemains(t *testing.T) {
	cmd, _ := child(t, "too many under way")
	require.NoError(t, cmd.Wait())
}

// socketName returns a name that no other process of the machine has.
func socketName() string {
	name := make([]byte, 16)
	rand.Read(name)
	return "dlbridge-shm-" + hex.EncodeToString(name)
}

// The socket of a handle may belong to a process that accepts and never answers.
func TestASocketThatNeverAnswersIsLeftInTime(t *testing.T) {
	leavesNothing(t)
	name := socketName()
	listener := must.Do(net.Listen("unix", "@"+name))(t)
	defer listener.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	must.Fail(shm.Fetch(ctx, shm.Handle{Socket: name, Token: strings.Repeat("0", 32), Size: 16}, four))(t, context.DeadlineExceeded)
}

func TestManyOffersAreFetchedAtOnce(t *testing.T) {
	offering(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				h := offered(t, time.Minute)
				var both sync.WaitGroup
				got := make([]*dlpack.Tensor, 2)
				for i := range got { // only one gets the segment
					both.Go(func() { got[i], _ = shm.Fetch(t.Context(), h, four) })
				}
				both.Wait()
				assert.True(t, (got[0] == nil) != (got[1] == nil))
				for _, x := range got {
					x.Close()
				}
			}
		})
	}
	all.Wait()
	assert.Zero(t, shm.Offered())
}
