//go:build !dlbridge_shared

/* checked.c: finds out whether the program runs under a tool that looks for lost and overrun memory. */
#include "core.h"

#include <stdlib.h>
#include <string.h>

typedef void mark(void const volatile *start, size_t size);

/* The program may contain AddressSanitizer even if this library does not. */
#if defined(__ELF__)
extern mark __asan_poison_memory_region __attribute__((weak)), __asan_unpoison_memory_region __attribute__((weak));
static mark *poison(void) { return __asan_poison_memory_region; }
static mark *unpoison(void) { return __asan_unpoison_memory_region; }
#else
static mark *poison(void) { return NULL; }
static mark *unpoison(void) { return NULL; }
#endif

/* Asks valgrind, as its valgrind.h does. The instructions change nothing on a processor without valgrind. Returns 0 there. */
static uintptr_t ask_valgrind(uintptr_t request, uintptr_t first, uintptr_t second) {
  volatile uintptr_t question[6] = {request, first, second, 0, 0, 0};
  uintptr_t answer = 0;
#if defined(__x86_64__) && defined(__linux__)
  __asm__ volatile(
      "rolq $3, %%rdi; rolq $13, %%rdi\n\t"
      "rolq $61, %%rdi; rolq $51, %%rdi\n\t"
      "xchgq %%rbx, %%rbx"
      : "+d"(answer)
      : "a"(question)
      : "cc", "memory");
#else
  (void)question;
#endif
  return answer;
}

enum { RUNNING_ON_VALGRIND = 0x1001, MAKE_MEM_NOACCESS = ('M' << 24) + ('C' << 16), MAKE_MEM_UNDEFINED };

static int checked;

/* Looked up once, when the library is loaded. In a program that is linked with the library, no other thread has begun
 * by then. A program that loads it later must not change its environment on another thread meanwhile. */
__attribute__((constructor)) static void look_for_tools(void) {
  const char *value = getenv("DLBRIDGE_CHECK");
  int found = poison() != NULL || ask_valgrind(RUNNING_ON_VALGRIND, 0, 0) != 0;
  if (value != NULL && value[0] != '\0') found = strcmp(value, "0") != 0;
  __atomic_store_n(&checked, found, __ATOMIC_RELAXED);
}

int dlbcore_checked(void) { return __atomic_load_n(&checked, __ATOMIC_RELAXED); }

void dlbcore_forbid(void *start, size_t size) {
  if (poison() != NULL) poison()(start, size);
  else ask_valgrind(MAKE_MEM_NOACCESS, (uintptr_t)start, size);
}

void dlbcore_permit(void *start, size_t size) {
  if (unpoison() != NULL) unpoison()(start, size);
  else ask_valgrind(MAKE_MEM_UNDEFINED, (uintptr_t)start, size);
}
