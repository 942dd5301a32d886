//go:build !dlbridge_shared

/* The ledger records where each live tensor, frame, message, elements object and file was made. It is plain C, and off
 * unless a program asks for it.
 *
 * The ledger records only that an object is made. Releases do not touch it, because deleters take no lock. Instead each
 * record refers to the place of its object, a control block or an entry of the registry, whose state says whether the
 * object is live. Such places are never freed. A new object in the same place replaces the record, so the ledger has at
 * most one record for each place. */
#include "capi.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#if defined(__GLIBC__) || defined(__APPLE__)
#include <execinfo.h>
#else /* the C library has no backtrace */
static int backtrace(void **out, int room) { return (void)out, (void)room, 0; }
#endif

#if defined(__ELF__)
#include <link.h>
#endif

enum { DEPTH = 32, FIRST_ROOM = 256 };

typedef struct {
  uintptr_t hidden; /* CORE_HIDDEN of the object; 0 if the record is unused */
  uint64_t number;  /* in the order in which the objects were made */
  uint64_t bytes;
  const dlbcapi_ledger_kind *kind;
  int depth;
  void *stack[DEPTH];
} record;

static struct {
  int on, at_exit; /* at_exit: the environment variable is set */
  pthread_mutex_t mutex;
  record *records; /* a hash table of `room` records, a power of 2. At most half of them are used */
  size_t room, used;
  uint64_t made, missed; /* missed: there was no memory for the record */
} ledger = {.mutex = PTHREAD_MUTEX_INITIALIZER};

int dlbcapi_ledger_on(void) { return __atomic_load_n(&ledger.on, __ATOMIC_RELAXED); }

