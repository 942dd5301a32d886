/* One thread imports and exports, as the one with the GIL does; others run the deleters. Built with
 * the C core alone, for the sanitizers.
 */
#include <core.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition) \
  do { \
    if (!(condition)) { \
      fprintf(stderr, "return_queue.c:%d: %s\n", __LINE__, #condition); \
      exit(1); \
    } \
  } while (0)

enum { ROUNDS = 200000, THREADS = 4, QUEUE = 256 };

static int64_t lent, given_back;
static float memory[6];

static void give_back(void *ctx) {
  CHECK(ctx == memory);
  __atomic_fetch_add(&given_back, 1, __ATOMIC_RELAXED);
}

/* What the consumers' threads are handed. */
static struct {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  DLManagedTensorVersioned *exports[QUEUE];
  int count, done;
} queue = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void hand_over(DLManagedTensorVersioned *export) {
  pthread_mutex_lock(&queue.mutex);
  while (queue.count == QUEUE) pthread_cond_wait(&queue.changed, &queue.mutex);
  queue.exports[queue.count++] = export;
  pthread_cond_broadcast(&queue.changed);
  pthread_mutex_unlock(&queue.mutex);
}

static void *consume(void *ctx) {
  for (int i = 0;; i++) {
    pthread_mutex_lock(&queue.mutex);
    while (queue.count == 0 && !queue.done) pthread_cond_wait(&queue.changed, &queue.mutex);
    DLManagedTensorVersioned *export = queue.count > 0 ? queue.exports[--queue.count] : NULL;
    pthread_cond_broadcast(&queue.changed);
    pthread_mutex_unlock(&queue.mutex);
    if (export == NULL) return ctx;
    CHECK(export->dl_tensor.shape[0] == 2 && export->dl_tensor.shape[1] == 3);
    CHECK(export->dl_tensor.strides[0] == 3 && export->dl_tensor.data == memory);
    export->deleter(export);
  }
}

int main(void) {
  int64_t shape[] = {2, 3};
  DLTensor view = {.data = memory, .device = {kDLCPU, 0}, .ndim = 2, .dtype = {kDLFloat, 32, 1}, .shape = shape};
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, consume, NULL) == 0);
  for (int round = 0; round < ROUNDS; round++) {
    dlbcore_share *share = dlbcore_hold_unlocked(give_back, memory);
    CHECK(share != NULL);
    lent++;
    for (int exports = round % 4; exports > 0; exports--) {
      DLManagedTensorVersioned *export = dlbcore_export_versioned_unlocked(share, &view, 0);
      CHECK(export != NULL);
      hand_over(export);
    }
    dlbcore_share_drop(share);
    if (round % 1000 == 0) CHECK(dlbcore_live_exports() >= 0 && dlbcore_held_unlocked(give_back) <= lent);
  }
  pthread_mutex_lock(&queue.mutex);
  queue.done = 1;
  pthread_cond_broadcast(&queue.changed);
  pthread_mutex_unlock(&queue.mutex);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  CHECK(given_back == lent);
  CHECK(dlbcore_live_exports() == 0 && dlbcore_held_unlocked(give_back) == 0 && dlbcore_double_deletes() == 0);
  return 0;
}
