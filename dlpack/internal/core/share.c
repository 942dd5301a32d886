//go:build !dlbridge_shared

/* share.c: shares, and the end of memory when no share is left. */
#include "core.h"

void dlbcore_release_lent(void (*lender)(void *ctx), void *ctx) {
  if (lender != NULL) lender(ctx);
}

void dlbcore_share_retain(dlbcore_share *share) { __atomic_fetch_add(&share->count, 1, __ATOMIC_RELAXED); }

int dlbcore_share_leave(dlbcore_share *share) {
  return (uint32_t)__atomic_sub_fetch(&share->count, 1, __ATOMIC_ACQ_REL) == 0;
}

void dlbcore_share_drop(dlbcore_share *share) {
  if (dlbcore_share_leave(share)) dlbcore_share_end(share);
}

/* The releases that are running on this thread, outermost first, as the addresses of the stack frames of
 * dlbcore_share_end that run them; and the list of shares that wait for the innermost release to return. The shares are
 * linked by their `data`, so that the list needs no memory. The variable has the default TLS model: with the static
 * model, dlopen of the Python extension would fail in a process whose static TLS is used up. In the extension, glibc
 * allocates the variable when a thread first releases something. */
typedef struct {
  int running;
  dlbcore_share *first, *last;
  uintptr_t frames[CORE_NESTED];
} release_list;

static __thread release_list releases;

/* Adds a share to the list. It is not inlined, to keep the common case short. */
__attribute__((noinline)) static void wait_for_release(release_list *list, dlbcore_share *share) {
  share->data = NULL;
  if (list->first != NULL) list->last->data = share;
  else list->first = share;
  list->last = share;
}

__attribute__((noinline)) static void release_waiting(release_list *list) {
  while (list->first != NULL) {
    dlbcore_share *share = list->first;
    list->first = share->data;
    share->release(share);
  }
}

/* Returns the number of releases that are running around a new stack frame. A release that panics in Go, or jumps out,
 * never returns to its frame, and would be counted forever. Because stacks grow downwards, a frame that is not above
 * the new frame is left over from such a release, and is no longer counted. If a program switches stacks, a frame may
 * look left over although it is not. Then more releases run inside each other, up to CORE_NESTED for each switch, and
 * nothing else changes. */
__attribute__((noinline)) static int releases_around(const release_list *list, uintptr_t frame) {
  int running = list->running;
  while (running > 0 && list->frames[running - 1] <= frame) running--;
  return running;
}

void dlbcore_share_end(dlbcore_share *share) {
  release_list *list = &releases;
  __asm__("" : "+r"(list)); /* otherwise the compiler would look up its address for each use */
  uintptr_t frame = (uintptr_t)__builtin_frame_address(0); /* AddressSanitizer moves locals to other stacks, not this */
  int running = list->running == 0 ? 0 : releases_around(list, frame);
  if (running == CORE_NESTED) {
    wait_for_release(list, share);
    return;
  }
  list->frames[running] = frame;
  list->running = running + 1;
  share->release(share);
  if (list->first != NULL) release_waiting(list); /* at level CORE_NESTED, or if the frame in charge never returned */
  list->running = running;
}

static void release_allocation(dlbcore_share *share) { dlbcore_free_memory(share->ctx); }

/* The share is at the beginning of the allocation, before the data, because valgrind reports an allocation as possibly
 * lost if pointers lead only to its middle. */
dlbcore_share *dlbcore_share_alloc(size_t size, int zeroed) {
  void *data;
  dlbcore_share *share = dlbcore_allocate_memory(sizeof *share, size, zeroed, &data);
  if (share == NULL) return NULL;
  *share = (dlbcore_share){.count = 1, .release = release_allocation, .ctx = share, .data = data};
  return share;
}
