/* If an allocation fails, the caller still owns its inputs and nothing leaks. This program is linked with the C sources and
 * -Wl,--wrap=malloc,--wrap=calloc,--wrap=posix_memalign, which replaces the functions that allocate memory. The allocation
 * with the number `failing` fails. */
#include "capi.h"
#include "check.h"

#include <pthread.h>

static int failing, allocations, blocks;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
int __real_posix_memalign(void **out, size_t alignment, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
int __wrap_posix_memalign(void **out, size_t alignment, size_t size);

static int fails(void) { return __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED) == failing; }

void *__wrap_malloc(size_t size) { return fails() ? NULL : __real_malloc(size); }

void *__wrap_calloc(size_t count, size_t size) {
  if (size > sizeof(dlbcore_block)) __atomic_fetch_add(&blocks, 1, __ATOMIC_RELAXED);
  return fails() ? NULL : __real_calloc(count, size);
}

int __wrap_posix_memalign(void **out, size_t alignment, size_t size) {
  return fails() ? 12 : __real_posix_memalign(out, alignment, size);
}

static float data[6];
static int64_t shape[] = {2, 3};

static int32_t alloc(DLManagedTensorVersioned **out, int *deletes) {
  int32_t code = dlb_tensor_alloc(out, FLOAT32, 2, shape, NULL);
  *deletes = code == DLB_OK; /* without a result there is nothing to release */
  return code;
}

static int32_t lend(DLManagedTensorVersioned **out, int *deletes) {
  int none = 0;
  DLManagedTensorVersioned made = made_by_producer(data, shape, &none);
  return dlb_tensor_lend(out, &made.dl_tensor, 0, count_release, deletes, NULL);
}

static int32_t copy(DLManagedTensorVersioned **out, int *deletes) {
  DLManagedTensorVersioned made = made_by_producer(data, shape, deletes);
  int32_t code = dlb_tensor_copy(out, &made, NULL);
  CHECK_INT(0, *deletes);
  *deletes = code == DLB_OK;
  return code;
}

static int32_t from_legacy(DLManagedTensorVersioned **out, int *deletes) {
  static DLManagedTensor old;
  old.dl_tensor = made_by_producer(data, shape, deletes).dl_tensor;
  old.manager_ctx = deletes;
  old.deleter = count_legacy;
  return dlb_tensor_from_legacy(out, &old, 0, NULL);
}

static int32_t import(DLManagedTensorVersioned **out, int *deletes) {
  static DLManagedTensorVersioned made;
  made = made_by_producer(data, shape, deletes);
  return dlb_tensor_import(out, &made, NULL);
}

static int32_t to_legacy(DLManagedTensorVersioned **out, int *deletes) {
  static DLManagedTensorVersioned made;
  made = made_by_producer(data, shape, deletes);
  DLManagedTensor *legacy = (void *)-1;
  int32_t code = dlb_tensor_to_legacy(&legacy, &made, NULL);
  CHECK((code == DLB_OK) == (legacy != NULL));
  *out = NULL;
  if (code == DLB_OK) legacy->deleter(legacy);
  return code;
}

/* Lends until the block cache is empty, so that the next export allocates a control block. On its first use the cache
 * grows by more than one. */
static DLManagedTensorVersioned *spares[1 << 16];
static int spare_count;

static void lend_spare(void) {
  static int released;
  CHECK(spare_count < 1 << 16);
  CHECK_INT(DLB_OK, lend(&spares[spare_count++], &released));
}

static void lend_until_the_pool_grows(void) {
  int before;
  do {
    before = allocations;
    lend_spare();
  } while (allocations == before + 1);
}

static void use_up_the_pool(void) {
  lend_until_the_pool_grows();
  lend_until_the_pool_grows();
}

/* Makes each allocation of a call fail in turn, until the call succeeds. */
static void every_allocation_fails_once(int32_t (*make)(DLManagedTensorVersioned **, int *)) {
  for (int nth = 1;; nth++) {
    use_up_the_pool();
    DLManagedTensorVersioned *out = (void *)-1;
    int deletes = 0;
    failing = allocations + nth;
    int32_t code = make(&out, &deletes);
    int reached = allocations >= failing;
    failing = 0;
    while (spare_count > 0) dlb_tensor_release(spares[--spare_count]);
    if (!reached) {
      CHECK_INT(DLB_OK, code);
      CHECK_INT(3, nth); /* a share or hold, and a block, can fail */
      dlb_tensor_release(out);
      CHECK_INT(1, deletes);
      return;
    }
    CHECK_INT(DLB_ERROR_MEMORY, code);
    CHECK(out == NULL);
    CHECK_INT(0, deletes);
    CHECK_INT(0, dlbcore_live_exports());
    CHECK_INT(0, dlbcapi_held());
  }
}

/* A view allocates its control block only, and takes no share without it. */
static void a_view_needs_a_block(void) {
  int deletes = 0;
  DLManagedTensorVersioned *base, *view = (void *)-1;
  CHECK_INT(DLB_OK, lend(&base, &deletes));
  use_up_the_pool();
  failing = allocations + 1;
  CHECK_INT(DLB_ERROR_MEMORY, dlb_tensor_flip(&view, base, 0, NULL, NULL));
  CHECK(view == NULL && allocations == failing);
  failing = 0;
  while (spare_count > 0) dlb_tensor_release(spares[--spare_count]);
  CHECK_INT(1, dlbcore_live_exports());
  CHECK_INT(0, deletes);
  dlb_tensor_release(base);
  CHECK_INT(1, deletes);
}

enum { THREADS = 4, ROUNDS = 20000 };

static void *lend_and_delete(void *ctx) {
  DLManagedTensorVersioned *t;
  for (int i = 0; i < ROUNDS; i++) {
    CHECK_INT(DLB_OK, lend(&t, ctx));
    t->deleter(t);
  }
  return NULL;
}

/* Control blocks are reused however many threads export at the same time. About CORE_QUARANTINE of them are in
 * quarantine. */
static void threads_share_the_blocks(void) {
  int released[THREADS] = {0};
  pthread_t threads[THREADS];
  int before = blocks;
  for (int i = 0; i < THREADS; i++)
    CHECK_INT(0, pthread_create(&threads[i], NULL, lend_and_delete, &released[i]));
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    CHECK_INT(ROUNDS, released[i]);
  }
  CHECK(blocks - before <= CORE_QUARANTINE);
}

int main(void) {
  every_allocation_fails_once(alloc);
  every_allocation_fails_once(lend);
  every_allocation_fails_once(copy);
  every_allocation_fails_once(from_legacy);
  every_allocation_fails_once(to_legacy);
  every_allocation_fails_once(import);
  a_view_needs_a_block();

  int deletes = 0;
  DLManagedTensorVersioned *lent;
  CHECK_INT(DLB_OK, lend(&lent, &deletes));
  lent->deleter(lent);
  uint64_t before = dlbcore_double_deletes();
  lent->deleter(lent);
  CHECK_INT(before + 1, dlbcore_double_deletes());
  CHECK_INT(1, deletes);
  threads_share_the_blocks();
  CHECK_INT(0, dlbcore_live_exports());
  CHECK_INT(0, dlbcapi_held());
  return 0;
}
