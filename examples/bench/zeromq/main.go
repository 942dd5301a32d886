// Zeromq times TENS messages over ZeroMQ: dlbridge, a loop in C on the same libzmq, and pebbe/zmq4. Each path sends tensors
// of the same sizes, and its receiver reads one byte of each page.
package main

/*
#cgo pkg-config: libzmq
#include "native.h"
#include <stdlib.h>
#include <zmq.h>
*/
import "C"

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/dlbridge/dlbridge/bridge"
	"github.com/dlbridge/dlbridge/bridge/zeromq"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/tens"
	"github.com/pebbe/zmq4"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

var sink int

func touch(data []byte) {
	sum := 0
	for at := 0; at < len(data); at += 4096 {
		sum += int(data[at])
	}
	sink += sum
}

// A workload is a number of messages over an endpoint.
type workload struct {
	Name     string
	endpoint string
	bytes    int // of each tensor
	tensors  int
	rounds   int
}

func (w workload) address() string {
	if w.endpoint == "inproc" {
		return "inproc://bench"
	}
	return "tcp://127.0.0.1:*"
}

// parts returns the tensors of a message, in C memory.
func (w workload) parts() (ts []*dlpack.Tensor) {
	for range w.tensors {
		t, err := dlpack.New(dlpack.Uint8, int64(w.bytes))
		check(err)
		check(dlpack.Use(t, func(data []byte) error { clear(data); return nil }))
		ts = append(ts, t)
	}
	return ts
}

func ours(w workload) {
	c, err := zeromq.NewContext()
	check(err)
	defer c.Close()
	pull, err := c.NewSocket(zeromq.Pull)
	check(err)
	push, err := c.NewSocket(zeromq.Push)
	check(err)
	address, err := pull.Bind(w.address())
	check(err)
	check(push.Connect(address))
	ts := w.parts()
	ctx := context.Background()
	go func() {
		for range w.rounds {
			check(push.SendTensors(ctx, ts))
		}
	}()
	for range w.rounds {
		m, err := pull.Recv(ctx)
		check(err)
		for _, t := range m.Tensors {
			data, _, err := t.UnsafeBytes()
			check(err)
			touch(data)
		}
		m.Close()
	}
	check(push.Close())
	for _, t := range ts {
		check(t.Close())
	}
}

func native(w workload) {
	c := C.zmq_ctx_new()
	pull, push := C.zmq_socket(c, C.ZMQ_PULL), C.zmq_socket(c, C.ZMQ_PUSH)
	address := C.CString(w.address())
	defer C.free(unsafe.Pointer(address))
	if C.zmq_bind(pull, address) != 0 {
		panic("bind")
	}
	var last [256]C.char
	size := C.size_t(256)
	C.zmq_getsockopt(pull, C.ZMQ_LAST_ENDPOINT, unsafe.Pointer(&last), &size)
	C.zmq_connect(push, &last[0])
	ts := w.parts()
	m, _, err := bridge.Encode(ts)
	check(err)
	frames := m.Encode()
	parts := (*[16]unsafe.Pointer)(C.calloc(16, 8))
	sizes := (*[16]C.size_t)(C.calloc(16, 8))
	for i, frame := range frames {
		if i < 2 {
			parts[i] = C.CBytes(frame)
		} else {
			parts[i] = unsafe.Pointer(unsafe.SliceData(frame))
		}
		sizes[i] = C.size_t(len(frame))
	}
	loop := C.native_loop{parts: &parts[0], sizes: &sizes[0], count: C.int(len(frames)), rounds: C.int(w.rounds)}
	sending, receiving := loop, loop
	sending.socket, receiving.socket = push, pull
	go func() {
		if C.native_send(sending) != 0 {
			panic("send")
		}
	}()
	if C.native_receive(receiving) < 0 {
		panic("receive")
	}
	C.zmq_close(push)
	C.zmq_close(pull)
	C.zmq_ctx_term(c)
	for _, t := range ts {
		check(t.Close())
	}
}

