#include "native.h"

#include <slot.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "_cgo_export.h"

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void nothing(void) {}

/* ---- producers ------------------------------------------------------------------------------- */

static float elements[1024] __attribute__((aligned(256)));

typedef struct produced {
  DLManagedTensorVersioned managed;
  int64_t dims[2];
} produced;

static void delete_produced(DLManagedTensorVersioned *self) { free(self); }

static DLManagedTensorVersioned *produce_one(void) {
  produced *p = malloc(sizeof *p);
  if (p == NULL) abort();
  p->dims[0] = 1024;
  p->dims[1] = 1;
  p->managed = (DLManagedTensorVersioned){
      .version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION},
      .manager_ctx = p,
      .deleter = delete_produced,
      .dl_tensor = {.data = elements,
                    .device = {kDLCPU, 0},
                    .ndim = 1,
                    .dtype = {kDLFloat, 32, 1},
                    .shape = &p->dims[0],
                    .strides = &p->dims[1]},
  };
  return &p->managed;
}

void produce(void **managed, int64_t n) {
  for (int64_t i = 0; i < n; i++) managed[i] = produce_one();
}

int64_t produce_and_delete(int64_t n) {
  int64_t start = now();
  for (int64_t i = 0; i < n; i++) {
    DLManagedTensorVersioned *m = produce_one();
    __asm__ volatile("" : "+r"(m) : : "memory"); /* keeps the compiler from removing the malloc and free */
    m->deleter(m);
  }
  return now() - start;
}

/* Reference-counted memory, as a program would write it by hand. holders is the number of references. */
typedef struct counted {
  int64_t holders;
  float elements[1024];
} counted;

static void let_go(counted *c) {
  if (__atomic_sub_fetch(&c->holders, 1, __ATOMIC_ACQ_REL) == 0) free(c);
}

static void delete_counted(DLManagedTensorVersioned *self) {
  counted *c = self->manager_ctx;
  free(self);
  let_go(c);
}

int64_t make_export_release_close(int64_t n) {
  int64_t start = now();
  for (int64_t i = 0; i < n; i++) {
    counted *c = calloc(1, sizeof *c);
    if (c == NULL) abort();
    c->holders = 2;
    DLManagedTensorVersioned *m = produce_one();
    m->manager_ctx = c;
    m->dl_tensor.data = c->elements;
    m->deleter = delete_counted;
    __asm__ volatile("" : "+r"(m), "+r"(c) : : "memory");
    m->deleter(m);
    let_go(c);
  }
  return now() - start;
}

static void release_produced_arrow(struct ArrowArray *self) {
  free(self->private_data);
  self->release = NULL;
}

void produce_arrow(struct ArrowArray *arrays, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    const void **buffers = malloc(2 * sizeof *buffers);
    if (buffers == NULL) abort();
    buffers[0] = NULL;
    buffers[1] = elements;
    arrays[i] = (struct ArrowArray){.length = 1024,
                                    .n_buffers = 2,
                                    .buffers = buffers,
                                    .release = release_produced_arrow,
                                    .private_data = buffers};
  }
}

int64_t release_arrow(struct ArrowArray *arrays, int64_t n) {
  int64_t start = now();
  for (int64_t i = 0; i < n; i++) arrays[i].release(&arrays[i]);
  return now() - start;
}

/* ---- consumers ------------------------------------------------------------------------------- */

int64_t delete_here(void **managed, int64_t n) {
  int64_t start = now();
  for (int64_t i = 0; i < n; i++) {
    DLManagedTensorVersioned *m = managed[i];
    m->deleter(m);
  }
  return now() - start;
}

int64_t call_back_here(int64_t n) {
  int64_t start = now();
  for (int64_t i = 0; i < n; i++) goNothing();
  return now() - start;
}

/* One thread that Go did not create runs the jobs in turn. */
static struct {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  int started, busy;
  void **managed; /* NULL: call back into Go instead */
  int64_t n, took;
} foreign = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void *work(void *unused) {
  (void)unused;
  pthread_mutex_lock(&foreign.mutex);
  for (;;) {
    while (!foreign.busy) pthread_cond_wait(&foreign.changed, &foreign.mutex);
    foreign.took = foreign.managed ? delete_here(foreign.managed, foreign.n) : call_back_here(foreign.n);
    foreign.busy = 0;
    pthread_cond_broadcast(&foreign.changed);
  }
  return NULL;
}

static int64_t give_work(void **managed, int64_t n) {
  pthread_mutex_lock(&foreign.mutex);
  if (!foreign.started) {
    pthread_t id;
    if (pthread_create(&id, NULL, work, NULL) != 0) abort();
    foreign.started = 1;
  }
  foreign.managed = managed;
  foreign.n = n;
  foreign.busy = 1;
  pthread_cond_broadcast(&foreign.changed);
  while (foreign.busy) pthread_cond_wait(&foreign.changed, &foreign.mutex);
  int64_t took = foreign.took;
  pthread_mutex_unlock(&foreign.mutex);
  return took;
}

int64_t delete_there(void **managed, int64_t n) { return give_work(managed, n); }
int64_t call_back_there(int64_t n) { return give_work(NULL, n); }

static void *delete_first(void *managed) {
  now(); /* the first call of now is slow and must not count as time of the deleter */
  return (void *)(intptr_t)delete_here(&managed, 1);
}

int64_t delete_on_new_thread(void *managed) {
  pthread_t id;
  void *took;
  if (pthread_create(&id, NULL, delete_first, managed) != 0) abort();
  pthread_join(id, &took);
  return (int64_t)(intptr_t)took;
}

static void delete_naive(DLManagedTensorVersioned *self) { naiveDelete(self); }

void *naive_deleter(void) { return (void *)(uintptr_t)delete_naive; }

/* The slot behind the control block's share is never freed, so it may be read after the deleter has run. The library
 * sets its bytes field to 0 when it unpins the memory. */
static void *watch_unpinning(void *arg) {
  const int64_t limit = 10000000000;
  const struct timespec soon = {0, 1000000}, glance = {0, 5000};
  unpinning *l = arg;
  DLManagedTensorVersioned *m = l->managed;
  const dlbcore_slot *slot = (const dlbcore_slot *)((dlbcore_block *)l->managed)->share;
  nanosleep(&soon, NULL);
  int64_t start = now(), took = 0;
  m->deleter(m);
  while (__atomic_load_n(&slot->bytes, __ATOMIC_RELAXED) != 0 && took < limit) {
    nanosleep(&glance, NULL);
    took = now() - start;
  }
  __atomic_store_n(&l->nanoseconds, now() - start, __ATOMIC_RELEASE);
  return NULL;
}

void start_unpinning(unpinning *l) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, watch_unpinning, l) != 0) abort();
  pthread_detach(thread);
}

/* ---- other languages ------------------------------------------------------------------------- */

void *open_library(const char *path) { return dlopen(path, RTLD_NOW | RTLD_LOCAL); }
void *find_loop(void *library, const char *name) { return dlsym(library, name); }
int64_t run_loop(void *function, int64_t n) { return ((loop)(uintptr_t)function)(n); }
