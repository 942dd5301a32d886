/* native.h: what the runs need from C: a producer, consumers on threads of Go's and of C's, baselines. All times
 * are nanoseconds of the monotonic clock, read once before and once after a loop. */
#ifndef BENCH_NATIVE_H_
#define BENCH_NATIVE_H_

#include <dlpack/dlpack.h>
#include <stdint.h>

/* The Arrow C data interface, "The ArrowArray structure". */
struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void **buffers;
  struct ArrowArray **children;
  struct ArrowArray *dictionary;
  void (*release)(struct ArrowArray *);
  void *private_data;
};

void nothing(void);

/* n tensors of 1024 float32, each one malloc; the data lies elsewhere. The deleter frees. */
void produce(void **managed, int64_t n);
int64_t produce_and_delete(int64_t n);
/* n times zeroed memory with counted holders, exported once and released, and let go of. */
int64_t make_export_release_close(int64_t n);
/* The same as Arrow arrays, in the caller's structs. */
void produce_arrow(struct ArrowArray *arrays, int64_t n);
int64_t release_arrow(struct ArrowArray *arrays, int64_t n);

/* Calls n deleters: on the calling thread, on one thread of C's that lives on, on a new thread each. */
int64_t delete_here(void **managed, int64_t n);
int64_t delete_there(void **managed, int64_t n);
int64_t delete_on_new_thread(void *managed);

/* Starts a thread that calls the deleter of one of our exports after a millisecond. It then waits until the
 * library has unpinned the memory, for ten seconds at most, and stores how long that took. */
typedef struct unpinning {
  void *managed;
  int64_t nanoseconds; /* 0 while it runs */
} unpinning;
void start_unpinning(unpinning *l);

/* n calls of an empty Go function. */
int64_t call_back_here(int64_t n);
int64_t call_back_there(int64_t n);

/* The deleter of the naive design: a Go function. */
void *naive_deleter(void);

/* Runs a loop of another language's, from a library opened with dlopen. */
typedef int64_t (*loop)(int64_t n);
void *open_library(const char *path);
void *find_loop(void *library, const char *name);
int64_t run_loop(void *function, int64_t n);

#endif
