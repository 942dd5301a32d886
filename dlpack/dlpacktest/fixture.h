/* fixture.h: a producer and a consumer in plain C, for tests of the border. */
#ifndef DLPACKTEST_FIXTURE_H_
#define DLPACKTEST_FIXTURE_H_

#include <dlpack/dlpack.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* A managed tensor in either form, with a count of its deleter's calls. The deleter frees nothing: the memory stays until
 * fixture_free, so that calls too many can be counted. */
typedef struct fixture {
  union {
    DLManagedTensorVersioned versioned;
    DLManagedTensor legacy;
  } own;
  void *managed; /* the address of `own`, or that inside of `page` */
  int64_t deletes;
  void *data;
  void *page; /* the mapping of fixture_guarded */
  int closed; /* while it is 1, calls of the deleter wait */
  int64_t waiting; /* number of waiting calls */
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  int64_t dims[];
} fixture;

fixture *fixture_new(int32_t room, size_t bytes);
/* Makes a versioned struct that ends at the end of its page, right after `flags`; the next page is not accessible. */
fixture *fixture_guarded(uint32_t major);
void fixture_free(fixture *f);
/* Makes calls of the deleter wait until fixture_open, which returns when all of them have returned. */
void fixture_close(fixture *f);
void fixture_open(fixture *f);
/* The deleters of both forms, which count their calls, and the release of lent memory, which counts its calls in a fixture. */
void fixture_delete_versioned(DLManagedTensorVersioned *self);
void fixture_delete_legacy(DLManagedTensor *self);
void fixture_count(void *ctx);
/* A release function that expects a DLManagedTensorVersioned as ctx and calls its deleter. */
void fixture_release_managed(void *ctx);
/* A release function that calls the Go function whose handle, a uintptr_t, ctx points to. */
void fixture_call_go(void *ctx);

/* Makes a versioned tensor of `count` float32 elements of value 0, in one allocation that the deleter frees. */
DLManagedTensorVersioned *fixture_allocate(int64_t count);

/* Calls the deleters of `count` managed tensors from `threads` new threads, all at once. */
void fixture_delete_on_threads(void **managed, int64_t count, int32_t threads, int legacy);
/* Calls a deleter in a forked child. Returns the child's status, 0 if the deleter has returned there, or -1 without a child. */
int fixture_delete_in_child(void *managed);
/* The sum of float32 elements, and setting all of them, by shape and strides, as a C consumer does. */
double fixture_sum(const DLTensor *t);
void fixture_fill(const DLTensor *t, float value);

#endif
