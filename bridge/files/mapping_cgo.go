//go:build cgo && (linux || darwin)

package files

/*
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

typedef struct {
  void *base;
  size_t size;
} mapping;

// map_file returns NULL and sets errno if the system refuses.
static mapping *map_file(int fd, size_t size, int writable) {
  mapping *m = malloc(sizeof *m);
  if (!m) return NULL;
  const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  *m = (mapping){mmap(NULL, size, protection, MAP_SHARED, fd, 0), size};
  if (m->base != MAP_FAILED) return m;
  const int reason = errno;
  free(m);
  errno = reason;
  return NULL;
}

static void unmap(void *ctx) {
  mapping *m = ctx;
  munmap(m->base, m->size);
  free(m);
}

static void *address_of_unmap(void) { return (void *)unmap; }
*/
import "C"

import (
	"os"
	"unsafe"

	"github.com/dlbridge/dlbridge/dlpack"
)

// mapping is the memory of a file. The tensors of the file are views of memory. Closing the last one ends the mapping,
// on any thread.
type mapping struct {
	data   []byte
	memory *dlpack.Tensor // the same bytes
}

func newMapping(file *os.File, size int, writable bool) (mapping, error) {
	var protection C.int
	if writable {
		protection = 1
	}
	m, err := C.map_file(C.int(file.Fd()), C.size_t(size), protection)
	if m == nil {
		return mapping{}, err
	}
	memory, err := dlpack.Lend(m.base, int64(size), !writable, C.address_of_unmap(), unsafe.Pointer(m))
	if err != nil {
		C.unmap(unsafe.Pointer(m))
		return mapping{}, err
	}
	return mapping{unsafe.Slice((*byte)(m.base), size), memory}, nil
}

func (m *mapping) close() { m.memory.Close() }
