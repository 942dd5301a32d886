/* Calls every function of dlbridge.h with wrong arguments in random order: NULL, sizes, indexes and flags out of range,
 * malformed descriptions and bytes, objects that were released, outputs that are not initialised. The calls are made by
 * one thread, by many, and in a forked child.
 *
 * calls.h is generated from the header. It has one function for each function of the header, which takes its arguments
 * from the makers below, one for each kind of parameter. So a new function is tested without further work, and a new kind
 * of parameter does not compile. Makers record their arguments, and finish() checks the results: after an error the
 * caller still owns its inputs, the output is zero, and the text of the error begins with the
 * name of the function; after success each input that was taken over
 * is released once.
 *
 * hostile ROUNDS SEED. With FAULTS, allocations fail and Go panics at random: it needs the library with fault_injection. */
#include "formats.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- chance ---------------------------------------------------------------------------------- */

static __thread uint64_t state = 1;
static __thread int good = 1; /* all arguments are valid, except the argument `null_at`, which is NULL */
static __thread int null_at = -1, argument;
static __thread int ended_at = -1, ended_was_passed; /* the argument `ended_at` is an object that was released or taken over */
static __thread const char *function, *parameter;

static uint64_t any(void) {
  state ^= state << 13;
  state ^= state >> 7;
  return state ^= state << 17;
}

static uint64_t below(uint64_t n) { return any() % n; }
static int chance(uint64_t one_in) { return !good && below(one_in) == 0; }
#define ONE(list) ((list)[below(sizeof(list) / sizeof *(list))])
#define ONE_OF(...) ONE(((const int64_t[]){__VA_ARGS__}))

static int null(void) { return argument++ == null_at || chance(12); }
static int is(const char *name) { return strcmp(function, name) == 0; }
static int named(const char *name) { return strcmp(parameter, name) == 0; }
static int of(const char *prefix) { return strncmp(function, prefix, strlen(prefix)) == 0; }

/* A count that exceeds every limit. */
static const uint64_t IMPOSSIBLE[] = {SIZE_MAX, (uint64_t)1 << 63, SIZE_MAX - 8};

/* ---- live objects ---------------------------------------------------------------------------- */

/* Memory that is lent to the library, or a tensor of another producer. It is released once if the call takes it over. */
typedef struct loan {
  struct loan *next;
  int released, kept; /* kept: it has no release function */
  void *memory;
  union {
    DLManagedTensorVersioned versioned;
    DLManagedTensor legacy;
  } made;
  int64_t shape[300], strides[300];
} loan;

static __thread loan *loans; /* those that were taken over */

static void release_loan(void *ctx) {
  loan *l = ctx;
  if (l == NULL) return;
  CHECK_INT(0, __atomic_fetch_add(&l->released, 1, __ATOMIC_RELAXED));
  free(l->memory);
  l->memory = NULL;
}

static void delete_versioned(DLManagedTensorVersioned *self) { release_loan(self->manager_ctx); }
static void delete_legacy(DLManagedTensor *self) { release_loan(self->manager_ctx); }

/* The live objects of the library that this program owns, by kind, and objects that ended or were taken over a few calls
 * ago, so that their memory is not reused yet. Other threads could reuse it: with them no ended objects are kept. */
typedef enum { TENSORS, LEGACY, MESSAGES, ELEMENTS, FILES, FRAMES, KINDS } kind;
enum { MOST = 24, DEAD = 8, RECENT = 4 };
typedef struct {
  void *is;
  dlb_frame frame; /* of FRAMES; is = frame.ctx */
  int since;
} thing;
static __thread thing live[KINDS][MOST], dead[KINDS][DEAD];
static __thread int live_count[KINDS], dead_count[KINDS], now;
static __thread int alone;
static __thread uint64_t double_deletes;

static int find(kind k, const void *p) {
  for (int i = 0; i < live_count[k]; i++)
    if (live[k][i].is == p) return i;
  return -1;
}

/* Records that an object has ended or was taken over. */
static void lose(kind k, const void *p) {
  int i = find(k, p);
  CHECK(i >= 0);
  thing t = live[k][i];
  live[k][i] = live[k][--live_count[k]];
  t.since = now;
  if (alone) dead[k][dead_count[k]++ % DEAD] = t;
}

static void call_end(kind k, thing t) {
  if (k == TENSORS) ((DLManagedTensorVersioned *)t.is)->deleter(t.is);
  else if (k == LEGACY) ((DLManagedTensor *)t.is)->deleter(t.is);
  else if (k == MESSAGES) dlb_message_free(t.is);
  else if (k == ELEMENTS) dlb_elements_free(t.is);
  else if (k == FILES) dlb_file_close(t.is);
  else t.frame.release(t.frame.ctx);
}

static void end_one(kind k) {
  thing t = live[k][below((uint64_t)live_count[k])];
  lose(k, t.is);
  call_end(k, t);
}

static void keep(kind k, thing t) {
  CHECK(t.is != NULL && find(k, t.is) < 0);
  if (live_count[k] == MOST) end_one(k);
  live[k][live_count[k]++] = t;
}

static thing *recent_dead(kind k) {
  thing *t = &dead[k][below(DEAD)];
  return t->is != NULL && now - t->since <= RECENT && find(k, t->is) < 0 ? t : NULL;
}

/* Returns a live or an ended object, or NULL if there is none. */
static void *pick(kind k) {
  thing *t = chance(6) ? recent_dead(k) : NULL;
  if (t != NULL) return t->is;
  return live_count[k] > 0 ? live[k][below((uint64_t)live_count[k])].is : NULL;
}

/* ---- a call ---------------------------------------------------------------------------------- */

/* The role of an argument in a call: an output; lent memory that is taken over on success, or only read; an object that
 * is taken over on success; or an argument with which the call cannot succeed. */
typedef enum { OUTPUT, LENT, SEEN, TAKEN, WRONG } role;
typedef enum { IN_TENSOR, IN_LEGACY, IN_MESSAGE, IN_FILE, IN_FRAME, IN_VALUES, IN_NUMBERS } output;
static __thread struct {
  role role;
  void *p;
  int what; /* an output, or the kind of the object that is taken over */
  size_t size;
} roles[32];
static __thread int role_count;
static __thread dlb_error *error_out;

static void play(role role, void *p, int what, size_t size) {
  CHECK(role_count < 32);
  roles[role_count].role = role;
  roles[role_count].p = p;
  roles[role_count].what = what;
  roles[role_count++].size = size;
}

static void begin(const char *name) {
  function = name;
  argument = role_count = 0;
  error_out = NULL;
  now++;
}

static void harvest(output what, void *p, size_t size) {
  thing t = {*(void **)p, {NULL, 0, NULL, NULL, 0}, 0};
  if (what == IN_TENSOR) keep(TENSORS, t);
  if (what == IN_LEGACY) keep(LEGACY, t);
  if (what == IN_MESSAGE && (t.is != NULL || !is("dlb_message_decode_next"))) keep(MESSAGES, t); /* there is none at the end of the frame */
  if (what == IN_FILE) keep(FILES, t);
  for (dlb_frame *f = p; what == IN_FRAME && (char *)f < (char *)p + size; f++) {
    t.frame = *f;
    CHECK(t.frame.release != NULL);
    t.is = t.frame.ctx;
    keep(FRAMES, t);
  }
  for (dlb_value *v = p; what == IN_VALUES && (char *)v < (char *)p + size; v++) {
    CHECK(v->tensor == NULL || v->elements == NULL);
    t.is = v->tensor;
    if (v->tensor != NULL) keep(TENSORS, t);
    t.is = v->elements;
    if (v->elements != NULL) keep(ELEMENTS, t);
  }
}

