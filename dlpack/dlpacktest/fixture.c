#define _GNU_SOURCE
#include "fixture.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int64_t fixture_this_thread(void) { return (int64_t)(uintptr_t)pthread_self(); }

void fixture_nothing(void) {}

fixture *fixture_new(int32_t room, size_t bytes) {
  fixture *f = calloc(1, sizeof *f + 2 * (size_t)room * sizeof(int64_t));
  if (f == NULL || posix_memalign(&f->data, 256, bytes + 256) != 0) abort();
  memset(f->data, 0, bytes + 256);
  pthread_mutex_init(&f->mutex, NULL);
  pthread_cond_init(&f->changed, NULL);
  return f;
}

static void count_now(fixture *f) {
  __atomic_store_n(&f->thread, fixture_this_thread(), __ATOMIC_RELAXED);
  __atomic_fetch_add(&f->deletes, 1, __ATOMIC_RELAXED);
}

static void count(fixture *f) {
  if (!__atomic_load_n(&f->closed, __ATOMIC_RELAXED)) {
    count_now(f);
    return;
  }
  pthread_mutex_lock(&f->mutex);
  f->waiting++;
  while (f->closed) pthread_cond_wait(&f->changed, &f->mutex);
  count_now(f);
  f->waiting--;
  pthread_cond_broadcast(&f->changed);
  pthread_mutex_unlock(&f->mutex);
}

static void set_closed(fixture *f, int closed) {
  __atomic_store_n(&f->closed, closed, __ATOMIC_RELAXED);
}

void fixture_close(fixture *f) {
  pthread_mutex_lock(&f->mutex);
  set_closed(f, 1);
  pthread_mutex_unlock(&f->mutex);
}

void fixture_open(fixture *f) {
  pthread_mutex_lock(&f->mutex);
  set_closed(f, 0);
  pthread_cond_broadcast(&f->changed);
  while (f->waiting > 0) pthread_cond_wait(&f->changed, &f->mutex);
  pthread_mutex_unlock(&f->mutex);
}

int64_t fixture_waiting(fixture *f) {
  pthread_mutex_lock(&f->mutex);
  int64_t waiting = f->waiting;
  pthread_mutex_unlock(&f->mutex);
  return waiting;
}

static void delete_versioned(DLManagedTensorVersioned *self) { count(self->manager_ctx); }
static void delete_legacy(DLManagedTensor *self) { count(self->manager_ctx); }

static void take_back(void *ctx) { count(ctx); }

void *fixture_taker(void) { return (void *)(uintptr_t)take_back; }

/* With a frame of its own on the stack, as most releases have. */
static void release_managed(void *ctx) {
  DLManagedTensorVersioned *managed = ctx;
  volatile char frame[64] = {0};
  managed->deleter(managed);
  (void)frame[0];
}

void *fixture_releaser(void) { return (void *)(uintptr_t)release_managed; }

extern void fixtureCall(uintptr_t handle);

static void call_go(void *ctx) { fixtureCall(*(uintptr_t *)ctx); }

void *fixture_caller(void) { return (void *)(uintptr_t)call_go; }

void *fixture_callback(uintptr_t handle) {
  uintptr_t *ctx = malloc(sizeof *ctx);
  if (ctx == NULL) abort();
  *ctx = handle;
  return ctx;
}

void fixture_arm(fixture *f, int legacy) {
  if (legacy) {
    f->managed.legacy.manager_ctx = f;
    f->managed.legacy.deleter = delete_legacy;
  } else {
    f->managed.versioned.manager_ctx = f;
    f->managed.versioned.deleter = delete_versioned;
  }
}

fixture *fixture_guarded(uint32_t major) {
  fixture *f = fixture_new(0, 0);
  size_t size = (size_t)sysconf(_SC_PAGESIZE);
  f->page = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (f->page == MAP_FAILED || mprotect((char *)f->page + size, size, PROT_NONE) != 0) abort();
  DLManagedTensorVersioned *m =
      (void *)((char *)f->page + size - offsetof(DLManagedTensorVersioned, dl_tensor));
  m->version.major = major;
  m->manager_ctx = f;
  m->deleter = delete_versioned;
  return f;
}

void *fixture_managed(fixture *f) {
  if (f->page == NULL) return &f->managed;
  size_t size = (size_t)sysconf(_SC_PAGESIZE);
  return (char *)f->page + size - offsetof(DLManagedTensorVersioned, dl_tensor);
}

void fixture_free(fixture *f) {
  if (f->page != NULL) munmap(f->page, 2 * (size_t)sysconf(_SC_PAGESIZE));
  pthread_cond_destroy(&f->changed);
  pthread_mutex_destroy(&f->mutex);
  free(f->data);
  free(f);
}

int64_t fixture_deletes(fixture *f) { return __atomic_load_n(&f->deletes, __ATOMIC_RELAXED); }
int64_t fixture_thread(fixture *f) { return __atomic_load_n(&f->thread, __ATOMIC_RELAXED); }

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

int fixture_delete_on_threads(void **managed, int64_t count, int32_t threads, int legacy) {
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
  return 0;
}

/* Visits every element by its indices. */
static double visit(const DLTensor *t, const float *value) {
  int64_t index[64] = {0};
  double sum = 0;
  if (t->ndim > 64) abort();
  for (int32_t d = 0; d < t->ndim; d++) {
    if (t->shape[d] == 0) return 0;
  }
  for (;;) {
    int64_t at = 0, step = 1;
    for (int32_t d = t->ndim - 1; d >= 0; d--) {
      at += index[d] * (t->strides != NULL ? t->strides[d] : step);
      step *= t->shape[d];
    }
    float *element = (float *)((char *)t->data + t->byte_offset) + at;
    if (value != NULL) *element = *value;
    sum += *element;
    int32_t d = t->ndim - 1;
    for (; d >= 0; d--) {
      if (++index[d] < t->shape[d]) break;
      index[d] = 0;
    }
    if (d < 0) return sum;
  }
}

double fixture_sum(const DLTensor *t) { return visit(t, NULL); }
void fixture_fill(const DLTensor *t, float value) { visit(t, &value); }
