package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/dlbridge/dlbridge/bridge/shm"
	"github.com/dlbridge/dlbridge/bridge/zeromq"
	"github.com/dlbridge/dlbridge/dlpack"
)

// The messages between the processes:
//
//	worker → producer     "ready": asks for one task
//	producer → worker     a TENS message: the origin is the number of the producer, the seqno that of the task
//	worker → collector    a TENS message with the origin and the seqno of its task
//	collector → producer  "done" and the seqno, 8 bytes, little-endian: the producer forgets the task
const (
	ready = "ready"
	done  = "done"
)

// encode makes a message from a tensor. If the elements are in shared memory, they stay there, and the message has a
// handle.
func encode(x *dlpack.Tensor, held time.Duration) (*zeromq.Message, error) {
	ts := []*dlpack.Tensor{x}
	return zeromq.Encode(ts, shm.Offers(ts, held, shm.Writable()))
}

// fetch replaces the tensors of a message that were left in shared memory.
func fetch(ctx context.Context, m *zeromq.Message) error {
	label, err := m.DecodeLabel()
	if err != nil {
		return err
	}
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return shm.FetchTensors(short, label, m.Tensors)
}

func doneFrames(seqno uint64) [][]byte {
	return [][]byte{[]byte(done), binary.LittleEndian.AppendUint64(nil, seqno)}
}

// fill writes the elements of a task: the seqno, and one more for each further element. Every process can check them.
func fill(x *dlpack.Tensor, seqno uint64) error {
	return dlpack.Use(x, func(values []float32) error {
		for i := range values {
			values[i] = float32((seqno + uint64(i)) % 1000)
		}
		return nil
	})
}

// check compares the elements of a result with twice the elements of its task.
func check(x *dlpack.Tensor, seqno uint64) error {
	return dlpack.Read(x, func(values []float32) error {
		for i, v := range values {
			if want := 2 * float32((seqno+uint64(i))%1000); v != want {
				return fmt.Errorf("task %d: element %d is %v instead of %v", seqno, i, v, want)
			}
		}
		return nil
	})
}

// dial makes a DEALER connected to a ROUTER.
func dial(c *zeromq.Context, endpoint string) (*zeromq.Socket, error) {
	s, err := c.NewSocket(zeromq.Dealer, zeromq.Linger(0))
	if err != nil {
		return nil, err
	}
	return s, s.Connect(endpoint)
}

// list is a flag that may be given several times.
type list []string

func (l *list) String() string         { return fmt.Sprint(*l) }
func (l *list) Set(value string) error { *l = append(*l, value); return nil }
