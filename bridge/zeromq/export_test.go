//go:build cgo

package zeromq

import (
	"context"
	"os"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// Need skips a test where libzmq is not installed.
func Need(t testing.TB) {
	t.Helper()
	err := Load("")
	if err != nil && os.Getenv(LibraryVariable) == "" {
		t.Skip(err)
	}
	require.NoError(t, err)
}

// Rename changes the name of the file that the loader searches for.
func Rename(file string) { libzmq.File = file }

// CountTries waits for a message, and counts in tries how often it looks at the socket.
func CountTries(s *Socket, ctx context.Context, tries *atomic.Int64) error {
	r := receivingOf(nil)
	return s.do(ctx, "receive", pollIn, func() (bool, error) {
		tries.Add(1)
		frames, _, err := s.tryReceive(r)
		return frames != nil, err
	})
}

// FetchesNothing makes the socket lose the rest of a message if its connection ends after libzmq has fetched the first
// frame.
func FetchesNothing(s *Socket) { s.kind = Pull }

// Looks returns the number of sockets in looks.
func Looks() int {
	looks.mu.Lock()
	defer looks.mu.Unlock()
	return len(looks.sockets)
}

// Path returns the path of the libzmq that was loaded.
func Path() string { return file() }
