//go:build !dlbridge_shared

/* block.c: the states of control blocks, the deleters, and the end of managed tensors. */
#include "core.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

_Static_assert(sizeof(dlbcore_block) == 256, "Go lays a struct over dlbcore_block");
_Static_assert(offsetof(dlbcore_block, managed) == 0, "a deleter finds its block at the address of the tensor");
_Static_assert(sizeof(dlbcore_return_queue) == 64, "a return queue is one cache line");

static uint64_t double_deletes;

uint64_t dlbcore_double_deletes(void) { return __atomic_load_n(&double_deletes, __ATOMIC_RELAXED); }

static void (*repeat_watcher)(void);

void dlbcore_watch_repeats(void (*watcher)(void)) { __atomic_store_n(&repeat_watcher, watcher, __ATOMIC_RELAXED); }

void dlbcore_report_repeat(const void *block, uint64_t state) {
  if (!dlbcore_checked()) return;
  int kept = errno;
  char line[256];
  int size = snprintf(line, sizeof line,
                      "dlbridge: the tensor or frame at %#" PRIxPTR " is released, but was %s before: its owner must release it once; "
                      "dlb_tensor_share or dlb_message_frame makes one for another owner\n",
                      (uintptr_t)block, state == CORE_TAKEN ? "taken over" : "released");
  void (*watcher)(void) = __atomic_load_n(&repeat_watcher, __ATOMIC_RELAXED);
  if (write(STDERR_FILENO, line, (size_t)size) == size && watcher != NULL) watcher();
  errno = kept;
}

/* A block without a return queue may be in use again as soon as it is dead, so its fields are read before. If `taken`
 * is 1, this also ends a block that was taken over. A dead block must not refer to memory that is freed now: leak
 * checkers would mistake that for a reference to later memory there. */
static inline void delete_block(dlbcore_block *block, int taken) {
  uint64_t state = __atomic_load_n(&block->state, __ATOMIC_ACQUIRE);
  dlbcore_share *share = __atomic_load_n(&block->share, __ATOMIC_RELAXED);
  dlbcore_return_queue *returns = block->returns;
  do {
    if (state != CORE_LIVE && !(taken && state == CORE_TAKEN)) {
      __atomic_fetch_add(&double_deletes, 1, __ATOMIC_RELAXED);
      dlbcore_report_repeat(block, state);
      return;
    }
  } while (!__atomic_compare_exchange_n(&block->state, &state, CORE_DEAD, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
  if (returns != NULL) {
    __atomic_store_n(&block->share, NULL, __ATOMIC_RELAXED);
    *block->data = NULL;
    dlbcore_return(returns, block, &block->next);
  }
  dlbcore_share_drop(share);
}

void dlbcore_delete_versioned(DLManagedTensorVersioned *self) { delete_block((dlbcore_block *)self, 0); }

void dlbcore_delete_legacy(DLManagedTensor *self) { delete_block((dlbcore_block *)self, 0); }

void dlbcore_block_end(dlbcore_block *block) { delete_block(block, 1); }

int dlbcore_block_claim(dlbcore_block *block) {
  uint64_t live = CORE_LIVE;
  return __atomic_compare_exchange_n(&block->state, &live, CORE_TAKEN, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

void dlbcore_block_return(dlbcore_block *block) { __atomic_store_n(&block->state, CORE_LIVE, __ATOMIC_RELEASE); }

void dlbcore_release_versioned(DLManagedTensorVersioned *managed) {
  if (managed->deleter == dlbcore_delete_versioned) dlbcore_block_end((dlbcore_block *)managed);
  else if (managed->deleter != NULL) managed->deleter(managed);
}

void dlbcore_release_legacy(DLManagedTensor *managed) {
  if (managed->deleter == dlbcore_delete_legacy) dlbcore_block_end((dlbcore_block *)managed);
  else if (managed->deleter != NULL) managed->deleter(managed);
}

static void release_managed(dlbcore_share *share) {
  DLManagedTensorVersioned *managed = share->ctx;
  dlbcore_free(share);
  dlbcore_release_versioned(managed);
}

dlbcore_share *dlbcore_share_versioned(DLManagedTensorVersioned *managed) {
  dlbcore_share *share = malloc(sizeof *share);
  if (share == NULL) return NULL;
  *share = (dlbcore_share){.count = 1, .release = release_managed, .ctx = managed};
  return share;
}
