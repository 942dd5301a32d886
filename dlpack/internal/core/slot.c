/* slot.c: the release of slots, the shares that Go counts too. */
#include "slot.h"

_Static_assert(sizeof(dlbcore_slot) == 64, "a slot is one cache line");

/* Pinned memory waits for Go; other memory ends here. Pinned bytes are counted after the slot is in the return queue,
 * and Go resets the count before it empties the queue. So the bytes of a slot that Go has not seen stay counted.
 * Allocated memory is freed before the slot is in the queue, so that Go's notice comes later. Lenders and deleters may
 * take long, and are called when the slot can already be reused. */
void dlbcore_release_slot(dlbcore_share *share) {
  dlbcore_slot *slot = (dlbcore_slot *)share;
  void (*lender)(void *) = share->lender;
  /* ctx is atomic for ThreadSanitizer only: it does not see that Go orders the uses of a slot. */
  void *ctx = __atomic_load_n(&share->ctx, __ATOMIC_RELAXED);
  uint64_t bytes = slot->bytes;
  uint32_t kind = slot->kind;
  if (kind != CORE_SLOT_PINNED) /* leak checkers would take ctx for a reference to what lies there next */
    __atomic_store_n(&share->ctx, NULL, __ATOMIC_RELAXED);
  if (kind == CORE_SLOT_ALLOCATED) dlbcore_free_memory(ctx);
  dlbcore_return(slot->returns, slot, &slot->share.data);
  switch (kind) {
    case CORE_SLOT_PINNED:
      if (lender != NULL) dlbcore_wake_now();
      else dlbcore_wake(bytes);
      break;
    case CORE_SLOT_ALLOCATED:
      if (lender != NULL) dlbcore_wake_now();
      break;
    case CORE_SLOT_LENT: dlbcore_release_lent(lender, ctx); break;
    case CORE_SLOT_VERSIONED: dlbcore_release_versioned(ctx); break;
    case CORE_SLOT_LEGACY: dlbcore_release_legacy(ctx); break;
  }
}
