package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"github.com/dlbridge/dlbridge/bridge/shm"
	"github.com/dlbridge/dlbridge/bridge/zeromq"
	"github.com/dlbridge/dlbridge/dlpack"
)

// tasks are the tasks of a producer. Each task is not made yet, waits to be sent again, is with a worker, or is done.
type tasks struct {
	made  uint64               // the tasks from 0 to made - 1 were sent at least once
	more  func() bool          // whether to make a further task
	again []uint64             // to be sent again
	sent  map[uint64]time.Time // not yet acknowledged
}

// over reports whether all tasks are made and acknowledged.
func (t *tasks) over() bool { return len(t.sent) == 0 && len(t.again) == 0 && !t.more() }

// next returns a task to send.
func (t *tasks) next() (seqno uint64, ok bool) {
	switch {
	case len(t.again) > 0:
		seqno, t.again = t.again[0], t.again[1:]
	case t.more():
		seqno = t.made
		t.made++
	default:
		return 0, false
	}
	t.sent[seqno] = time.Now()
	return seqno, true
}

// acknowledge removes a task, even if it waits to be sent again. If a task was sent twice, both workers may acknowledge
// it; the second time changes nothing.
func (t *tasks) acknowledge(seqno uint64) {
	delete(t.sent, seqno)
	t.again = slices.DeleteFunc(t.again, func(other uint64) bool { return other == seqno })
}

// failed records that a task was not sent, and must be sent again.
func (t *tasks) failed(seqno uint64) {
	delete(t.sent, seqno)
	t.again = append(t.again, seqno)
}

// retry finds tasks that were sent too long ago, because their worker is gone. They must be sent again.
func (t *tasks) retry(after time.Duration) {
	for seqno, at := range t.sent {
		if time.Since(at) > after {
			t.failed(seqno)
		}
	}
}

// producer sends tasks to workers that ask for them, until all tasks are acknowledged. It prints its endpoint, and
// then, ten times a second, the number of tasks in flight.
func producer(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("producer", flag.ExitOnError)
	bind := flags.String("bind", "tcp://127.0.0.2:*", "endpoint for workers and the collector")
	number := flags.Uint64("number", 0, "the origin of its messages")
	messages := flags.Uint64("messages", 0, "number of tasks; 0 is no limit")
	duration := flags.Duration("for", 0, "how long tasks are made; 0 is no limit")
	bytes := flags.Int("bytes", 1<<20, "size of the tensor of a task")
	random := flags.Bool("random", false, "random sizes up to that size")
	shared := flags.Bool("shared", false, "the tensors stay in shared memory")
	timeout := flags.Duration("retry", 2*time.Second, "how long a task may take before it is sent again")
	flags.Parse(args)

	c, err := zeromq.NewContext()
	if err != nil {
		return err
	}
	defer c.Close()
	router, err := c.NewSocket(zeromq.Router, zeromq.Linger(0), zeromq.SendHighWater(8), zeromq.Mandatory())
	if err != nil {
		return err
	}
	address, err := router.Bind(*bind)
	if err != nil {
		return err
	}
	fmt.Println(address) // for the program that has started this one

	begin := time.Now()
	t := &tasks{sent: map[uint64]time.Time{}, more: func() bool { return false }}
	t.more = func() bool {
		return (*messages == 0 || t.made < *messages) && (*duration == 0 || time.Since(begin) < *duration)
	}
	var asking [][]byte // workers that wait for a task; the one that has waited longest is first
	var reported time.Time
	for !t.over() {
		if time.Since(reported) > 100*time.Millisecond {
			fmt.Println(len(t.sent))
			reported = time.Now()
		}
		frames, err := receive(ctx, router, 50*time.Millisecond)
		if err != nil {
			return err
		}
		switch {
		case len(frames) == 2 && string(frames[1]) == ready:
			asking = append(asking, frames[0])
		case len(frames) == 3 && string(frames[1]) == done && len(frames[2]) == 8:
			t.acknowledge(binary.LittleEndian.Uint64(frames[2]))
		}
		t.retry(*timeout)
		for len(asking) > 0 {
			seqno, ok := t.next()
			if !ok {
				break
			}
			size := *bytes
			if *random {
				size = rand.IntN(size) + 4
			}
			create := dlpack.New
			if *shared {
				create = shm.New
			}
			x, err := create(dlpack.Float32, int64(size/4))
			if err != nil {
				return err
			}
			err = give(ctx, router, asking[0], *number, seqno, x, *timeout)
			x.Close() // libzmq, or the offer, keeps the memory
			asking = asking[1:]
			if errors.Is(err, syscall.EHOSTUNREACH) { // the worker is gone
				t.failed(seqno)
			} else if err != nil {
				return err
			}
		}
	}
	if err := c.Close(); err != nil {
		return err
	}
	if stats := dlpack.ReadStats(); stats.Exports != 0 {
		return fmt.Errorf("%d exports are left", stats.Exports)
	}
	return nil
}

// receive returns the frames of a message, or nil if none arrives in time.
func receive(ctx context.Context, s *zeromq.Socket, wait time.Duration) ([][]byte, error) {
	short, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	frames, err := s.RecvFrames(short)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil, nil
	}
	return frames, err
}

// give sends a task, in x, to a worker. If the worker is gone, the error is EHOSTUNREACH. If the worker ends with the
// task, retry has it sent again.
func give(ctx context.Context, router *zeromq.Socket, to []byte, origin, seqno uint64, x *dlpack.Tensor, held time.Duration) error {
	if err := fill(x, seqno); err != nil {
		return err
	}
	m, err := encode(x, held)
	if err != nil {
		return err
	}
	m.Routing, m.Origin, m.Seqno = [][]byte{to}, origin, seqno
	return router.Send(ctx, m)
}
