/* slot.h: shares that Go counts too, and waking Go. Only programs with package core contain them. */
#ifndef DLB_SLOT_H_
#define DLB_SLOT_H_

#include "core.h"

/* ---- slot.c: shares that Go counts too ------------------------------------------------------- */

/* The origin of a slot's memory. It determines how the memory ends when no share is left. Go: Kind */
enum {
  CORE_SLOT_PINNED = 1, /* Go's memory, which Go unpins */
  CORE_SLOT_ALLOCATED, /* of dlbcore_allocate_memory */
  CORE_SLOT_LENT,
  CORE_SLOT_VERSIONED, /* of a managed tensor */
  CORE_SLOT_LEGACY
};

/* A share in Go's table of slots. Slots are reused and never freed, so that late callers can still read them. Each use
 * has its own number, the turn, in the upper half of share.count. */
typedef struct dlbcore_slot {
  dlbcore_share share;
  dlbcore_return_queue *returns; /* takes the slot when no share is left */
  uint64_t bytes;   /* number of bytes that stay pinned until Go has taken the slot from the queue */
  uint32_t index;   /* in Go's table */
  uint32_t kind;
} dlbcore_slot;

/* The release of every slot. */
CORE_API void dlbcore_release_slot(dlbcore_share *share);

/* ---- wake.c: waking Go ----------------------------------------------------------------------- */

/* Counts bytes of Go's memory that can be unpinned, and wakes Go if the threshold is reached. */
CORE_API void dlbcore_wake(uint64_t bytes);
/* Wakes Go, whatever the threshold is. */
CORE_API void dlbcore_wake_now(void);
/* The state of these functions. Go sets `fd`, the eventfd or pipe to which they write (-1: none), and `threshold`, in
 * bytes. `dead_bytes` is the number of bytes counted since Go last set it to 0. `now` is 1 if dlbcore_wake_now was
 * called since Go last set it to 0. */
typedef struct dlbcore_waking_state {
  int64_t fd, threshold, dead_bytes, now;
} dlbcore_waking_state;
extern CORE_API dlbcore_waking_state dlbcore_waking;

#endif