static void finish_input(role role, void *p, int what, int taken) {
  loan *l = p;
  if ((role == LENT && !taken) || role == SEEN) {
    CHECK_INT(0, l->released);
    free(l->memory);
    free(l);
  } else if (role == LENT) {
    l->next = loans;
    loans = l;
  } else if (role == TAKEN && taken) {
    lose((kind)what, p);
  }
}

/* The output buffer, which has exactly the size that the call is given, and is filled with 0x5a. */
static __thread char *room;
static __thread size_t room_size;

/* The buffer is too small, and is unchanged. */
static void check_too_little_room(size_t *need) {
  CHECK(room != NULL && *need > room_size);
  for (size_t i = 0; i < room_size; i++) CHECK_INT(0x5a, room[i]);
  *need = 0; /* as after any other error */
}

static int32_t finish(int32_t code, int is_status) {
  for (int i = 0; i < role_count; i++) {
    CHECK(roles[i].role != WRONG || code != DLB_OK || !is_status);
    if (roles[i].role != OUTPUT) finish_input(roles[i].role, roles[i].p, roles[i].what, code == DLB_OK);
  }
  for (int i = 0; i < role_count; i++) {
    if (roles[i].role != OUTPUT) continue;
    if (code == DLB_ERROR_ROOM) check_too_little_room(roles[i].p);
    for (size_t k = 0; code != DLB_OK && k < roles[i].size; k++) CHECK_INT(0, ((char *)roles[i].p)[k]);
    if (code == DLB_OK) harvest((output)roles[i].what, roles[i].p, roles[i].size);
  }
  if (error_out != NULL) {
    CHECK_INT(code, error_out->code);
    CHECK(memchr(error_out->message, 0, sizeof error_out->message) != NULL);
    CHECK((error_out->message[0] == 0) == (code == DLB_OK));
    size_t name = strlen(function);
    if (code != DLB_OK && (strncmp(error_out->message, function, name) != 0 || strncmp(error_out->message + name, ": ", 2) != 0)) {
      fprintf(stderr, "%s: the text of the error begins with another name: %s\n", function, error_out->message);
      exit(1);
    }
  }
  return code;
}

#ifdef FAULTS
void capiFault(int where);
static __thread int failing;
static int in_child;

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
int __wrap_posix_memalign(void **out, size_t alignment, size_t size);
static int fails(void) { return failing > 0 && --failing == 0; }
void *__wrap_malloc(size_t size) { return fails() ? NULL : malloc(size); }
void *__wrap_calloc(size_t count, size_t size) { return fails() ? NULL : calloc(count, size); }
int __wrap_posix_memalign(void **out, size_t alignment, size_t size) { return fails() ? 12 : posix_memalign(out, alignment, size); }

/* Enclose each call of the library. */
static void before(void) {
  if (alone && !in_child) capiFault(chance(4) ? 1 + (int)below(2) : 0);
  failing = chance(3) ? 1 + (int)below(6) : 0;
}

static void after(void) {
  failing = 0;
  if (alone && !in_child) capiFault(0);
}
#else
static int in_child;
static void before(void) {}
static void after(void) {}
#endif

/* ---- bytes ----------------------------------------------------------------------------------- */

static const char PREFIX[] =
    "ZIO3TENS{\"TENS\":{\"metadata\":{\"run\":7},\"tensors\":["
    "{\"shape\":[2,3],\"word\":4,\"dtype\":\"f\",\"metadata\":{\"name\":\"first\"}},"
    "{\"shape\":[3,2],\"word\":4,\"dtype\":\"f\",\"part\":0,\"order\":[0,1]},"
    "{\"shape\":[4],\"word\":2,\"dtype\":\"i\",\"part\":1,\"ascend\":[false]}]}}";
static const char HEADER[24] = "\5";
static const dlb_bytes MESSAGE[] = {{PREFIX, sizeof PREFIX - 1}, {HEADER, 24}, {HEADER, 24}, {HEADER, 8}};
static const char RULES[] = "{\"shape\":[2,-1],\"allowedTypes\":[\"f32\",\"string\"]}";
static dlb_frame packed; /* MESSAGE */

/* Sometimes sets reserved words to a value other than 0, with which the call cannot succeed. */
static void spoil_reserved(uint64_t *words, size_t count) {
  if (!chance(30)) return;
  words[below(count)] = any() | 1;
  play(WRONG, NULL, 0, 0);
}
#define SPOIL_RESERVED(structure) spoil_reserved((structure).reserved, sizeof(structure).reserved / sizeof(uint64_t))

static size_t spoil(char *bytes, size_t size) {
  if (chance(6)) size = below(size + 1);
  while (size > 0 && chance(3)) bytes[below(size)] = (char)any();
  return size;
}

/* A frame on memory of exactly its size, or a frame with invalid fields. */
static dlb_frame lend(const void *data, size_t size) {
  char bytes[1024];
  CHECK(size <= sizeof bytes);
  memcpy(bytes, data, size);
  size = spoil(bytes, size);
  loan *l = calloc(1, sizeof *l);
  CHECK(l != NULL);
  CHECK((l->memory = malloc(size + (size == 0))) != NULL);
  memcpy(l->memory, bytes, size);
  play(LENT, l, 0, 0);
  dlb_frame frame = {l->memory, size, release_loan, l, below(2)};
  if (chance(30) && size > 0) frame.data = NULL;
  if (chance(30)) frame.size = ONE(IMPOSSIBLE);
  if (chance(30)) frame.flags = any();
  SPOIL_RESERVED(frame);
  return frame;
}

static dlb_bytes say(const char *what, size_t size) {
  static __thread char rooms[8][128];
  static __thread unsigned turn;
  char *room = rooms[turn++ % 8];
  size = spoil(memcpy(room, what, size), size);
  return (dlb_bytes){chance(30) ? NULL : room, chance(30) ? ONE(IMPOSSIBLE) : size};
}

/* ---- tensors and elements -------------------------------------------------------------------- */

static const DLDataType TYPES[] = {{kDLFloat, 32, 1},  {kDLInt, 8, 1},     {kDLBool, 8, 1}, {kDLComplex, 64, 1}, {kDLFloat4_e2m1fn, 4, 1},
                                   {kDLFloat, 16, 2},  {kDLBfloat, 16, 1}, {77, 32, 1},     {kDLFloat, 0, 1},    {kDLInt, 64, 0},
                                   {kDLBool, 1, 1}};

