/* fixture.h: a producer and a consumer in plain C, for tests of the border. */
#ifndef DLPACKTEST_FIXTURE_H_
#define DLPACKTEST_FIXTURE_H_

#include <dlpack/dlpack.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* A managed tensor of the fixture's own, in the old or the new form, with its deleter's calls
 * counted. The memory stays until fixture_free, so that a call too many is counted, too. */
typedef struct fixture {
  union {
    DLManagedTensorVersioned versioned;
    DLManagedTensor legacy;
  } managed;
  int64_t deletes;
  int64_t thread; /* that deleted it last */
  void *data;
  void *page; /* of a guarded one */
  int closed; /* calls of the deleter wait until it is 0 */
  int64_t waiting; /* such calls */
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  int64_t dims[];
} fixture;

fixture *fixture_new(int32_t room, size_t bytes);
/* A versioned struct whose first byte behind `flags` is unmapped. */
fixture *fixture_guarded(uint32_t major);
void *fixture_managed(fixture *f);
void fixture_arm(fixture *f, int legacy);
void fixture_free(fixture *f);
int64_t fixture_deletes(fixture *f);
/* Makes calls of the deleter wait until fixture_open, which returns once all of them have. */
void fixture_close(fixture *f);
void fixture_open(fixture *f);
int64_t fixture_waiting(fixture *f);
/* The release of lent memory, a void (*)(void *ctx). */
void *fixture_taker(void);
int64_t fixture_thread(fixture *f);
/* A release whose ctx is a DLManagedTensorVersioned: it calls the deleter. */
void *fixture_releaser(void);
/* A release that calls a function of Go's by its handle, which lies where ctx points to: in memory to free. */
void *fixture_caller(void);
void *fixture_callback(uintptr_t handle);

/* A versioned tensor of `count` float32 of value 0, in one allocation that its deleter frees. */
DLManagedTensorVersioned *fixture_allocate(int64_t count);

/* Calls the deleters of `count` managed tensors from `threads` new threads, all at once. */
int fixture_delete_on_threads(void **managed, int64_t count, int32_t threads, int legacy);
/* What a C consumer does: adds up, or overwrites, float32 elements by shape and strides. */
double fixture_sum(const DLTensor *t);
void fixture_fill(const DLTensor *t, float value);
int64_t fixture_this_thread(void);
void fixture_nothing(void);

#endif
