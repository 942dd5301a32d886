/* wake.c: waking Go when enough memory can be unpinned. */
#include "core.h"

#include <errno.h>
#include <unistd.h>

static int wake_fd = -1;
static int64_t wake_threshold = 1 << 20;
static int64_t dead_bytes;

void core_wake_by(int fd) { __atomic_store_n(&wake_fd, fd, __ATOMIC_RELEASE); }

int64_t core_wake_at(int64_t threshold) {
  return __atomic_exchange_n(&wake_threshold, threshold, __ATOMIC_RELAXED);
}

int64_t *core_dead_bytes(void) { return &dead_bytes; }

/* Writes once when the bytes reach the threshold, and again only after Go has reset them. A forked child does not write: its
 * descriptor is the parent's. */
void core_wake(uint64_t bytes) {
  int64_t before = __atomic_fetch_add(&dead_bytes, (int64_t)bytes, __ATOMIC_RELEASE); /* after the slot is in the return queue */
  int64_t threshold = __atomic_load_n(&wake_threshold, __ATOMIC_RELAXED);
  if (before >= threshold || before + (int64_t)bytes < threshold) return;
  int fd = __atomic_load_n(&wake_fd, __ATOMIC_ACQUIRE);
  if (fd < 0 || core_forked()) return;
  int saved = errno;
  uint64_t one = 1;
  ssize_t written = write(fd, &one, sizeof one); /* fails only if the pipe is full, and then Go wakes anyway */
  (void)written;
  errno = saved;
}
