//go:build cgo

package zeromq_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/dlbridge/dlbridge/bridge/zeromq"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
)

func TestMain(m *testing.M) {
	if flag.Parse(); os.Getenv(otherVariable) == "" { // a child may test loading
		if err := zeromq.Load(""); err != nil { // examples cannot skip themselves
			fmt.Fprintln(os.Stderr, "the examples are skipped:", err)
			flag.Set("test.skip", strings.Trim(flag.Lookup("test.skip").Value.String()+"|^Example", "|"))
		}
	}
	dlpacktest.Main(m)
}