/* Two by three elements within 256 bytes. Errors in the description can be found without reading the memory. */
static void describe(DLTensor *t, loan *l) {
  static const int64_t layouts[][2] = {{3, 1}, {1, 2}, {0, 1}, {4, 1}, {-3, -1}, {0, 0}};
  memset(t, 0, sizeof *t);
  CHECK((l->memory = calloc(1, 256)) != NULL);
  t->data = (char *)l->memory + 128;
  t->device.device_type = kDLCPU;
  t->ndim = 2;
  t->dtype = good ? FLOAT32 : TYPES[below(7)];
  t->shape = l->shape;
  for (int d = 0; d < 300; d++) l->shape[d] = l->strides[d] = d < 2 ? 2 + d : 1;
  if (chance(2)) t->strides = memcpy(l->strides, ONE(layouts), sizeof layouts[0]);
  if (chance(4)) t->byte_offset = 8;
  if (!chance(3)) return;
  switch (below(11)) {
    case 0: t->ndim = (int32_t)ONE_OF(-1, 0, 1, 3, 255, 256, 257, INT32_MIN, INT32_MAX); break;
    case 1: t->shape = NULL; break;
    case 2: t->shape = (int64_t *)((char *)l->shape + 1 + below(7)); break;
    case 3: l->shape[below(2)] = ONE_OF(0, -1, INT64_MIN, INT64_MAX, INT64_C(1) << 62); break;
    case 4: t->strides = l->strides, l->strides[below(2)] = ONE_OF(INT64_MIN, -INT64_MAX, -(INT64_C(1) << 61)); break;
    case 5: t->dtype = TYPES[7 + below(4)]; break;
    case 6: t->byte_offset = UINT64_MAX - below(64); break;
    case 7: t->device.device_type = (DLDeviceType)ONE_OF(kDLCUDA, kDLCUDAHost, 99); break;
    case 8: t->device.device_id = -1; break;
    case 9: t->data = NULL; break;
    default: t->strides = (int64_t *)((char *)l->strides + 4);
  }
}

static loan *produce(int taken) {
  loan *l = calloc(1, sizeof *l);
  CHECK(l != NULL);
  play(taken ? LENT : SEEN, l, 0, 0);
  return l;
}

/* The objects for the argument `ended_at`. */
static __thread thing ended_things[KINDS];

static thing *ended_thing(kind k) {
  if (argument - 1 != ended_at || ended_things[k].is == NULL) return NULL;
  ended_was_passed = 1;
  play(WRONG, ended_things[k].is, k, 0);
  return &ended_things[k];
}

/* Returns an object of the library, one that has ended or was taken over, or NULL. */
static void *have(kind k, int taken) {
  thing *t = ended_thing(k);
  if (t != NULL) {
    if (is("dlb_tensor_release")) double_deletes++;
    return t->is;
  }
  void *p = good || chance(2) ? NULL : pick(k);
  int ended = p != NULL && find(k, p) < 0;
  if (ended && is("dlb_tensor_release")) double_deletes++;
  if (ended || (p != NULL && taken)) play(ended ? WRONG : TAKEN, p, k, 0);
  return p;
}

/* Makes a tensor, which the call may take over on success. */
static DLManagedTensorVersioned *tensor(int taken) {
  static __thread DLManagedTensorVersioned copies[4];
  static __thread unsigned turn;
  DLManagedTensorVersioned *t = have(TENSORS, taken);
  if (t != NULL) return t;
  if (chance(20) && live_count[TENSORS] > 0) { /* a copy of the struct, which cannot be taken over */
    if (taken) play(WRONG, NULL, 0, 0);
    return memcpy(&copies[turn++ % 4], live[TENSORS][below((uint64_t)live_count[TENSORS])].is, sizeof *copies);
  }
  loan *l = produce(taken);
  t = &l->made.versioned;
  describe(&t->dl_tensor, l);
  t->version.major = chance(20) ? (uint32_t)any() : DLPACK_MAJOR_VERSION;
  t->version.minor = (uint32_t)below(9);
  t->manager_ctx = l;
  t->deleter = delete_versioned;
  if (chance(4)) t->flags = any() >> below(64);
  return chance(30) && !is("dlb_tensor_release") ? (void *)((char *)t + 4) : t;
}

static dlb_elements *elements(void) {
  static const int64_t shape[300] = {2, 1};
  static const dlb_bytes values[] = {{"hello", 5}, {", world!", 8}, {NULL, 3}, {"\xff", 1}}, formats[] = {{"png", 3}, {"jpg", 3}};
  static __thread dlb_elements made;
  dlb_elements *e = have(ELEMENTS, 0);
  if (e != NULL) return e;
  made = (dlb_elements){{"string", 6}, 1, shape, 2, values, NULL};
  if (chance(4)) made.type = (dlb_bytes){"image", 5}, made.formats = formats;
  if (!is("dlb_elements_free")) SPOIL_RESERVED(made);
  if (!chance(3)) return &made;
  switch (below(6)) {
    case 0: made.ndim = (int32_t)ONE_OF(-1, 0, 2, 256, 257, INT32_MAX, INT32_MIN); break;
    case 1: made.shape = NULL; break;
    case 2: made.count = (size_t)ONE_OF(0, 1, -1, INT64_MIN); break;
    case 3: made.values = below(2) ? NULL : values + 2; break;
    case 4: made.type = (dlb_bytes){"f32", 3}; break;
    default: made.type = (dlb_bytes){NULL, any()};
  }
  return &made;
}

/* ---- a maker for each kind of parameter ------------------------------------------------------ */

static __thread size_t length; /* the length of the last array that was made */

/* Outputs are not initialised. A call has two at most. */
static void *output_of(size_t size, output what) {
  static __thread union {
    void *aligned;
    char bytes[1024];
  } rooms[2];
  static __thread unsigned turn;
  if (null()) return NULL;
  char *bytes = rooms[turn++ % 2].bytes;
  memset(bytes, 0xff, sizeof rooms->bytes);
  play(OUTPUT, bytes, what, size);
  return bytes;
}

static DLManagedTensorVersioned **make_DLManagedTensorVersioned_pp(void) {
  length = 1;
  return output_of(sizeof(void *), IN_TENSOR);
}
static DLManagedTensor **make_DLManagedTensor_pp(void) { return output_of(sizeof(void *), IN_LEGACY); }
static dlb_message **make_dlb_message_pp(void) { return output_of(sizeof(void *), IN_MESSAGE); }
static dlb_frame *make_dlb_frame_p(void) {
  static __thread dlb_frame frames[2];
  if (named("frames")) { /* to be released: one of the caller, and one of the library if there is one */
    length = 2;
    if (null()) return NULL;
    frames[0] = lend("0123", 4);
    frames[1] = (dlb_frame){NULL, 0, NULL, NULL, 0};
    if (live_count[FRAMES] > 0) {
      frames[1] = live[FRAMES][0].frame;
      play(TAKEN, live[FRAMES][0].is, FRAMES, 0);
    }
    return frames;
  }
  length = is("dlb_message_frames") ? good ? 4 : below(6) : 1;
  return output_of(length * sizeof(dlb_frame), IN_FRAME);
}
static int64_t *make_int64_t_p(void) { return output_of(sizeof(int64_t), IN_NUMBERS); }
static int32_t *make_int32_t_p(void) { return output_of(sizeof(int32_t), IN_NUMBERS); }
static void **make_void_pp(void) { return output_of(sizeof(void *), IN_NUMBERS); }
static size_t *make_size_t_p(void) { return output_of(sizeof(size_t), IN_NUMBERS); }
static dlb_header *make_dlb_header_p(void) { return output_of(sizeof(dlb_header), IN_NUMBERS); }
static dlb_bytes *make_dlb_bytes_p(void) { return output_of(sizeof(dlb_bytes), IN_NUMBERS); }

