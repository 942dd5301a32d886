package main

import (
	"context"
	"errors"
	"flag"
	"time"

	"gorgonia.org/tensor"

	"github.com/dlbridge/dlbridge/bridge/gorgonia"
	"github.com/dlbridge/dlbridge/bridge/shm"
	"github.com/dlbridge/dlbridge/bridge/zeromq"
)

// held is how long a worker holds a result in shared memory for the collector.
const held = 10 * time.Second

// worker doubles the elements of tasks in place, with gorgonia.
func worker(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("worker", flag.ExitOnError)
	var from list
	flags.Var(&from, "from", "endpoint of a producer; may be given several times")
	to := flags.String("to", "", "endpoint of the collector")
	tasks := flags.Int("tasks", 2, "how many tasks of each producer the worker holds")
	flags.Parse(args)

	c, err := zeromq.NewContext()
	if err != nil {
		return err
	}
	defer c.Close()
	push, err := c.NewSocket(zeromq.Push, zeromq.Linger(0), zeromq.SendHighWater(8))
	if err != nil {
		return err
	}
	if err := push.Connect(*to); err != nil {
		return err
	}
	var producers []*zeromq.Socket
	for _, endpoint := range from {
		s, err := dial(c, endpoint)
		if err != nil {
			return err
		}
		for range *tasks {
			if err := s.SendFrames(ctx, [][]byte{[]byte(ready)}); err != nil {
				return err
			}
		}
		producers = append(producers, s)
	}
	for {
		s, err := zeromq.Poll(ctx, producers...)
		if err != nil {
			return nil // the end
		}
		if err := work(ctx, s, push); err != nil {
			return err
		}
	}
}

// work does one task, and asks for the next.
func work(ctx context.Context, s, push *zeromq.Socket) error {
	task, err := s.Recv(ctx, zeromq.Writable(), zeromq.Aligned())
	if err != nil {
		return err
	}
	defer task.Close()
	if err := fetch(ctx, task); errors.Is(err, shm.ErrNotOffered) { // it took too long, and was sent again
		return s.SendFrames(ctx, [][]byte{[]byte(ready)})
	} else if err != nil {
		return err
	}
	dense, release, err := gorgonia.Dense(task.Tensors[0])
	if err != nil {
		return err
	}
	defer release()
	if _, err := tensor.Mul(dense, float32(2), tensor.UseUnsafe()); err != nil {
		return err
	}
	result, err := encode(task.Tensors[0], held)
	if err != nil {
		return err
	}
	result.Origin, result.Seqno = task.Origin, task.Seqno
	if err := push.Send(ctx, result); err != nil {
		return err
	}
	return s.SendFrames(ctx, [][]byte{[]byte(ready)})
}
