/* wake.c: wakes Go to unpin memory. */
#include "slot.h"

#include <errno.h>
#include <unistd.h>

dlbcore_waking_state dlbcore_waking = {.fd = -1, .threshold = 1 << 20};

/* A forked child does not write, because its descriptor belongs to the parent. */
static void write_wake(void) {
  int fd = (int)__atomic_load_n(&dlbcore_waking.fd, __ATOMIC_ACQUIRE);
  if (fd < 0 || dlbcore_forked()) return;
  int saved = errno;
  uint64_t one = 1;
  ssize_t written = write(fd, &one, sizeof one); /* fails only if the pipe is full, and then Go wakes anyway */
  (void)written;
  errno = saved;
}

/* Writes once when the bytes reach the threshold, and again only after Go has reset them. */
void dlbcore_wake(uint64_t bytes) {
  int64_t before = __atomic_fetch_add(&dlbcore_waking.dead_bytes, (int64_t)bytes, __ATOMIC_RELEASE); /* after the slot is in the return queue */
  int64_t threshold = __atomic_load_n(&dlbcore_waking.threshold, __ATOMIC_RELAXED);
  if (before < threshold && before + (int64_t)bytes >= threshold) write_wake();
}

/* Writes at the first call, and again only after Go has reset `now`. Go resets it before it empties the return
 * queues. */
void dlbcore_wake_now(void) {
  if (__atomic_exchange_n(&dlbcore_waking.now, 1, __ATOMIC_ACQ_REL) == 0) write_wake();
}