/* The size of the structure in this version, in an earlier or in a later one. */
static dlb_counters *make_dlb_counters_p(void) {
  length = good ? sizeof(dlb_counters) : below(2) ? below(128) : sizeof(dlb_counters);
  return output_of(length, IN_NUMBERS);
}

static dlb_value *make_dlb_value_p(void) {
  length = strstr(function, "_decode_batch") != NULL ? 1 + below(4) : 1;
  return output_of(length * sizeof(dlb_value), IN_VALUES);
}

static dlb_error *make_dlb_error_p(void) {
  static __thread dlb_error error;
  if (null()) return NULL;
  memset(&error, 0xff, sizeof error);
  return error_out = &error;
}

static int nowhere; /* /dev/null, opened for writing */

/* Tensors in shared memory, which wind_up releases. Calls may send the first one writable, after which it cannot be sent
 * read-only; the makers send the second one read-only. */
static __thread DLManagedTensorVersioned *shared_elements[2];
static DLManagedTensorVersioned *shared(int by_maker) {
  static const int64_t one = 1;
  DLManagedTensorVersioned **t = &shared_elements[by_maker];
  if (*t == NULL) CHECK_OK(dlb_shm_alloc(t, FLOAT32, 1, &one, &error));
  return *t;
}

/* Returns a socket for a call. For dlb_shm_recv, a message with one tensor waits in it, and the other end is closed. */
static int32_t make_socket(void) {
  static __thread int ends[2] = {-1, -1};
  for (int i = 0; i < 2; i++)
    if (ends[i] >= 0) close(ends[i]);
  CHECK_INT(0, socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
  if (!is("dlb_shm_recv")) return ends[0];
  DLManagedTensorVersioned *sent = shared(1);
  CHECK_OK(dlb_shm_send(ends[1], &sent, 1, 60000, 0, &error));
  close(ends[1]);
  ends[1] = -1;
  return ends[0];
}

static dlb_shm_handle *make_dlb_shm_handle_p(void) { return output_of(sizeof(dlb_shm_handle), IN_NUMBERS); }

/* A handle of this process, or a wrong one. An offer that is not fetched ends soon. */
static const dlb_shm_handle *make_const_dlb_shm_handle_p(void) {
  static __thread dlb_shm_handle h;
  if (null()) return NULL;
  CHECK_OK(dlb_shm_offer(&h, shared(1), good ? 10000 : 20, 0, &error));
  if (chance(4)) ((char *)&h)[below(sizeof h)] = (char)any();
  if (chance(8)) memset(&h, (int)any(), sizeof h);
  return &h;
}

/* An object that other programs share by its name. */
static char folder[] = "/tmp/dlbridge-hostile-XXXXXX", object[64], array[64], written[64];

static void make_object(void) {
  CHECK(mkdtemp(folder) != NULL);
  snprintf(object, sizeof object, "%s/object", folder);
  int file = open(object, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  CHECK(file >= 0 && ftruncate(file, 4) == 0);
  close(file);
  snprintf(array, sizeof array, "%s/array.npy", folder);
  snprintf(written, sizeof written, "%s/written.npy", folder);
  static const int64_t two = 2;
  dlb_file_tensor named = {.name = "x"};
  CHECK_OK(dlb_tensor_alloc(&named.tensor, FLOAT32, 1, &two, &error));
  CHECK_OK(dlb_file_write(array, &named, 1, NULL, &error));
  dlb_tensor_release(named.tensor);
}

static void remove_object(void) {
  unlink(array);
  unlink(written);
  unlink(object);
  rmdir(folder);
}

static int64_t make_int64_t(void) {
  argument++; /* or timeout_ms */
  if (named("scales") || named("shifts")) return good ? 1 : ONE_OF(0, 1, 1, 2, 3, -1, INT64_MIN, INT64_MAX);
  if (is("dlb_shm_offer")) return chance(4) ? ONE_OF(0, -1, INT64_MIN) : 1 + (int64_t)below(20);
  return chance(4) ? ONE_OF(0, -1, INT64_MIN, INT64_MAX) : 10000;
}

static int32_t make_int32_t(void) {
  argument++;
  if (named("on")) return good || !alone || below(2); /* another thread may be about to write the ledger */
  if (named("count")) return good ? 1 : (int32_t)ONE_OF(1, 2, 2, 0, 3, -1, 256, 257, 513, 514, INT32_MIN, INT32_MAX);
  if (named("fd") && of("dlb_shm_")) return chance(9) ? -1 : make_socket();
  if (named("fd")) return chance(9) ? (int32_t)ONE_OF(-1, INT32_MAX, INT32_MIN) : nowhere;
  if (named("ndim")) return good ? 2 : (int32_t)ONE_OF(2, 2, 2, 0, 1, -1, 255, 256, 257, INT32_MIN, INT32_MAX);
  return good ? 0 : (int32_t)ONE_OF(0, 0, 0, 1, 2, -1, 3, INT32_MAX, INT32_MIN);
}

static uint64_t make_uint64_t(void) {
  argument++;
  return (named("flags") || named("options")) && chance(9) ? any() : chance(2) ? below(9) : 0;
}

/* The length of the array argument before it, or a count that is too large; or else an index or offset. */
static size_t make_size_t(void) {
  argument++;
  if (named("size")) return length;
  if (!named("count") && !named("room")) return good ? 0 : (size_t)ONE_OF(0, 0, 1, 2, 3, 5, 1000, -1, INT64_MIN);
  if (!chance(20) || is("dlb_frames_release")) return length;
  for (int i = 0; i < role_count; i++)
    if (roles[i].role == OUTPUT && (roles[i].what == IN_VALUES || roles[i].what == IN_FRAME || roles[i].what == IN_TENSOR)) roles[i].size = 0; /* so many cannot exist */
  return ONE(IMPOSSIBLE);
}

static DLDataType make_DLDataType(void) { return argument++, good ? FLOAT32 : ONE(TYPES); }

static const int64_t *make_const_int64_t_p(void) {
  static __thread int64_t shape[300];
  if (null()) return NULL;
  for (int d = 0; d < 300; d++) shape[d] = is("dlb_tensor_index") || is("dlb_tensor_address") ? 0 : is("dlb_tensor_reshape") || d > 1 ? 1 : 2 + d;
  if (chance(3)) shape[below(3)] = ONE_OF(0, -1, INT64_MIN, INT64_MAX, INT64_C(1) << 62);
  return chance(30) ? (int64_t *)((char *)shape + 1) : shape;
}

static __thread loan *lent;

static const DLTensor *make_const_DLTensor_p(void) {
  static __thread DLTensor view;
  static const int64_t one = 1;
  lent = NULL;
  if (null()) return NULL;
  if (of("dlb_shm_") && (good || below(2))) view = (DLTensor){.device = {kDLCPU, 0}, .ndim = 1, .dtype = FLOAT32, .shape = (int64_t *)&one};
  else describe(&view, lent = produce(of("dlb_tensor_")));
  return &view;
}

static void (*make_void_function(void))(void *) {
  if (!null()) return release_loan;
  if (lent != NULL) lent->kept = 1;
  return NULL;
}

/* An output buffer, or the ctx of a release function. */
static void *make_void_p(void) {
  if (named("ctx")) {
    if (!null()) return lent;
    if (lent != NULL) lent->kept = 1;
    return NULL;
  }
  length = room_size = good ? 512 : (size_t)ONE_OF(512, 512, 0, 1, 27, 28, 63);
  free(room);
  CHECK((room = malloc(length + (length == 0))) != NULL);
  memset(room, 0x5a, length + (length == 0));
  return null() ? NULL : room;
}

/* A value of a format, or two, one after the other. */
static dlb_bytes sample(const test_format *f) {
  const dlb_bytes all[] = {f->strings, f->copied, f->media, f->others[0], f->others[1], f->others[2], f->tensor};
  static __thread char both[256];
  dlb_bytes one = all[below(7)], next = all[below(7)];
  if (good || one.data == NULL) return f->tensor;
  if (f->decode_batch == NULL || next.data == NULL || chance(2)) return one;
  memcpy(both, one.data, one.size);
  memcpy(both + one.size, next.data, next.size);
  return (dlb_bytes){both, one.size + next.size};
}

static const dlb_frame *make_const_dlb_frame_p(void) {
  static __thread dlb_frame frames[4];
  length = named("frame") || named("packed") ? 1 : good ? 4 : below(5);
  if (null()) return NULL;
  for (size_t i = 0; i < length; i++) {
    thing *t = chance(8) && live_count[FRAMES] > 0 ? &live[FRAMES][below((uint64_t)live_count[FRAMES])] : NULL;
    dlb_bytes bytes = MESSAGE[i];
    EACH_FORMAT(f) {
      if (of("dlb_") && strncmp(function + strlen("dlb_"), f->name, strlen(f->name)) == 0) bytes = sample(f);
    }
    if (is("dlb_message_decode_packed") || is("dlb_message_decode_next")) bytes = (dlb_bytes){packed.data, packed.size};
    thing *ended = chance(16) ? recent_dead(FRAMES) : NULL;
    if (ended != NULL) play(WRONG, ended->is, 0, 0);
    else ended = ended_thing(FRAMES);
    if (ended != NULL) t = ended;
    for (size_t k = 0; t != NULL && k < i; k++)
      if (frames[k].ctx == t->is) play(WRONG, t->is, 0, 0); /* the same frame is passed twice */
    if (t != NULL && t != ended) play(TAKEN, t->is, FRAMES, 0);
    if (t != NULL) frames[i] = t->frame;
    else frames[i] = lend(bytes.data, bytes.size);
  }
  return frames;
}

static const dlb_message *make_const_dlb_message_p(void) {
  if (null()) return NULL;
  dlb_message *m = have(MESSAGES, 0);
  if (m == NULL && good) m = live[MESSAGES][0].is;
  if (m != NULL) return m;
  uintptr_t wild[] = {1, 8, 4096, UINTPTR_MAX, (uintptr_t)wild, (uintptr_t)live[MESSAGES][0].is + 8, (uintptr_t)packed.data};
  m = (dlb_message *)ONE(wild);
  play(WRONG, m, 0, 0);
  return m;
}

static dlb_message *make_dlb_message_p(void) {
  const dlb_message *m = make_const_dlb_message_p();
  if (find(MESSAGES, m) >= 0) play(TAKEN, (void *)m, MESSAGES, 0);
  return (dlb_message *)m;
}

static dlb_elements *make_dlb_elements_p(void) {
  if (null()) return NULL;
  dlb_elements *e = elements();
  if (find(ELEMENTS, e) >= 0) play(TAKEN, e, ELEMENTS, 0);
  return e;
}

static DLDataType *make_DLDataType_p(void) { return output_of(sizeof(DLDataType), IN_NUMBERS); }
static DLDevice *make_DLDevice_p(void) { return output_of(sizeof(DLDevice), IN_NUMBERS); }
static DLDevice make_DLDevice(void) {
  argument++;
  return (DLDevice){good ? kDLCPU : (DLDeviceType)ONE_OF(1, 2, 3, 5, 18, 20, 22, -1, INT32_MAX), good ? 0 : (int32_t)any()};
}

static const char *make_const_char_p(void) {
  static const char *const dtypes[] = {"float32", "<f4", ">f4", "handle", "int4x2", "float4_e2m1fn_x2", "", "x", "int", "uint65536", "float32x65536"};
  static const char *const device_names[] = {"cpu", "cuda:1", "99:-7", "", ":", "cuda:", "-2147483648:2147483647", "cpu:99999999999"};
  static __thread char text[64];
  if (null()) return NULL;
  if (named("path")) return good || below(3) ? is("dlb_file_write") ? written : array : ONE_OF(0, 1) ? folder : "";
  if (named("directory")) return good || below(3) ? folder : ONE_OF(0, 1) ? "/dev" : "";
  if (is("dlb_message_find")) return good || below(2) ? "first" : "";
  if (is("dlb_file_find")) return good || below(2) ? "arr_0" : "";
  if (named("name")) return good || below(3) ? "object" : ONE_OF(0, 1) ? "zero" : "../object";
  const char *from = of("dlb_device") ? device_names[good ? 0 : below(8)] : dtypes[good ? 0 : below(11)];
  return strcpy(text, from);
}

static char *make_char_p(void) { return make_void_p(); }

static DLManagedTensorVersioned *make_DLManagedTensorVersioned_p(void) { return null() ? NULL : tensor(1); }

/* Views can be made of the library's own tensors only, such as this one. */
static __thread DLManagedTensorVersioned *one_element;

static int is_view(void) {
  static const char *const views[] = {"share", "slice", "index", "transpose", "reshape", "broadcast_to", "flip", "expand", "squeeze", "contiguous"};
  for (size_t i = 0; i < sizeof views / sizeof *views; i++)
    if (of("dlb_tensor_") && strcmp(function + strlen("dlb_tensor_"), views[i]) == 0) return 1;
  return 0;
}

static DLManagedTensorVersioned *const *make_DLManagedTensorVersioned_pconst_p(void) {
  static __thread DLManagedTensorVersioned *tensors[3];
  length = good ? 1 : below(4);
  if (null()) return NULL;
  for (size_t i = 0; i < length; i++) tensors[i] = ended_at < 0 && (good || below(2)) ? shared(0) : tensor(0);
  return tensors;
}

static const DLManagedTensorVersioned *make_const_DLManagedTensorVersioned_p(void) {
  if (null()) return NULL;
  if ((is("dlb_shm_readonly") || is("dlb_shm_offer")) && (good || below(2)) && ended_at < 0) return shared(0);
  return good && ended_at < 0 && (is_view() || is("dlb_tensor_convert_scaled")) ? one_element : tensor(0);
}

/* Lists of dimensions, longer than any count that is not refused. */
static const int32_t *make_const_int32_t_p(void) {
  static __thread int32_t axes[300];
  if (null()) return NULL;
  for (int d = 0; d < 300; d++) axes[d] = good ? 0 : (int32_t)ONE_OF(d, d, d, -1, 0, 1, 256, INT32_MIN, INT32_MAX);
  return chance(30) ? (int32_t *)((char *)axes + 2) : axes;
}

static const double *make_const_double_p(void) {
  static const double numbers[] = {0.5, -1, INFINITY};
  return null() ? NULL : numbers;
}

static const dlb_index *make_const_dlb_index_p(void) {
  static __thread dlb_index index[520];
  static const dlb_index kinds[] = {DLB_ALL, DLB_AT(-1), DLB_FROM(1), DLB_UNTIL(-1), DLB_RANGE(0, 2), DLB_STEP(-2), DLB_ELLIPSIS, DLB_NEW_AXIS};
  if (null()) return NULL;
  for (int k = 0; k < 520; k++) {
    index[k] = good ? kinds[0] : ONE(kinds);
    if (chance(9)) index[k].start = ONE_OF(0, 1, -3, INT64_MIN, INT64_MAX);
    if (chance(9)) index[k].stop = ONE_OF(0, 1, -3, INT64_MIN, INT64_MAX);
    if (chance(9)) index[k].step = ONE_OF(-1, 0, 3, INT64_MIN, INT64_MAX);
    if (chance(9)) index[k].kind = any() >> below(64);
  }
  return chance(30) ? (dlb_index *)((char *)index + 4) : index;
}

static DLManagedTensor *make_DLManagedTensor_p(void) {
  if (null()) return NULL;
  DLManagedTensor *t = have(LEGACY, 1);
  if (t != NULL) return t;
  loan *l = produce(1);
  describe(&l->made.legacy.dl_tensor, l);
  l->made.legacy.manager_ctx = l;
  l->made.legacy.deleter = delete_legacy;
  return chance(30) ? (void *)((char *)&l->made.legacy + 1) : &l->made.legacy;
}

/* An element for dlb_tensor_fill, as large as the largest of TYPES. */
static const void *make_const_void_p(void) {
  static __thread char value[16];
  if (null()) return NULL;
  for (size_t i = 0; i < sizeof value; i++) value[i] = (char)any();
  return value;
}

/* An allocator that may have no memory, lack a function, or return memory that is not aligned. There is more of it than was
 * asked for, because dlb_tensor_from_legacy may be told that packed elements of one bit are padded to a byte each. */
static void *allocate(void *ctx, size_t size) {
  if ((ctx != NULL && below(2)) || size > SIZE_MAX / 16) return NULL;
  char *memory = malloc(8 * size + 1);
  return memory == NULL ? NULL : memory + (ctx != NULL);
}

static void free_allocated(void *ctx, void *memory, size_t size) {
  memset(memory, 0x5a, size);
  free((char *)memory - (ctx != NULL));
}

static const dlb_allocator *make_const_dlb_allocator_p(void) {
  static __thread dlb_allocator a;
  if (null()) return NULL;
  a = (dlb_allocator){allocate, free_allocated, chance(2) ? &nowhere : NULL};
  if (chance(9)) a.allocate = NULL;
  if (chance(9)) a.free = NULL;
  return &a;
}

static const dlb_message_tensor *make_const_dlb_message_tensor_p(void) {
  static __thread dlb_message_tensor tensors[4];
  length = good ? 2 : below(5);
  if (null()) return NULL;
  for (size_t i = 0; i < length; i++) {
    int wrong = chance(20); /* no tensor, or the same as before */
    tensors[i].tensor = !wrong ? tensor(1) : i == 0 ? NULL : tensors[i - 1].tensor;
    if (wrong) play(WRONG, tensors[i].tensor, 0, 0);
    tensors[i].metadata = chance(4) ? say("{\"a\":1}", 7) : (dlb_bytes){NULL, 0};
    tensors[i].name = good && i == 0 ? "first" : chance(4) ? &"first"[i] : NULL;
    memset(tensors[i].reserved, 0, sizeof tensors[i].reserved);
    SPOIL_RESERVED(tensors[i]);
  }
  return tensors;
}

static const dlb_header *make_const_dlb_header_p(void) {
  static __thread dlb_header header;
  if (null()) return NULL;
  header = (dlb_header){(int32_t)below(9), {'F', 'L', 'O', 'W'}, any(), any(), any()};
  if (chance(9)) header.level = (int32_t)any();
  if (chance(9)) memset(header.form, (int)any(), 4);
  return &header;
}

static const dlb_message_fields *make_const_dlb_message_fields_p(void) {
  static __thread dlb_message_fields fields;
  if (null()) return NULL;
  memset(&fields, 0, sizeof fields);
  if (chance(9)) fields.header.level = (int32_t)any();
  if (chance(2)) fields.label = say("{\"b\":[1]}", 9);
  if (chance(2)) fields.metadata = say("{\"c\":{}}", 8);
  SPOIL_RESERVED(fields);
  return &fields;
}

static dlb_bytes make_dlb_bytes(void) {
  argument++;
  return named("rules") ? say(RULES, sizeof RULES - 1) : say("label", 5);
}

static const dlb_value *make_const_dlb_value_p(void) {
  static __thread dlb_value v;
  if (null()) return NULL;
  int which = good ? 1 : (int)below(20);
  v = (dlb_value){which % 2 || which == 0 ? tensor(0) : NULL, which % 2 == 0 ? elements() : NULL, any(), (int32_t)any()};
  if (which == 0) play(WRONG, NULL, 0, 0); /* both */
  SPOIL_RESERVED(v);
  return &v;
}

static dlb_file **make_dlb_file_pp(void) { return output_of(sizeof(void *), IN_FILE); }
static dlb_file_entry *make_dlb_file_entry_p(void) { return output_of(sizeof(dlb_file_entry), IN_NUMBERS); }

static const dlb_file *make_const_dlb_file_p(void) {
  if (null()) return NULL;
  dlb_file *f = have(FILES, 0);
  if (f == NULL && good && live_count[FILES] > 0) f = live[FILES][0].is;
  if (f != NULL) return f;
  uintptr_t wild[] = {1, 8, 4096, UINTPTR_MAX, (uintptr_t)wild, (uintptr_t)live[FILES][0].is + 8, (uintptr_t)packed.data};
  f = (dlb_file *)ONE(wild);
  play(WRONG, f, 0, 0);
  return f;
}

static dlb_file *make_dlb_file_p(void) {
  const dlb_file *f = make_const_dlb_file_p();
  if (find(FILES, f) >= 0) play(TAKEN, (void *)f, FILES, 0);
  return (dlb_file *)f;
}

static const dlb_file_options *make_const_dlb_file_options_p(void) {
  static __thread dlb_file_options options;
  if (null()) return NULL;
  options = (dlb_file_options){.flags = chance(3) ? any() : chance(3) ? below(4) : 0};
  if (chance(3)) options.as = ONE(TYPES);
  SPOIL_RESERVED(options);
  return &options;
}

/* The tensors are borrowed. */
static const dlb_file_tensor *make_const_dlb_file_tensor_p(void) {
  static __thread dlb_file_tensor tensors[4];
  length = good ? 1 : below(4);
  if (null()) return NULL;
  for (size_t i = 0; i < length; i++) {
    tensors[i] = (dlb_file_tensor){chance(20) ? NULL : tensor(0), chance(4) ? NULL : &"first"[below(5)]};
    SPOIL_RESERVED(tensors[i]);
  }
  return tensors;
}

static int32_t stop(void *ctx, uint64_t written, uint64_t total) {
  CHECK(written <= total);
  return ctx != NULL;
}

static const dlb_file_fields *make_const_dlb_file_fields_p(void) {
  static const char *const formats[] = {"npy", "npz", "safetensors", "gguf", ""};
  static __thread dlb_file_fields fields;
  if (null()) return NULL;
  fields = (dlb_file_fields){.format = good ? "npy" : ONE(formats), .align = chance(3) ? (uint64_t)ONE_OF(1, 64, 65, -1, INT64_MIN) : 0};
  if (chance(2)) fields.metadata = say("{\"a\":\"b\"}", 9);
  if (chance(2)) fields.progress = stop, fields.ctx = below(2) ? &nowhere : NULL;
  SPOIL_RESERVED(fields);
  return &fields;
}

#include "calls.h"

/* ---- the tests ------------------------------------------------------------------------------- */

enum { CALLS = sizeof calls / sizeof *calls };

/* Makes a message for the functions that need one. */
static void stock(void) {
  static const dlb_header header = {0, {'F', 'L', 'O', 'W'}, 0, 0, 0};
  thing t = {NULL, {NULL, 0, NULL, NULL, 0}, 0};
  dlb_message *m;
  if (good || below(2)) CHECK_OK(dlb_message_decode_packed(&m, &packed, 0, &error));
  else CHECK_OK(dlb_message_encode_parts(&m, &header, (dlb_bytes){NULL, 0}, NULL, 0, &error));
  t.is = m;
  keep(MESSAGES, t);
}

static void stock_file(void) {
  thing t = {NULL, {NULL, 0, NULL, NULL, 0}, 0};
  dlb_file *f;
  CHECK_OK(dlb_file_open(&f, array, NULL, &error));
  t.is = f;
  keep(FILES, t);
}

static void restock(void) {
  if (live_count[MESSAGES] == 0 && !in_child) stock();
  if (live_count[FILES] == 0 && !in_child) stock_file();
}

/* Every function succeeds with valid arguments, and reports a pointer that is NULL unless it may be NULL. */
static void every_pointer_is_null_once(void) {
  static const int64_t one = 1;
  good = 1;
  CHECK_OK(dlb_tensor_alloc(&one_element, FLOAT32, 1, &one, &error));
  for (int i = 0; i < CALLS; i++) {
    for (null_at = -1; null_at < calls[i].parameters; null_at++) {
      const char *what = null_at < 0 ? "" : calls[i].names[null_at];
      if (null_at >= 0 && !calls[i].pointers[null_at]) continue;
      int optional = null_at < 0 || strcmp(what, "error") == 0 || strcmp(what, "fields") == 0 || strcmp(what, "options") == 0 || strcmp(what, "release") == 0 ||
                     strcmp(what, "ctx") == 0;
      restock();
      int32_t code = calls[i].call();
      if (code == DLB_OK ? optional || !calls[i].is_status : code == DLB_ERROR_NULL && !optional) continue;
      if (code == DLB_ERROR_FORKED && in_child) continue;
      fprintf(stderr, "%s: %s NULL: %s: %s\n", calls[i].name, what, dlb_error_name(code), error_out != NULL ? error_out->message : "");
      exit(1);
    }
  }
  null_at = -1;
  dlb_tensor_release(one_element);
}

static DLManagedTensorVersioned *make_tensor(void) {
  DLManagedTensorVersioned *t;
  CHECK_OK(dlb_tensor_alloc(&t, FLOAT32, 0, (int64_t[]){0}, &error));
  return t;
}

/* Sets `ended_things` to objects that were released. In a forked child there are no messages and values. */
static void release_things(void) {
  DLManagedTensorVersioned *t = make_tensor();
  ended_things[TENSORS].is = t;
  dlb_tensor_release(t);
  DLManagedTensor *legacy;
  CHECK_OK(dlb_tensor_to_legacy(&legacy, make_tensor(), &error));
  ended_things[LEGACY].is = legacy;
  legacy->deleter(legacy);
  if (in_child) return;
  dlb_message *m;
  thing *frame = &ended_things[FRAMES];
  CHECK_OK(dlb_message_decode_packed(&m, &packed, 0, &error));
  CHECK_OK(dlb_message_frame(&frame->frame, m, 0, &error));
  frame->is = frame->frame.ctx;
  frame->frame.release(frame->frame.ctx);
  ended_things[MESSAGES].is = m;
  dlb_message_free(m);
  dlb_value v;
  const dlb_frame strings = {all_formats->strings.data, all_formats->strings.size, NULL, NULL, 0};
  CHECK_OK(all_formats->decode(&v, &strings, 0, &error));
  ended_things[ELEMENTS].is = v.elements;
  dlb_elements_free(v.elements);
  dlb_file *f;
  CHECK_OK(dlb_file_open(&f, array, NULL, &error));
  ended_things[FILES].is = f;
  dlb_file_close(f);
}

static DLManagedTensorVersioned *new_owner;
static dlb_message *new_owner_of_frame;

/* Sets `ended_things` to objects that were taken over and whose new owners are live. */
static void take_things_over(void) {
  DLManagedTensor *legacy;
  ended_things[TENSORS].is = make_tensor();
  CHECK_OK(dlb_tensor_to_legacy(&legacy, ended_things[TENSORS].is, &error));
  ended_things[LEGACY].is = legacy;
  CHECK_OK(dlb_tensor_from_legacy(&new_owner, legacy, 0, &error));
  if (in_child) return;
  dlb_message *m;
  thing *frame = &ended_things[FRAMES];
  CHECK_OK(dlb_message_decode_packed(&m, &packed, 0, &error));
  CHECK_OK(dlb_message_encode_packed(&frame->frame, m, &error));
  frame->is = frame->frame.ctx;
  CHECK_OK(dlb_message_decode_packed(&new_owner_of_frame, &frame->frame, 0, &error));
  dlb_message_free(m);
}

/* Every function refuses each object that was released or taken over, and does nothing with it. Returns the number of
 * calls. */
static int every_ended_object_is_passed_once(void (*end)(void)) {
  int passed = 0;
  good = 1;
  for (int i = 0; i < CALLS; i++) {
    for (int k = 0; k < calls[i].parameters; k++) {
      if (!calls[i].pointers[k]) continue;
      restock();
      memset(ended_things, 0, sizeof ended_things);
      new_owner = NULL;
      new_owner_of_frame = NULL;
      end();
      ended_at = k;
      ended_was_passed = 0;
      int32_t code = calls[i].call();
      ended_at = -1;
      passed += ended_was_passed;
      dlb_tensor_release(new_owner);
      dlb_message_free(new_owner_of_frame);
      if (!ended_was_passed || !calls[i].is_status || code == DLB_ERROR_ARGUMENT || (code == DLB_ERROR_FORKED && in_child)) continue;
      fprintf(stderr, "%s: an object that has ended as %s: %s\n", calls[i].name, calls[i].names[k], dlb_error_name(code));
      exit(1);
    }
  }
  return passed;
}

static void each_argument_in_turn(void) {
  every_pointer_is_null_once();
  CHECK(every_ended_object_is_passed_once(release_things) > 10);
  CHECK(every_ended_object_is_passed_once(take_things_over) > 5);
}

/* Checks that everything that was taken over was released once, and that no object is left. */
static void wind_up(void) {
  for (kind k = 0; k < KINDS; k++)
    while (live_count[k] > 0) end_one(k);
  for (int i = 0; i < 2; i++) {
    dlb_tensor_release(shared_elements[i]);
    shared_elements[i] = NULL;
  }
  free(room);
  room = NULL;
  while (loans != NULL) {
    loan *l = loans;
    loans = l->next;
    if (!l->kept) CHECK_INT(1, l->released);
    free(l->memory);
    free(l);
  }
}

/* ThreadSanitizer ends a child in which a new thread gets the stack of one that the parent had. It does not see that Go closes the
 * file that it has mapped, and takes the next use of the descriptor by C for a race with the mapping. */
#ifdef __SANITIZE_THREAD__
enum { CHILDREN = 0 };
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void) { return "race:map_file\n"; }
#else
enum { CHILDREN = 1 };
#endif

static void in_a_child(void (*f)(int), int rounds) {
  if (!CHILDREN) return;
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    alarm(300); /* ends a call that hangs */
    in_child = 1;
    f(rounds);
    wind_up();
    dlb_counters c;
    dlb_counters_read(&c, sizeof c);
    CHECK(c.imports == 0 && c.messages == 0 && c.elements == 0);
    _exit(0);
  }
  int status = -1;
  CHECK_INT(child, waitpid(child, &status, 0));
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void each_argument(int rounds) { (void)rounds, each_argument_in_turn(); }

static void any_calls(int rounds) {
  good = 0;
  for (int i = 0; i < rounds; i++) {
    restock();
    if (below(10) > 0) {
      calls[below(CALLS)].call();
      continue;
    }
    kind k = (kind)below(KINDS);
    thing *t = recent_dead(k);
    if (below(2) && t != NULL) { /* again */
      double_deletes += k == TENSORS || k == LEGACY || k == FRAMES;
      call_end(k, *t);
    } else if (live_count[k] > 0) {
      end_one(k);
    }
  }
}

static int rounds_of_each;

static void *one_of_many(void *seed) {
  state = *(uint64_t *)seed;
  every_pointer_is_null_once();
  any_calls(rounds_of_each);
  wind_up();
  return NULL;
}

/* Go reads memory that does not exist, such as that of a mapped file that was truncated. */
static void memory_that_is_not_there(void) {
  size_t size = 4096;
  void *gone = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(gone != MAP_FAILED);
  dlb_frame frames[] = {{gone, size, NULL, NULL, 0}, {HEADER, 24, NULL, NULL, 0}};
  dlb_header header = {0};
  dlb_bytes bytes = {gone, size};
  dlb_message_fields fields = {header, {NULL, 0}, bytes};
  const dlb_file_fields texts = {.format = "safetensors", .metadata = bytes};
  const dlb_elements e = {{"string", 6}, 0, NULL, 1, &bytes, NULL};
  dlb_value out, value = {NULL, (dlb_elements *)&e, 0, 0};
  dlb_message *m;
  size_t written;
  static char room[8192];
  for (int i = 0; i < 3; i++) {
    CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_message_decode(&m, frames, 2, 0, &error));
    CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_message_decode_packed(&m, frames, 0, &error));
    CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_message_encode_parts(&m, &header, bytes, NULL, 0, &error));
    CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_message_encode(&m, &fields, NULL, 0, &error));
    CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_file_write(object, NULL, 0, &texts, &error));
    EACH_FORMAT(f) {
      CHECK_CODE(DLB_ERROR_ARGUMENT, f->decode(&out, frames, 0, &error));
      if (f->decode_batch != NULL) CHECK_CODE(DLB_ERROR_ARGUMENT, f->decode_batch(&out, 1, &(size_t){0}, frames, 0, 0, &error));
      if (f->check != NULL) CHECK_CODE(DLB_ERROR_ARGUMENT, f->check(bytes, &value, &error));
      CHECK_CODE(DLB_ERROR_ARGUMENT, f->encode(&written, room, sizeof room, &value, 0, &error));
    }
  }
  munmap(gone, size);
}