/* Returns the record of an object, or the unused record where it belongs. */
static record *find_record(record *table, size_t size, uintptr_t hidden) {
  size_t i = (size_t)((hidden >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (size - 1);
  while (table[i].hidden != 0 && table[i].hidden != hidden) i = (i + 1) & (size - 1);
  return &table[i];
}

/* Makes room for another record in the table. Returns 0 if there is no memory. */
static int reserve(void) {
  if (2 * (ledger.used + 1) <= ledger.room) return 1;
  size_t size = ledger.room == 0 ? FIRST_ROOM : 2 * ledger.room;
  record *larger = calloc(size, sizeof *larger);
  if (larger == NULL) return 0;
  for (size_t i = 0; i < ledger.room; i++)
    if (ledger.records[i].hidden != 0) *find_record(larger, size, ledger.records[i].hidden) = ledger.records[i];
  free(ledger.records);
  ledger.records = larger;
  ledger.room = size;
  return 1;
}

void dlbcapi_ledger_enter(const void *object, const dlbcapi_ledger_kind *kind, uint64_t bytes) {
  record r = {.hidden = CORE_HIDDEN(object), .bytes = bytes, .kind = kind};
  r.depth = backtrace(r.stack, DEPTH);
  pthread_mutex_lock(&ledger.mutex);
  if (dlbcapi_ledger_on()) {
    record *known = ledger.room > 0 ? find_record(ledger.records, ledger.room, r.hidden) : NULL;
    int new = known == NULL || known->hidden == 0;
    if (!new || reserve()) {
      r.number = ledger.made++;
      ledger.used += (size_t)new;
      *find_record(ledger.records, ledger.room, r.hidden) = r;
    } else {
      ledger.missed++;
    }
  }
  pthread_mutex_unlock(&ledger.mutex);
}

static int block_is_live(const void *object) {
  int state = dlbcore_block_state(object);
  return state == CORE_LIVE || state == CORE_TAKEN;
}

static void enter_export(const dlbcore_block *block, const DLTensor *tensor, int versioned) {
  static const dlbcapi_ledger_kind export_kinds[] = {{"legacy tensor", block_is_live}, {"tensor", block_is_live}};
  dlbcore_extent extent;
  uint64_t flags = versioned ? block->managed.versioned.flags : 0;
  int known = dlbcore_check_layout(tensor, flags, &extent, NULL, 0) == CORE_OK;
  dlbcapi_ledger_enter(block, &export_kinds[versioned], known ? (uint64_t)extent.nbytes : 0);
}

void dlbcapi_ledger_enter_frame(const void *managed, uint64_t bytes) {
  static const dlbcapi_ledger_kind kind = {"frame", block_is_live};
  dlbcapi_ledger_enter(managed, &kind, bytes);
}

void dlbcapi_ledger_enter_tensor(const void *managed, uint64_t bytes) {
  static const dlbcapi_ledger_kind kind = {"tensor", block_is_live};
  dlbcapi_ledger_enter(managed, &kind, bytes);
}

int32_t dlb_ledger_set(int32_t value) {
  void *stack[1];
  if (value) backtrace(stack, 1); /* the first call loads a library, which must not happen in the middle of an export */
  pthread_mutex_lock(&ledger.mutex);
  int was = __atomic_exchange_n(&ledger.on, value != 0, __ATOMIC_RELAXED);
  dlbcore_watch_exports(value ? enter_export : NULL);
  if (!value) {
    free(ledger.records);
    ledger.records = NULL;
    ledger.room = ledger.used = 0;
    ledger.missed = 0;
  }
  pthread_mutex_unlock(&ledger.mutex);
  return was;
}

/* ---- the report ------------------------------------------------------------------------------ */

static int by_number(const void *a, const void *b) {
  const record *x = a, *y = b;
  return (x->number > y->number) - (x->number < y->number);
}

/* Sets *out to a copy of the records of live objects, oldest first, and *without to the number of objects that could
 * not be recorded. Returns the number of records, or -1 if there is no memory. The caller frees *out. */
static int64_t copy_live(record **out, uint64_t *without) {
  size_t count = 0;
  pthread_mutex_lock(&ledger.mutex);
  *without = ledger.missed;
  *out = malloc((ledger.used + 1) * sizeof **out);
  for (size_t i = 0; i < ledger.room && *out != NULL; i++) {
    if (ledger.records[i].hidden != 0 && ledger.records[i].kind->live((const void *)CORE_HIDDEN(ledger.records[i].hidden)))
      (*out)[count++] = ledger.records[i];
  }
  pthread_mutex_unlock(&ledger.mutex);
  if (*out == NULL) return -1;
  qsort(*out, count, sizeof **out, by_number);
  return (int64_t)count;
}

/* Writes all of a text. Returns 0, or errno. */
static int write_text(int fd, const char *text) {
  size_t size = strlen(text);
  while (size > 0) {
    ssize_t n = write(fd, text, size);
    if (n < 0 && errno != EINTR) return errno;
    if (n > 0) text += n, size -= (size_t)n;
  }
  return 0;
}

/* Returns the address that addr2line expects. It is relative to the beginning of the module, unless the module was
 * linked for fixed addresses. */
static uintptr_t offset_in(const Dl_info *module, uintptr_t at) {
#if defined(__ELF__)
  if (((const ElfW(Ehdr) *)module->dli_fbase)->e_type == ET_EXEC) return at;
#endif
  return at - (uintptr_t)module->dli_fbase;
}

static int is_internal(const char *name) {
  return strncmp(name, "dlbcore_", 8) == 0 || strncmp(name, "dlbcapi_", 8) == 0 || strncmp(name, "dlbsegment_", 11) == 0;
}

/* Returns the index of the innermost stack frame of a function of dlbridge.h. If no frame has such a name, as after a
 * sibling call, it returns the index of the first frame after those with internal names. */
static int entry_of(const record *r) {
  Dl_info where;
  int first = 0;
  for (int i = 0; i < r->depth; i++) {
    if (!dladdr((char *)r->stack[i] - 1, &where) || where.dli_sname == NULL) continue;
    if (strncmp(where.dli_sname, "dlb_", 4) == 0) return i;
    if (is_internal(where.dli_sname)) first = i + 1;
  }
  return first;
}

/* Writes a stack frame: the function, if it has a dynamic symbol, the module, and the address for addr2line
 * (offset_in). Without a module it writes only the absolute address. The address is the return address minus 1, which
 * lies in the instruction of the call. */
static int write_frame(int fd, void *address) {
  char line[1200];
  Dl_info where;
  uintptr_t at = (uintptr_t)address - 1;
  if (!dladdr((void *)at, &where) || where.dli_fname == NULL)
    snprintf(line, sizeof line, "    %#" PRIxPTR "\n", at);
  else if (where.dli_sname != NULL)
    snprintf(line, sizeof line, "    %s (%s+%#" PRIxPTR ")\n", where.dli_sname, where.dli_fname, offset_in(&where, at));
  else
    snprintf(line, sizeof line, "    %s+%#" PRIxPTR "\n", where.dli_fname, offset_in(&where, at));
  return write_text(fd, line);
}

static int write_stack(int fd, const record *r) {
  int failed = 0;
  for (int i = entry_of(r); i < r->depth && failed == 0; i++) failed = write_frame(fd, r->stack[i]);
  return failed;
}

static int write_record(int fd, const record *r) {
  char line[128];
  snprintf(line, sizeof line, "dlbridge: %s at %#" PRIxPTR ", %" PRIu64 " bytes, made by\n", r->kind->name,
           CORE_HIDDEN(r->hidden), r->bytes);
  int failed = write_text(fd, line);
  return failed != 0 ? failed : write_stack(fd, r);
}

static int write_all(int fd, const record *list, int64_t count, uint64_t without) {
  char line[128];
  snprintf(line, sizeof line, "dlbridge: process %ld has %" PRId64 " live object%s\n", (long)getpid(), count,
           count == 1 ? "" : "s");
  int failed = write_text(fd, line);
  for (int64_t i = 0; i < count && failed == 0; i++) failed = write_record(fd, &list[i]);
  if (without == 0 || failed != 0) return failed;
  snprintf(line, sizeof line, "dlbridge: there was no memory to record %" PRIu64 " further objects\n", without);
  return write_text(fd, line);
}

int32_t dlb_ledger_write(size_t *out, int32_t fd, dlb_error *error) {
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code != DLB_OK) return code;
  if (!dlbcapi_ledger_on())
    return dlbcapi_fail(error, DLB_ERROR_ARGUMENT,
                        "%s: the ledger is off; dlb_ledger_set(1) or DLBRIDGE_LEDGER=1 switches it on", __func__);
  record *list;
  uint64_t without;
  int64_t count = copy_live(&list, &without);
  if (count < 0) return dlbcapi_memory(__func__, error);
  int failed = write_all(fd, list, count, without);
  free(list);
  if (failed != 0)
    return dlbcapi_fail(error, DLB_ERROR_ARGUMENT, "%s: fd = %d: %s", __func__, (int)fd, strerror(failed));
  *out = (size_t)count;
  return dlbcapi_ok(error);
}

/* Writes the calls that led here, innermost first. */
static void write_calls(void) {
  record now = {.depth = 0};
  now.depth = backtrace(now.stack, DEPTH);
  write_stack(STDERR_FILENO, &now);
}

/* ---- the environment, forks and the end of the process ---------------------------------------- */

static void lock_ledger(void) { pthread_mutex_lock(&ledger.mutex); }

static void unlock_ledger(void) { pthread_mutex_unlock(&ledger.mutex); }

__attribute__((constructor(101))) static void start_ledger(void) {
  const char *value = getenv("DLBRIDGE_LEDGER");
  pthread_atfork(lock_ledger, unlock_ledger, unlock_ledger);
  ledger.at_exit = value != NULL && *value != '\0' && strcmp(value, "0") != 0;
  if (ledger.at_exit) dlb_ledger_set(1);
  dlbcore_watch_repeats(write_calls);
}

/* A destructor runs after the functions that the program has passed to atexit, and after the destructors of the program
 * and of the libraries that use this one. In a program that is linked with the archive, the priority puts it after
 * them. Objects may still be released or made afterwards, so the ledger keeps its state. */
__attribute__((destructor(101))) static void report_at_exit(void) {
  record *list;
  uint64_t without;
  if (!ledger.at_exit || !dlbcapi_ledger_on()) return;
  int64_t count = copy_live(&list, &without);
  if (count > 0) write_all(STDERR_FILENO, list, count, without);
  free(list);
}
