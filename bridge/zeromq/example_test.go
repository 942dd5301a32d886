//go:build cgo

package zeromq_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/dlbridge/dlbridge/bridge"
	"github.com/dlbridge/dlbridge/bridge/zeromq"
	"github.com/dlbridge/dlbridge/dlpack"
)

func Example() {
	c, err := zeromq.NewContext()
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	pull, err := c.NewSocket(zeromq.Pull)
	if err != nil {
		log.Fatal(err)
	}
	address, err := pull.Bind("tcp://127.0.0.1:*")
	if err != nil {
		log.Fatal(err)
	}
	push, err := c.NewSocket(zeromq.Push, zeromq.SendHighWater(10))
	if err != nil {
		log.Fatal(err)
	}
	if err := push.Connect(address); err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	x, err := dlpack.FromSlice([]float32{1, 2, 3, 4}, 2, 2)
	if err != nil {
		log.Fatal(err)
	}
	if err := push.SendTensors(ctx, []*dlpack.Tensor{x}, bridge.Metadata([]byte(`{"run":7}`))); err != nil {
		log.Fatal(err)
	}
	x.Close()

	m, err := pull.Recv(ctx, zeromq.Aligned())
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	label, err := m.DecodeLabel()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(label.Metadata), m.Tensors[0].Shape())
	err = dlpack.Read(m.Tensors[0], func(x []float32) error { fmt.Println(x); return nil })
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// {"run":7} [2 2]
	// [1 2 3 4]
}
