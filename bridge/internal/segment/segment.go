//go:build cgo

package segment

/*
#cgo CFLAGS: -std=gnu11 -D_GNU_SOURCE -O2 -fno-omit-frame-pointer -I${SRCDIR}/../../../include -I${SRCDIR}/../../../dlpack/internal/core
*/
import "C"

import (
	_ "github.com/dlbridge/dlbridge/dlpack" // the C core
	_ "github.com/dlbridge/dlbridge/include/dlpack"
)
