#define _GNU_SOURCE
#include "fixture.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

fixture *fixture_new(int32_t room, size_t bytes) {
  fixture *f = calloc(1, sizeof *f + 2 * (size_t)room * sizeof(int64_t));
  if (f == NULL || posix_memalign(&f->data, 256, bytes + 256) != 0) abort();
  f->managed = &f->own;
  memset(f->data, 0, bytes + 256);
  pthread_mutex_init(&f->mutex, NULL);
  pthread_cond_init(&f->changed, NULL);
  return f;
}

void fixture_count(void *ctx) {
  fixture *f = ctx;
  if (__atomic_load_n(&f->closed, __ATOMIC_RELAXED)) {
    pthread_mutex_lock(&f->mutex);
    __atomic_fetch_add(&f->waiting, 1, __ATOMIC_RELAXED);
    while (f->closed) pthread_cond_wait(&f->changed, &f->mutex);
    __atomic_fetch_add(&f->deletes, 1, __ATOMIC_RELAXED);
    __atomic_fetch_sub(&f->waiting, 1, __ATOMIC_RELAXED);
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->mutex);
  } else {
    __atomic_fetch_add(&f->deletes, 1, __ATOMIC_RELAXED);
  }
}

void fixture_close(fixture *f) { __atomic_store_n(&f->closed, 1, __ATOMIC_RELAXED); }

void fixture_open(fixture *f) {
  pthread_mutex_lock(&f->mutex);
  __atomic_store_n(&f->closed, 0, __ATOMIC_RELAXED);
  pthread_cond_broadcast(&f->changed);
  while (f->waiting > 0) pthread_cond_wait(&f->changed, &f->mutex);
  pthread_mutex_unlock(&f->mutex);
}

void fixture_delete_versioned(DLManagedTensorVersioned *self) { fixture_count(self->manager_ctx); }
void fixture_delete_legacy(DLManagedTensor *self) { fixture_count(self->manager_ctx); }

/* With a frame of its own on the stack, as most releases have. */
void fixture_release_managed(void *ctx) {
  DLManagedTensorVersioned *managed = ctx;
  volatile char frame[64] = {0};
  managed->deleter(managed);
  (void)frame[0];
}

extern void fixtureCall(uintptr_t handle);

void fixture_call_go(void *ctx) { fixtureCall(*(uintptr_t *)ctx); }

fixture *fixture_guarded(uint32_t major) {
  fixture *f = fixture_new(0, 0);
  size_t size = (size_t)sysconf(_SC_PAGESIZE);
  f->page = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (f->page == MAP_FAILED || mprotect((char *)f->page + size, size, PROT_NONE) != 0) abort();
  DLManagedTensorVersioned *m = f->managed =
      (void *)((char *)f->page + size - offsetof(DLManagedTensorVersioned, dl_tensor));
  m->version.major = major;
  m->manager_ctx = f;
  m->deleter = fixture_delete_versioned;
  return f;
}

void fixture_free(fixture *f) {
  if (f->page != NULL) munmap(f->page, 2 * (size_t)sysconf(_SC_PAGESIZE));
  pthread_cond_destroy(&f->changed);
  pthread_mutex_destroy(&f->mutex);
  free(f->data);
  free(f);
}

typedef struct allocation {
  DLManagedTensorVersioned managed;
  int64_t shape;
} allocation;

static void free_allocation(DLManagedTensorVersioned *self) { free(self->manager_ctx); }

DLManagedTensorVersioned *fixture_allocate(int64_t count) {
  char *base = NULL;
  size_t size = (size_t)count * sizeof(float);
  if (posix_memalign((void **)&base, 64, sizeof(allocation) + size) != 0) abort();
  allocation *a = (allocation *)base;
  memset(base, 0, sizeof *a + size);
  a->shape = count;
  a->managed.version = (DLPackVersion){DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  a->managed.manager_ctx = a;
  a->managed.deleter = free_allocation;
  a->managed.dl_tensor = (DLTensor){.data = base,
                                    .device = {kDLCPU, 0},
                                    .ndim = 1,
                                    .dtype = {kDLFloat, 32, 1},
                                    .shape = &a->shape,
                                    .byte_offset = sizeof *a};
  return &a->managed;
}

typedef struct batch {
  void **managed;
  int64_t from, to;
  int legacy;
  pthread_barrier_t *start;
} batch;

static void *delete_batch(void *arg) {
  batch *b = arg;
  pthread_barrier_wait(b->start);
  for (int64_t i = b->from; i < b->to; i++) {
    if (b->legacy) {
      DLManagedTensor *m = b->managed[i];
      m->deleter(m);
    } else {
      DLManagedTensorVersioned *m = b->managed[i];
      m->deleter(m);
    }
  }
  return NULL;
}

int fixture_delete_in_child(void *managed) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20); /* ends a child whose deleter waits */
    DLManagedTensorVersioned *m = managed;
    m->deleter(m);
    _exit(0);
  }
  int status;
  return child > 0 && waitpid(child, &status, 0) == child ? status : -1;
}

void fixture_delete_on_threads(void **managed, int64_t count, int32_t threads, int legacy) {
  pthread_t *ids = calloc((size_t)threads, sizeof *ids);
  batch *batches = calloc((size_t)threads, sizeof *batches);
  pthread_barrier_t start;
  if (ids == NULL || batches == NULL) abort();
  pthread_barrier_init(&start, NULL, (unsigned)threads);
  for (int32_t i = 0; i < threads; i++) {
    batches[i] = (batch){managed, count * i / threads, count * (i + 1) / threads, legacy, &start};
    if (pthread_create(&ids[i], NULL, delete_batch, &batches[i]) != 0) abort();
  }
  for (int32_t i = 0; i < threads; i++) pthread_join(ids[i], NULL);
  pthread_barrier_destroy(&start);
  free(ids);
  free(batches);
}

/* Visits the elements from `at` on, over the dimensions from d on. Returns their sum. */
static double visit(const DLTensor *t, int32_t d, float *at, const float *value) {
  if (d == t->ndim) {
    if (value != NULL) *at = *value;
    return *at;
  }
  int64_t step = 1;
  for (int32_t k = d + 1; k < t->ndim; k++) step *= t->shape[k];
  if (t->strides != NULL) step = t->strides[d];
  double sum = 0;
  for (int64_t i = 0; i < t->shape[d]; i++) sum += visit(t, d + 1, at + i * step, value);
  return sum;
}

static float *first(const DLTensor *t) { return (float *)((char *)t->data + t->byte_offset); }

double fixture_sum(const DLTensor *t) { return visit(t, 0, first(t), NULL); }
void fixture_fill(const DLTensor *t, float value) { visit(t, 0, first(t), &value); }
