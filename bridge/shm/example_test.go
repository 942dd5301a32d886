//go:build linux && cgo

package shm_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/dlbridge/dlbridge/bridge/shm"
	"github.com/dlbridge/dlbridge/dlpack"
)

// The receiver would be another process. Errors are ignored for brevity.
func Example() {
	folder, _ := os.MkdirTemp("", "shm")
	defer os.RemoveAll(folder)
	listener, _ := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(folder, "socket"), Net: "unix"})
	sent := make(chan bool)
	go func() {
		defer close(sent)
		conn, _ := net.DialUnix("unix", nil, listener.Addr().(*net.UnixAddr))
		defer conn.Close()
		t, _ := shm.New(dlpack.Float32, 2, 3)
		defer t.Close()
		t.Fill(float32(1.5))
		shm.Send(context.Background(), conn, []*dlpack.Tensor{t})
	}()

	conn, _ := listener.AcceptUnix()
	defer conn.Close()
	ts, _ := shm.Recv(context.Background(), conn)
	defer ts[0].Close()
	fmt.Println(ts[0])
	<-sent
	// Output:
	// float32[2 3] on cpu, read-only
	// [[1.5 1.5 1.5]
	//  [1.5 1.5 1.5]]
}