static void check_counters(const char *when) {
  dlb_counters c;
  dlb_counters_read(&c, sizeof c);
  if (c.exports == 0 && c.imports == 0 && c.messages == 0 && c.elements == 0 && c.files == 0 && c.double_deletes == double_deletes) return;
  fprintf(stderr, "%s leaves %" PRId64 " exports, %" PRId64 " imports, %" PRId64 " messages, %" PRId64 " elements, %" PRId64 " files, %" PRIu64 " double deletes, want %" PRIu64 "\n",
          when, c.exports, c.imports, c.messages, c.elements, c.files, c.double_deletes, double_deletes);
  exit(1);
}

static void pack(void) {
  dlb_frame frames[4], whole;
  dlb_message *m;
  static char room[1024];
  for (int i = 0; i < 4; i++) frames[i] = (dlb_frame){MESSAGE[i].data, MESSAGE[i].size, NULL, NULL, 0};
  CHECK_OK(dlb_message_decode(&m, frames, 4, 0, &error));
  CHECK_OK(dlb_message_encode_packed(&whole, m, &error));
  CHECK(whole.size <= sizeof room);
  packed = (dlb_frame){memcpy(room, whole.data, whole.size), whole.size, NULL, NULL, 0};
  whole.release(whole.ctx);
  dlb_message_free(m);
}

int main(int argc, char **argv) {
  enum { THREADS = 4 };
  CHECK_INT(3, argc);
  int rounds = atoi(argv[1]);
  state = strtoull(argv[2], NULL, 10) | 1;
  alone = 1;
  nowhere = open("/dev/null", O_WRONLY);
  CHECK(nowhere >= 0);
  make_object();
  pack();
  each_argument_in_turn();
  wind_up();
  for (int i = 0; i < 8; i++) stock(), stock_file(); /* the child cannot make any */
  in_a_child(each_argument, 0);
  wind_up();
  check_counters("each argument");
  memory_that_is_not_there();
  check_counters("memory that is not there");
  any_calls(rounds);
  in_a_child(any_calls, rounds / 10);
  wind_up();
  check_counters("chance");
  pthread_t threads[THREADS];
  uint64_t seeds[THREADS];
  rounds_of_each = rounds / THREADS;
  for (int i = 0; i < THREADS; i++) {
    seeds[i] = any() | 1;
    CHECK_INT(0, pthread_create(&threads[i], NULL, one_of_many, &seeds[i]));
  }
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  check_counters("chance on many threads");
  remove_object();
  return 0;
}