func pebbe(w workload) {
	c, err := zmq4.NewContext()
	check(err)
	pull, err := c.NewSocket(zmq4.PULL)
	check(err)
	push, err := c.NewSocket(zmq4.PUSH)
	check(err)
	check(pull.Bind(w.address()))
	address, err := pull.GetLastEndpoint()
	check(err)
	check(push.Connect(address))
	ts := w.parts()
	go func() {
		runtime.LockOSThread()
		for range w.rounds {
			m, _, err := bridge.Encode(ts)
			check(err)
			frames := m.Encode()
			for {
				_, err = push.SendMessage(frames)
				if zmq4.AsErrno(err) != zmq4.Errno(syscall.EINTR) {
					break
				}
			}
			check(err)
		}
	}()
	for range w.rounds {
		var frames [][]byte
		for {
			frames, err = pull.RecvMessageBytes(0)
			if zmq4.AsErrno(err) != zmq4.Errno(syscall.EINTR) {
				break
			}
		}
		check(err)
		msg, err := tens.Decode(frames)
		check(err)
		got, err := bridge.Decode(msg)
		check(err)
		for _, t := range got {
			data, _, err := t.UnsafeBytes()
			check(err)
			touch(data)
			t.Close()
		}
	}
	push.Close()
	pull.Close()
	check(c.Term())
	for _, t := range ts {
		check(t.Close())
	}
}

func cpu() time.Duration {
	var u syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// python times pyzmq in a separate process.
func python(w workload, turns int) (seconds, busy []float64) {
	out, err := exec.Command(os.Getenv("PYTHON"), "zeromq/pyzmq.py", w.endpoint, fmt.Sprint(w.bytes), fmt.Sprint(w.tensors),
		fmt.Sprint(w.rounds), fmt.Sprint(turns)).Output()
	check(err)
	var found struct {
		Version      string
		Seconds, CPU []float64
	}
	check(json.Unmarshal(out, &found))
	pyzmq = found.Version
	return found.Seconds, found.CPU
}

var pyzmq string

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

func main() {
	turns := flag.Int("turns", 9, "how often each path is timed, in turn")
	flag.Parse()
	paths := []struct {
		name string
		run  func(workload)
	}{{"dlbridge", ours}, {"C", native}, {"pebbe/zmq4", pebbe}}
	workloads := []workload{
		{"16 MiB, tcp", "tcp", 16 << 20, 1, 100},
		{"16 MiB, inproc", "inproc", 16 << 20, 1, 2000},
		{"3 x 64 bytes, tcp", "tcp", 64, 3, 50000},
		{"3 x 64 bytes, inproc", "inproc", 64, 3, 50000},
		{"128 KiB, tcp", "tcp", 128 << 10, 1, 5000},
	}
	var rows strings.Builder
	for _, w := range workloads {
		seconds, busy := map[string][]float64{}, map[string][]float64{}
		for range *turns {
			for _, p := range paths {
				start, before := time.Now(), cpu()
				p.run(w)
				seconds[p.name] = append(seconds[p.name], time.Since(start).Seconds())
				busy[p.name] = append(busy[p.name], (cpu() - before).Seconds())
			}
			s, b := python(w, 1)
			seconds["pyzmq"], busy["pyzmq"] = append(seconds["pyzmq"], s...), append(busy["pyzmq"], b...)
		}
		gb := float64(w.bytes*w.tensors*w.rounds) / 1e9
		for _, name := range []string{"dlbridge", "C", "pebbe/zmq4", "pyzmq"} {
			each := median(seconds[name]) / float64(w.rounds)
			fmt.Fprintf(&rows, "| %s | %s | %.0f | %.1f | %.3g | %.2f |\n", w.Name, name, 1/each, each*1e6, median(busy[name])/gb,
				median(seconds[name])/median(seconds["dlbridge"]))
		}
	}
	version, err := zeromq.Version()
	check(err)
	fmt.Printf("libzmq %s; pyzmq %s. %d CPUs, %s.\n\n", version, pyzmq, runtime.NumCPU(), runtime.Version())
	fmt.Println("| message | path | messages/s | µs per message | CPU s/GB | time relative to dlbridge |\n|---|---|--:|--:|--:|--:|")
	fmt.Print(rows.String())
}
