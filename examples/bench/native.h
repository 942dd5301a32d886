/* native.h: the C side of the benchmarks: a producer, consumers on Go threads and on C threads, and baselines. All
 * times are nanoseconds of the monotonic clock, which is read once before and once after a loop. */
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

/* Produces n managed tensors of 1024 float32. Each is one malloc, which its deleter frees; all share static data. */
void produce(void **managed, int64_t n);
/* Produces and deletes a managed tensor n times. */
int64_t produce_and_delete(int64_t n);
/* Allocates zeroed, reference-counted memory, exports it once and drops both references, n times. */
int64_t make_export_release_close(int64_t n);
/* Produces n Arrow arrays of 1024 float32 in the caller's structs. */
void produce_arrow(struct ArrowArray *arrays, int64_t n);
/* Releases n Arrow arrays. */
int64_t release_arrow(struct ArrowArray *arrays, int64_t n);

/* Call deleters and return how many nanoseconds that took: delete_here n of them on the calling thread, delete_there n on a C thread,
 * the same in every call, and delete_on_new_thread one on a new thread. */
int64_t delete_here(void **managed, int64_t n);
int64_t delete_there(void **managed, int64_t n);
int64_t delete_on_new_thread(void *managed);

/* start_unpinning starts a thread that calls the deleter of an export of dlbridge after a millisecond. The thread
 * then waits until the library has unpinned the memory, at most ten seconds, and stores the time in nanoseconds. */
typedef struct unpinning {
  void *managed;
  int64_t nanoseconds; /* 0 until the thread has finished */
} unpinning;
void start_unpinning(unpinning *l);

/* Calls an empty Go function n times, on the calling thread or on the C thread of delete_there. */
int64_t call_back_here(int64_t n);
int64_t call_back_there(int64_t n);

/* Returns the deleter of the naive design, which calls a Go function. */
void *naive_deleter(void);

/* Run a loop written in another language, from a library opened with dlopen. */
typedef int64_t (*loop)(int64_t n);
void *open_library(const char *path);
void *find_loop(void *library, const char *name);
int64_t run_loop(void *function, int64_t n);

#endif
