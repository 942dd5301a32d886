/* Views of tensors, dlb_tensor_import, and operations on tensors. The program calls no message function, so it also
 * links with the C sources alone.
 *
 * views CASES. The file has views that Go made of layouts, one a line (see view_test.go); the program makes them too. */
#include "check.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PADDED = DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED, READ_ONLY = DLPACK_FLAG_BITMASK_READ_ONLY };

static DLManagedTensorVersioned *lend(void *data, DLDataType dtype, int32_t ndim, int64_t *shape, int64_t *strides,
                                      uint64_t flags, int *released) {
  DLTensor view = {.data = data, .device = {kDLCPU, 0}, .ndim = ndim, .dtype = dtype, .shape = shape, .strides = strides};
  DLManagedTensorVersioned *t;
  CHECK_OK(dlb_tensor_lend(&t, &view, flags, count_release, released, &error));
  return t;
}

/* ---- the same views as in Go ----------------------------------------------------------------- */

typedef int32_t view64(DLManagedTensorVersioned **, const DLManagedTensorVersioned *, int32_t, const int64_t *, dlb_error *);
typedef int32_t view32(DLManagedTensorVersioned **, const DLManagedTensorVersioned *, int32_t, const int32_t *, dlb_error *);

static const struct {
  const char *name;
  view64 *with64;
  view32 *with32;
} operations[] = {
    {"Slice", NULL, NULL},
    {"Index", dlb_tensor_index, NULL},
    {"Reshape", dlb_tensor_reshape, NULL},
    {"BroadcastTo", dlb_tensor_broadcast_to, NULL},
    {"Transpose", NULL, dlb_tensor_transpose},
    {"Flip", NULL, dlb_tensor_flip},
    {"Squeeze", NULL, dlb_tensor_squeeze},
    {"Expand", NULL, dlb_tensor_expand},
};

static int64_t number(FILE *in) {
  int64_t n;
  CHECK_INT(1, fscanf(in, "%" SCNd64, &n));
  return n;
}

static int32_t numbers(FILE *in, int64_t *list) {
  int32_t count = (int32_t)number(in);
  CHECK(count <= 32);
  for (int32_t k = 0; k < count; k++) list[k] = number(in);
  return count;
}

static int32_t make(DLManagedTensorVersioned **out, const char *name, const DLManagedTensorVersioned *base, int32_t count,
                    const int64_t *list, dlb_error *error) {
  int32_t axes[32];
  dlb_index index[8];
  for (int32_t k = 0; k < count; k++) axes[k] = (int32_t)list[k];
  for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
    if (strcmp(name, operations[i].name) != 0) continue;
    if (operations[i].with64 != NULL) return operations[i].with64(out, base, count, list, error);
    if (operations[i].with32 != NULL) return operations[i].with32(out, base, count, axes, error);
    CHECK(count / 4 <= 8);
    for (int32_t k = 0; k < count / 4; k++)
      index[k] = (dlb_index){list[4 * k], list[4 * k + 1], list[4 * k + 2], (uint64_t)list[4 * k + 3]};
    return dlb_tensor_slice(out, base, count / 4, index, error);
  }
  fprintf(stderr, "no view %s\n", name);
  exit(1);
}

static void views_are_those_of_go(const char *file) {
  static float memory[8192];
  FILE *in = fopen(file, "r");
  CHECK(in != NULL);
  char name[16];
  int made = 0, refused = 0;
  while (fscanf(in, "%15s", name) == 1) {
    int64_t shape[32], strides[32], list[32], want_shape[32], want_strides[32];
    int32_t ndim = numbers(in, shape);
    CHECK_INT(ndim, numbers(in, strides));
    int64_t start = number(in);
    uint64_t flags = (uint64_t)number(in);
    int32_t count = numbers(in, list), want = (int32_t)number(in);
    int released = 0;
    DLManagedTensorVersioned *base = lend(memory + start, FLOAT32, ndim, shape, strides, flags, &released), *view;
    dlb_error error;
    int32_t code = make(&view, name, base, count, list, &error);
    if (code != want) fprintf(stderr, "%s of case %d: %s\n", name, made + refused, error.message);
    CHECK_INT(want, code);
    if (code != DLB_OK) {
      CHECK(view == NULL);
      refused++;
      dlb_tensor_release(base);
      CHECK_INT(1, released);
      continue;
    }
    int32_t want_ndim = numbers(in, want_shape);
    CHECK_INT(want_ndim, numbers(in, want_strides));
    int64_t offset = number(in);
    CHECK_INT(number(in), view->flags);
    CHECK_INT(want_ndim, view->dl_tensor.ndim);
    int empty = 0;
    for (int32_t d = 0; d < want_ndim; d++) {
      CHECK_INT(want_shape[d], view->dl_tensor.shape[d]);
      CHECK_INT(want_strides[d], view->dl_tensor.strides[d]);
      empty |= want_shape[d] == 0;
    }
    CHECK(view->dl_tensor.data == (empty ? NULL : memory + start + offset));
    CHECK_INT(0, view->dl_tensor.byte_offset);
    CHECK_INT(base->version.minor, view->version.minor);
    CHECK_OK(dlb_tensor_validate(view, &error));
    dlb_tensor_release(made % 2 ? base : view);
    CHECK_INT(0, released);
    dlb_tensor_release(made % 2 ? view : base);
    CHECK_INT(1, released);
    made++;
  }
  fclose(in);
  CHECK(made > 1000 && refused > 100);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void every_view_shares_the_memory(void) {
  enum { VIEWS = 11 };
  static const int64_t shape[] = {4, 6}, one[] = {1}, flat[] = {24}, many[] = {2, 4, 6}, first[VIEWS] = {11, 12, 5, 4, 6, 0, 0, 0, 18};
  static const int32_t axis[] = {0};
  static const dlb_index index[] = {DLB_RANGE(1, 3), DLB_STEP(-1)}, few[] = {DLB_FROM(2), DLB_UNTIL(-4)},
                         named[] = {DLB_NEW_AXIS, DLB_ELLIPSIS, DLB_RANGE_STEP(5, 0, -2)}, at[] = {DLB_ALL, DLB_AT(-2)};
  float data[24] = {0};
  int released = 0;
  DLManagedTensorVersioned *t = lend(data, FLOAT32, 2, (int64_t *)shape, NULL, 0, &released), *views[VIEWS];
  CHECK_OK(dlb_tensor_slice(&views[0], t, 2, index, &error));
  CHECK_OK(dlb_tensor_slice(&views[1], t, 2, few, &error));
  CHECK_OK(dlb_tensor_slice(&views[2], t, 3, named, &error));
  CHECK_OK(dlb_tensor_slice(&views[3], t, 2, at, &error));
  CHECK_OK(dlb_tensor_index(&views[4], t, 1, one, &error));
  CHECK_OK(dlb_tensor_transpose(&views[5], t, 0, NULL, &error));
  CHECK_OK(dlb_tensor_reshape(&views[6], t, 1, flat, &error));
  CHECK_OK(dlb_tensor_broadcast_to(&views[7], t, 3, many, &error));
  CHECK_OK(dlb_tensor_flip(&views[8], t, 1, axis, &error));
  CHECK_OK(dlb_tensor_expand(&views[9], t, 1, axis, &error));
  CHECK_OK(dlb_tensor_squeeze(&views[10], t, 0, NULL, &error));
  dlb_tensor_release(t);
  for (int k = 0; k < VIEWS; k++) {
    float *element = views[k]->dl_tensor.data;
    CHECK(element == data + first[k]);
    CHECK_INT(k == 7 ? READ_ONLY : 0, views[k]->flags);
    data[first[k]] = (float)(k + 1);
    CHECK(*element == (float)(k + 1));
    *element = -1;
    CHECK(data[first[k]] == -1);
    CHECK_INT(0, released);
    dlb_tensor_release(views[k]);
  }
  CHECK_INT(1, released);
}

/* Copies have the flag IS_COPIED, and tensors that share memory do not. */
static void only_copies_have_the_flag(void) {
  static float data[6];
  int64_t shape[] = {2, 3}, flat[] = {6}, columns[] = {1, 2};
  int released = 0;
  DLManagedTensorVersioned *rows = lend(data, FLOAT32, 2, shape, NULL, 0, &released), *turned = lend(data, FLOAT32, 2, shape, columns, 0, &released);
  DLManagedTensorVersioned *copy, *t;
  CHECK_OK(dlb_tensor_copy(&copy, rows, &error));
  CHECK_INT(DLPACK_FLAG_BITMASK_IS_COPIED, copy->flags);
#define MADE(copied, call)                                                \
  CHECK_OK(call);                                                         \
  CHECK_INT(copied, (t->flags & DLPACK_FLAG_BITMASK_IS_COPIED) != 0);     \
  dlb_tensor_release(t);
  MADE(1, dlb_tensor_contiguous(&t, turned, &error))
  MADE(0, dlb_tensor_contiguous(&t, copy, &error))
  MADE(1, dlb_tensor_convert(&t, rows, UINT8, &error))
  MADE(1, dlb_tensor_convert(&t, rows, FLOAT32, &error))
  MADE(0, dlb_tensor_transpose(&t, copy, 0, NULL, &error))
  MADE(0, dlb_tensor_reshape(&t, copy, 1, flat, &error))
  MADE(0, dlb_tensor_flip(&t, copy, 0, NULL, &error))
  MADE(0, dlb_tensor_alloc(&t, FLOAT32, 1, flat, &error))
#ifdef __linux__
  MADE(1, dlb_shm_copy(&t, rows, &error))
  MADE(0, dlb_shm_alloc(&t, FLOAT32, 1, flat, &error))
#endif
#undef MADE
  dlb_tensor_release(copy);
  dlb_tensor_release(rows);
  dlb_tensor_release(turned);
  CHECK_INT(2, released);
}

static void views_keep_the_flags_of_go(void) {
  char bytes[16] = {0};
  int64_t shape[] = {2, 4}, column[] = {2, 1}, wide[] = {2, 4};
  const DLDataType int4 = {kDLInt, 4, 1};
  const dlb_index last_row[] = {DLB_AT(1)}, odd[] = {DLB_AT(1), DLB_AT(1)}, second[] = {DLB_AT(0), DLB_FROM(1)};
  int released = 0;
  DLManagedTensorVersioned *view, *again, *t;

  t = lend(bytes, UINT8, 2, shape, NULL, READ_ONLY | DLPACK_FLAG_BITMASK_IS_COPIED, &released);
  CHECK_OK(dlb_tensor_flip(&view, t, 0, NULL, &error));
  CHECK_INT(READ_ONLY, view->flags);
  dlb_tensor_release(view);
  dlb_tensor_release(t);

  /* A broadcast that repeats nothing can be written. So can a view of a broadcast as little as the broadcast. */
  t = lend(bytes, UINT8, 2, column, NULL, 0, &released);
  CHECK_OK(dlb_tensor_broadcast_to(&view, t, 2, column, &error));
  CHECK_INT(0, view->flags);
  dlb_tensor_release(view);
  CHECK_OK(dlb_tensor_broadcast_to(&view, t, 2, wide, &error));
  CHECK_INT(READ_ONLY, view->flags);
  CHECK_OK(dlb_tensor_index(&again, view, 0, NULL, &error));
  CHECK_INT(READ_ONLY, again->flags);
  dlb_tensor_release(again);
  dlb_tensor_release(view);
  dlb_tensor_release(t);

  /* Packed elements: a view begins at a byte, and is row-major. Padded elements have no such limits. */
  t = lend(bytes, int4, 2, shape, NULL, 0, &released);
  CHECK_OK(dlb_tensor_slice(&view, t, 1, last_row, &error));
  CHECK(view->dl_tensor.data == bytes + 2);
  dlb_tensor_release(view);
  CHECK_CODE(DLB_ERROR_LAYOUT, dlb_tensor_slice(&view, t, 2, odd, &error));
  CHECK_CODE(DLB_ERROR_LAYOUT, dlb_tensor_slice(&view, t, 2, second, &error));
  CHECK_CODE(DLB_ERROR_LAYOUT, dlb_tensor_transpose(&view, t, 0, NULL, &error));
  dlb_tensor_release(t);
  t = lend(bytes, int4, 2, shape, NULL, PADDED, &released);
  CHECK_OK(dlb_tensor_slice(&view, t, 2, odd, &error));
  CHECK(view->dl_tensor.data == bytes + 5);
  CHECK_INT(PADDED, view->flags);
  dlb_tensor_release(view);
  dlb_tensor_release(t);
  CHECK_INT(4, released);
}

static void views_of_device_memory_move_byte_offset(void) {
  int64_t shape[] = {4}, strides[] = {-1};
  int32_t all[] = {0};
  int released = 0;
  const dlb_index tail[] = {DLB_FROM(1)}, none[] = {DLB_FROM(4)};
  DLTensor device = {.data = (void *)1234567, .device = {kDLCUDA, 3}, .ndim = 1, .dtype = FLOAT32, .shape = shape, .byte_offset = 8};
  DLManagedTensorVersioned *t, *view;
  CHECK_OK(dlb_tensor_lend(&t, &device, 0, count_release, &released, &error));
  CHECK_OK(dlb_tensor_slice(&view, t, 1, tail, &error));
  CHECK_INT(1234567, (intptr_t)view->dl_tensor.data);
  CHECK_INT(12, view->dl_tensor.byte_offset);
  CHECK_INT(kDLCUDA, view->dl_tensor.device.device_type);
  CHECK_INT(3, view->dl_tensor.device.device_id);
  dlb_tensor_release(view);
  CHECK_OK(dlb_tensor_slice(&view, t, 1, none, &error));
  CHECK_INT(0, view->dl_tensor.shape[0]);
  dlb_tensor_release(view);
  dlb_tensor_release(t);
  device.strides = strides;
  CHECK_OK(dlb_tensor_lend(&t, &device, 0, count_release, &released, &error));
  CHECK_CODE(DLB_ERROR_LAYOUT, dlb_tensor_flip(&view, t, 1, all, &error));
  dlb_tensor_release(t);
  CHECK_INT(2, released);
}

/* ---- who holds what -------------------------------------------------------------------------- */

/* Views of views in every order of release. */
static void the_last_of_all_views_gives_the_memory_back(void) {
  float data[6] = {0};
  int64_t shape[] = {2, 3};
  for (int order = 0; order < 24; order++) {
    DLManagedTensorVersioned *views[4];
    int released = 0, left[] = {0, 1, 2, 3}, choice = order;
    views[0] = lend(data, FLOAT32, 2, shape, NULL, 0, &released);
    CHECK_OK(dlb_tensor_transpose(&views[1], views[0], 0, NULL, &error));
    CHECK_OK(dlb_tensor_flip(&views[2], views[1], 0, NULL, &error));
    CHECK_OK(dlb_tensor_flip(&views[3], views[2], 0, NULL, &error));
    CHECK(views[3]->dl_tensor.data == data && views[2]->dl_tensor.data == data + 5);
    for (int n = 4; n > 0; n--) {
      int k = choice % n;
      choice /= n;
      CHECK_INT(0, released);
      dlb_tensor_release(views[left[k]]);
      left[k] = left[n - 1];
    }
    CHECK_INT(1, released);
  }
}

/* A view of a view of a view ..., each of which is released as soon as the next one is made. */
static void sources_are_released_first(void) {
  float data[6] = {0};
  int64_t shape[] = {2, 3};
  int released = 0;
  DLManagedTensorVersioned *t = lend(data, FLOAT32, 2, shape, NULL, 0, &released), *next;
  for (int i = 0; i < 1000; i++) {
    CHECK_OK(i % 2 ? dlb_tensor_flip(&next, t, 0, NULL, &error) : dlb_tensor_transpose(&next, t, 0, NULL, &error));
    dlb_tensor_release(t);
    CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_tensor_flip(&t, t, 0, NULL, &error));
    t = next;
  }
  CHECK(t->dl_tensor.data == data);
  CHECK_INT(0, released);
  dlb_tensor_release(t);
  CHECK_INT(1, released);
}

/* An error takes no share. */
static void errors_take_nothing(void) {
  float data[12] = {0};
  int64_t shape[] = {2, 3}, strides[] = {4, 1}, flat[] = {6};
  int32_t axes[] = {0, 0}, apart[3] = {0};
  dlb_error error;
  int released = 0;
  DLManagedTensorVersioned *view, *t = lend(data, FLOAT32, 2, shape, strides, 0, &released), copy = *t, foreign;
  CHECK_INT(DLB_ERROR_LAYOUT, dlb_tensor_reshape(&view, t, 1, flat, &error));
  CHECK(strstr(error.message, "dlb_tensor_reshape: shape[0] = 6 spans") != NULL);
  CHECK(strstr(error.message, "dlb_tensor_contiguous") != NULL);
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_tensor_flip(&view, t, 2, axes, &error));
  CHECK_TEXT(DLB_ERROR_ARGUMENT, "dlb_tensor_flip: count = -1, must not be negative", dlb_tensor_flip(&view, t, -1, axes, &error));
  CHECK_CODE(DLB_ERROR_NULL, dlb_tensor_flip(&view, t, 1, NULL, &error));
  CHECK_CODE(DLB_ERROR_NULL, dlb_tensor_flip(NULL, t, 0, NULL, &error));
  CHECK_CODE(DLB_ERROR_NULL, dlb_tensor_flip(&view, NULL, 0, NULL, &error));
  CHECK_CODE(DLB_ERROR_UNALIGNED, dlb_tensor_flip(&view, t, 1, (int32_t *)(void *)((char *)apart + 1), &error));
  CHECK_CODE(DLB_ERROR_UNALIGNED, dlb_tensor_index(&view, t, 1, (int64_t *)(void *)((char *)data + 1), &error));
  CHECK_CODE(DLB_ERROR_UNALIGNED, dlb_tensor_slice(&view, t, 1, (dlb_index *)(void *)((char *)data + 1), &error));
  CHECK_INT(DLB_ERROR_ARGUMENT, dlb_tensor_flip(&view, &copy, 0, NULL, &error));
  CHECK(strstr(error.message, "copy of the struct") != NULL);
  int deletes = 0;
  foreign = made_by_producer(data, shape, &deletes);
  CHECK_INT(DLB_ERROR_ARGUMENT, dlb_tensor_flip(&view, &foreign, 0, NULL, &error));
  CHECK(strstr(error.message, "dlb_tensor_import") != NULL);
  CHECK(view == NULL);
  CHECK_INT(0, deletes);
  dlb_tensor_release(t);
  CHECK_INT(1, released);
}

static void import_makes_a_tensor_of_ours(void) {
  float data[6] = {0};
  int64_t shape[] = {2, 3};
  int deletes = 0;
  DLManagedTensorVersioned *t, *view, *again, *none, foreign = made_by_producer(data, shape, &deletes);
  foreign.flags = READ_ONLY;
  CHECK_OK(dlb_tensor_import(&t, &foreign, &error));
  CHECK(t != &foreign && t->dl_tensor.data == data);
  CHECK_INT(READ_ONLY, t->flags);
  CHECK_OK(dlb_tensor_transpose(&view, t, 0, NULL, &error));
  CHECK_OK(dlb_tensor_import(&again, t, &error)); /* of a tensor of this library too */
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_tensor_import(&none, t, &error));
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_tensor_flip(&none, t, 0, NULL, &error));
  dlb_tensor_release(again);
  CHECK_INT(0, deletes);
  dlb_tensor_release(view);
  CHECK_INT(1, deletes);

  foreign.version.major = 2;
  CHECK_CODE(DLB_ERROR_VERSION, dlb_tensor_import(&t, &foreign, &error));
  CHECK(t == NULL);
  foreign.version.major = DLPACK_MAJOR_VERSION;
  shape[0] = -1;
  CHECK_CODE(DLB_ERROR_LAYOUT, dlb_tensor_import(&t, &foreign, &error));
  CHECK_INT(1, deletes); /* after an error the caller still owns it */
  shape[0] = 2;
  foreign.deleter = NULL;
  CHECK_OK(dlb_tensor_import(&t, &foreign, &error));
  dlb_tensor_release(t);
  CHECK_INT(1, deletes);
}

/* ---- threads and processes ------------------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 2000 };

/* Makes views of a tensor that all threads share, and gives up the share of its own. */
static void *view_again_and_again(void *ctx) {
  DLManagedTensorVersioned *own = ctx, *view, *further;
  for (int i = 0; i < ROUNDS; i++) {
    CHECK_OK(dlb_tensor_transpose(&view, own, 0, NULL, &error));
    CHECK_OK(dlb_tensor_flip(&further, view, 0, NULL, &error));
    dlb_tensor_release(view);
    CHECK((float *)further->dl_tensor.data - (float *)own->dl_tensor.data == 5);
    dlb_tensor_release(further);
  }
  dlb_tensor_release(own);
  return NULL;
}

static void *view_of_the_shared_one(void *ctx) {
  DLManagedTensorVersioned *own;
  CHECK_OK(dlb_tensor_index(&own, ctx, 0, NULL, &error)); /* the whole tensor */
  return view_again_and_again(own);
}

static void threads_make_views_of_one_tensor(void) {
  float data[6] = {0};
  int64_t shape[] = {2, 3};
  int released = 0;
  pthread_t threads[2 * THREADS];
  DLManagedTensorVersioned *t = lend(data, FLOAT32, 2, shape, NULL, 0, &released), *own;
  for (int i = 0; i < THREADS; i++) CHECK_INT(0, pthread_create(&threads[i], NULL, view_of_the_shared_one, t));
  for (int i = 0; i < THREADS; i++) {
    CHECK_OK(dlb_tensor_index(&own, t, 0, NULL, &error));
    CHECK_INT(0, pthread_create(&threads[THREADS + i], NULL, view_again_and_again, own));
  }
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  CHECK_INT(0, released);
  dlb_tensor_release(t); /* while the others may still be at work on views of it */
  for (int i = THREADS; i < 2 * THREADS; i++) pthread_join(threads[i], NULL);
  CHECK_INT(1, released);
}

static void a_forked_child_makes_views(void) {
  float data[6] = {0};
  int64_t shape[] = {2, 3};
  int released = 0;
  DLManagedTensorVersioned *t = lend(data, FLOAT32, 2, shape, NULL, 0, &released), *view;
  CHECK_OK(dlb_tensor_flip(&view, t, 0, NULL, &error));
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    alarm(20);
    DLManagedTensorVersioned *further;
    CHECK_OK(dlb_tensor_transpose(&further, view, 0, NULL, &error));
    dlb_tensor_release(t);
    dlb_tensor_release(view);
    CHECK_INT(0, released);
    CHECK(further->dl_tensor.data == data + 5);
    dlb_tensor_release(further);
    CHECK_INT(1, released);
    only_copies_have_the_flag();
    views_keep_the_flags_of_go();
    sources_are_released_first();
    import_makes_a_tensor_of_ours();
    _exit(0);
  }
  int status = -1;
  CHECK_INT(child, waitpid(child, &status, 0));
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  dlb_tensor_release(view);
  CHECK_INT(0, released);
  dlb_tensor_release(t);
  CHECK_INT(1, released);
}

/* ---- what is done with tensors --------------------------------------------------------------- */

/* A row-major tensor of numbers 0, 1, 2, ... */
static DLManagedTensorVersioned *counting(int32_t ndim, const int64_t *shape) {
  DLManagedTensorVersioned *t;
  int64_t count;
  CHECK_OK(dlb_tensor_alloc(&t, FLOAT32, ndim, shape, &error));
  CHECK_OK(dlb_tensor_count(&count, t, &error));
  for (int64_t i = 0; i < count; i++) ((float *)t->dl_tensor.data)[i] = (float)i;
  return t;
}

static void check_elements(const char *want, const DLManagedTensorVersioned *t) {
  char text[256];
  size_t size;
  CHECK_OK(dlb_tensor_format(&size, text, sizeof text, t, &error));
  const char *elements = strstr(text, " on cpu ");
  CHECK(elements != NULL);
  if (strcmp(want, elements + strlen(" on cpu ")) == 0) return;
  fprintf(stderr, "the tensor is %s, want elements %s\n", text, want);
  exit(1);
}

static DLManagedTensorVersioned *part(const DLManagedTensorVersioned *t, dlb_index a, dlb_index b) {
  DLManagedTensorVersioned *view;
  const dlb_index index[] = {a, b};
  CHECK_OK(dlb_tensor_slice(&view, t, 2, index, &error));
  return view;
}

static const dlb_index WHOLE = DLB_ALL, REVERSED = DLB_STEP(-1), MIDDLE = DLB_RANGE(1, 3), FIRST = DLB_AT(0), SECOND = DLB_AT(1),
                       START = DLB_UNTIL(2);

static void copy_into_writes_to_a_part(void) {
  DLManagedTensorVersioned *x = counting(2, (int64_t[]){3, 4}), *view = part(x, WHOLE, MIDDLE), *other;
  int32_t pair[] = {70, 80};
  int64_t sizes[] = {1, 1, 1, 2};
  int released = 0;
  other = lend(pair, (DLDataType){kDLInt, 32, 1}, 4, sizes, NULL, 0, &released); /* leading sizes of 1 count for nothing */
  CHECK_OK(dlb_tensor_copy_into(view, other, &error));
  check_elements("[[0 70 80 3] [4 70 80 7] [8 70 80 11]]", x);
  dlb_tensor_release(other);
  dlb_tensor_release(view);

  view = part(x, WHOLE, FIRST), other = part(x, WHOLE, SECOND); /* columns lie between each other, and have no byte in common */
  CHECK_OK(dlb_tensor_copy_into(view, other, &error));
  check_elements("[[70 70 80 3] [70 70 80 7] [70 70 80 11]]", x);
  CHECK_OK(dlb_tensor_copy_into(x, x, &error));
  dlb_tensor_release(other);

  DLManagedTensorVersioned *last = part(x, WHOLE, (dlb_index)DLB_AT(3));
  other = part(x, REVERSED, (dlb_index)DLB_AT(3));
  CHECK_OK(dlb_tensor_copy_into(view, other, &error)); /* columns in the other order */
  check_elements("[[11 70 80 3] [7 70 80 7] [3 70 80 11]]", x);
  dlb_error refusal; /* one column, but the order differs */
  CHECK_INT(DLB_ERROR_LAYOUT, dlb_tensor_copy_into(last, other, &refusal));
  CHECK(strstr(refusal.message, "may have memory in common") != NULL);
  dlb_tensor_release(other);
  other = part(x, WHOLE, SECOND);
  CHECK_OK(dlb_tensor_copy_into(view, other, &error));
  dlb_tensor_release(last);
  dlb_tensor_release(view);
  dlb_tensor_release(other);
  view = part(x, MIDDLE, WHOLE), other = part(x, START, WHOLE);
  CHECK_CODE(DLB_ERROR_LAYOUT, dlb_tensor_copy_into(view, other, &error));
  check_elements("[[70 70 80 3] [70 70 80 7] [70 70 80 11]]", x);
  dlb_tensor_release(view);
  dlb_tensor_release(other);

  view = part(x, SECOND, WHOLE), other = part(x, SECOND, (dlb_index)DLB_AT(3)); /* one element, which lies in the destination */
  CHECK_OK(dlb_tensor_copy_into(view, other, &error));
  check_elements("[[70 70 80 3] [7 7 7 7] [70 70 80 11]]", x);
  dlb_tensor_release(view);
  dlb_tensor_release(other);
  dlb_tensor_release(x);
}

static void copy_into_takes_every_layout_of_small_numbers(void) {
  static const DLDataType int4 = {kDLInt, 4, 1}, int8 = {kDLInt, 8, 1};
  uint8_t packed[2] = {0, 0xf0}, padded[3];
  int8_t wide[] = {-1, 5, -8};
  int64_t three[] = {3};
  int released = 0;
  DLManagedTensorVersioned *dst = lend(packed, int4, 1, three, NULL, 0, &released), *src = lend(wide, int8, 1, three, NULL, 0, &released);
  DLManagedTensorVersioned *apart = lend(padded, int4, 1, three, NULL, PADDED, &released);
  CHECK_OK(dlb_tensor_copy_into(dst, src, &error));
  CHECK(packed[0] == 0x5f && packed[1] == 0xf8); /* the last four bits belong to nobody, and stay */
  CHECK_OK(dlb_tensor_copy_into(apart, dst, &error));
  CHECK((padded[0] & 15) == 15 && (padded[1] & 15) == 5 && (padded[2] & 15) == 8);
  int32_t equal;
  CHECK_OK(dlb_tensor_equal(&equal, apart, dst, 0, &error));
  CHECK_INT(1, equal);
  CHECK_OK(dlb_tensor_fill(dst, int4, "\x07", &error));
  CHECK_OK(dlb_tensor_equal(&equal, apart, dst, 0, &error));
  CHECK_INT(0, equal);
  CHECK_OK(dlb_tensor_copy_into(dst, apart, &error));
  CHECK(packed[0] == 0x5f && packed[1] == 0xf8);
  dlb_tensor_release(dst);
  dlb_tensor_release(src);
  dlb_tensor_release(apart);
  CHECK_INT(3, released);
}

static void convert_scaled_scales_and_refuses(void) {
  unsigned char bytes[6] = {0, 1, 2, 3, 4, 5};
  float floats[6] = {0};
  double scale[] = {0.5, 1, 2}, shift[] = {10, 20};
  int64_t shape[] = {2, 3}, turned[] = {1, 2};
  int released = 0;
  DLManagedTensorVersioned *src = lend(bytes, (DLDataType){kDLUInt, 8, 1}, 2, shape, NULL, 0, &released);
  DLManagedTensorVersioned *dst = lend(floats, FLOAT32, 2, shape, NULL, 0, &released);
  DLManagedTensorVersioned *columns = lend(floats, FLOAT32, 2, shape, turned, 0, &released);
  DLManagedTensorVersioned *row;
  CHECK_OK(dlb_tensor_convert_scaled(dst, src, -1, 3, scale, 1, shift, &error));
  check_elements("[[10 11 14] [11.5 14 20]]", dst);
  CHECK_OK(dlb_tensor_convert_scaled(columns, src, 0, 1, scale, 2, shift, &error));
  check_elements("[[10 10.5 11] [21.5 22 22.5]]", columns);
  CHECK_OK(dlb_tensor_convert_scaled(dst, src, INT32_MIN, 0, NULL, 1, shift, &error));
  check_elements("[[10 11 12] [13 14 15]]", dst);
  CHECK_OK(dlb_tensor_index(&row, src, 1, (const int64_t[]){1}, &error)); /* is repeated */
  CHECK_OK(dlb_tensor_convert_scaled(dst, row, 1, 3, scale, 0, NULL, &error));
  check_elements("[[1.5 4 10] [1.5 4 10]]", dst);
  const struct {
    DLManagedTensorVersioned *src;
    int32_t axis;
    int64_t scales, shifts;
    const double *scale;
    int32_t code;
    const char *says;
  } rows[] = {
      {src, 0, 3, 0, scale, DLB_ERROR_LAYOUT, "3 scales for axis 0 of size 2, want one for each index or one for all"},
      {src, -1, 3, 2, scale, DLB_ERROR_LAYOUT, "2 shifts for axis -1 of size 3"},
      {src, 2, 3, 0, scale, DLB_ERROR_ARGUMENT, "3 scales for axis 2, but the tensor has 2 dimensions"},
      {src, -3, 3, 0, scale, DLB_ERROR_ARGUMENT, "3 scales for axis -3, but the tensor has 2 dimensions"},
      {src, 0, -1, 0, scale, DLB_ERROR_ARGUMENT, "-1 scales, the number must not be negative"},
      {src, 0, 1, 0, NULL, DLB_ERROR_NULL, "scale"},
      {dst, 0, 1, 0, scale, DLB_ERROR_LAYOUT, "memory in common"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    dlb_error error;
    CHECK_INT(rows[i].code, dlb_tensor_convert_scaled(dst, rows[i].src, rows[i].axis, rows[i].scales, rows[i].scale, rows[i].shifts, shift, &error));
    CHECK(strstr(error.message, "dlb_tensor_convert_scaled: ") == error.message && strstr(error.message, rows[i].says) != NULL);
  }
  check_elements("[[1.5 4 10] [1.5 4 10]]", dst);
  DLManagedTensorVersioned *complex = lend(floats, (DLDataType){kDLComplex, 64, 1}, 1, shape + 1, NULL, 0, &released);
  CHECK_CODE(DLB_ERROR_DTYPE, dlb_tensor_convert_scaled(complex, complex, 0, 1, scale, 0, NULL, &error));
  dlb_tensor_release(complex);
  dlb_tensor_release(row);
  dlb_tensor_release(columns);
  dlb_tensor_release(dst);
  dlb_tensor_release(src);
  CHECK_INT(4, released);
}

static void copy_into_refuses(void) {
  float data[6] = {1, 2, 3, 4, 5, 6};
  int64_t shape[] = {2, 3}, repeated[] = {0, 1}, four[] = {4};
  void *handles[6] = {0};
  int released = 0;
  DLManagedTensorVersioned *src = counting(2, shape);
  const struct {
    DLManagedTensorVersioned *dst;
    int32_t code;
    const char *says;
  } rows[] = {
      {lend(data, FLOAT32, 2, shape, NULL, READ_ONLY, &released), DLB_ERROR_READONLY, "read-only"},
      {lend(data, FLOAT32, 2, shape, repeated, 0, &released), DLB_ERROR_LAYOUT, "overlap each other"},
      {lend(data, FLOAT32, 1, four, NULL, 0, &released), DLB_ERROR_LAYOUT, "cannot be repeated"},
      {lend(handles, (DLDataType){kDLOpaqueHandle, 64, 1}, 2, shape, NULL, 0, &released), DLB_ERROR_DTYPE, "handle"},
      {lend(data, (DLDataType){kDLFloat, 16, 2}, 2, shape, NULL, 0, &released), DLB_ERROR_DTYPE, "lanes"},
  };
  enum { ROWS = sizeof rows / sizeof *rows };
  for (int i = 0; i < ROWS; i++) {
    dlb_error error;
    CHECK_INT(rows[i].code, dlb_tensor_copy_into(rows[i].dst, src, &error));
    CHECK(strstr(error.message, "dlb_tensor_copy_into: ") == error.message && strstr(error.message, rows[i].says) != NULL);
    CHECK(i == 2 || dlb_tensor_fill(rows[i].dst, FLOAT32, data, &error) != DLB_OK);
    dlb_tensor_release(rows[i].dst);
  }
  for (int i = 0; i < 6; i++) CHECK(data[i] == (float)(i + 1) && handles[i] == NULL);
  CHECK_INT(ROWS, released);
  DLTensor far = {.data = data, .device = {kDLCUDA, 0}, .ndim = 2, .dtype = FLOAT32, .shape = shape};
  DLManagedTensorVersioned *device;
  CHECK_OK(dlb_tensor_lend(&device, &far, 0, NULL, NULL, &error));
  int32_t equal;
  void *address;
  const float one = 1;
  CHECK_CODE(DLB_ERROR_DEVICE, dlb_tensor_copy_into(device, src, &error));
  CHECK_CODE(DLB_ERROR_DEVICE, dlb_tensor_copy_into(src, device, &error));
  CHECK_CODE(DLB_ERROR_DEVICE, dlb_tensor_fill(device, FLOAT32, &one, &error));
  CHECK_CODE(DLB_ERROR_DEVICE, dlb_tensor_equal(&equal, src, device, 0, &error));
  CHECK_TEXT(DLB_ERROR_DEVICE, "memory on cuda:0 cannot be read", dlb_tensor_address(&address, device, 0, NULL, &error));
  CHECK_CODE(DLB_ERROR_DTYPE, dlb_tensor_fill(src, (DLDataType){99, 8, 1}, &one, &error));
  check_elements("[[0 1 2] [3 4 5]]", src);
  dlb_tensor_release(device);
  dlb_tensor_release(src);
}

static void fill_loses_no_digit(void) {
  int64_t numbers[4] = {0}, four[] = {4}, most = INT64_MAX;
  const double number = -2.5;
  int released = 0;
  DLManagedTensorVersioned *t = lend(numbers, (DLDataType){kDLInt, 64, 1}, 1, four, NULL, 0, &released);
  CHECK_OK(dlb_tensor_fill(t, (DLDataType){kDLInt, 64, 1}, &most, &error));
  for (int i = 0; i < 4; i++) CHECK(numbers[i] == INT64_MAX);
  CHECK_OK(dlb_tensor_fill(t, (DLDataType){kDLFloat, 64, 1}, &number, &error));
  check_elements("[-2 -2 -2 -2]", t);
  char unaligned[9];
  memcpy(unaligned + 1, &most, 8);
  CHECK_OK(dlb_tensor_fill(t, (DLDataType){kDLInt, 64, 1}, unaligned + 1, &error));
  CHECK(numbers[3] == INT64_MAX);
  numbers[2] = 7; /* the value lies in the tensor */
  CHECK_OK(dlb_tensor_fill(t, (DLDataType){kDLInt, 64, 1}, numbers + 2, &error));
  check_elements("[7 7 7 7]", t);
  numbers[0] = 0x0102030405060708, numbers[1] = 9;
  CHECK_OK(dlb_tensor_fill(t, (DLDataType){kDLInt, 64, 1}, (char *)numbers + 1, &error));
  for (int i = 0; i < 4; i++) CHECK(numbers[i] == 0x0901020304050607);
  numbers[0] = 0x0a09;
  CHECK_OK(dlb_tensor_fill(t, (DLDataType){kDLInt, 8, 1}, (char *)numbers + 1, &error));
  check_elements("[10 10 10 10]", t);
  dlb_tensor_release(t);
  four[0] = 0;
  CHECK_OK(dlb_tensor_alloc(&t, FLOAT32, 1, four, &error));
  CHECK_OK(dlb_tensor_fill(t, FLOAT32, "\0\0\0\0", &error)); /* nothing is filled */
  dlb_tensor_release(t);
}

static int32_t are_equal(const void *a, const void *b, DLDataType dtype, int64_t count, uint64_t flags) {
  int released = 0;
  int32_t equal = -1;
  DLManagedTensorVersioned *x = lend((void *)a, dtype, 1, &count, NULL, READ_ONLY, &released);
  DLManagedTensorVersioned *y = lend((void *)b, dtype, 1, &count, NULL, 0, &released);
  CHECK_OK(dlb_tensor_equal(&equal, x, y, flags, &error));
  dlb_tensor_release(x);
  dlb_tensor_release(y);
  return equal;
}

static void equal_compares_values(void) {
  static const DLDataType complex64 = {kDLComplex, 64, 1}, boolean = {kDLBool, 8, 1}, int64 = {kDLInt, 64, 1}, half = {kDLFloat, 16, 1};
  const float zero[] = {0, 1}, minus[] = {-0.0f, 1}, other[] = {0, 2};
  float nan[2] = {1};
  memcpy(nan + 1, "\0\0\xc0\x7f", 4);
  CHECK_INT(1, are_equal(zero, minus, FLOAT32, 2, 0));
  CHECK_INT(0, are_equal(zero, other, FLOAT32, 2, 0));
  CHECK_INT(0, are_equal(nan, nan, FLOAT32, 2, 0));
  CHECK_INT(1, are_equal(nan, nan, FLOAT32, 2, DLB_EQUAL_NAN));
  CHECK_INT(0, are_equal(nan, zero, FLOAT32, 2, DLB_EQUAL_NAN));
  CHECK_INT(0, are_equal(zero, other, complex64, 1, 0)); /* the imaginary parts differ */
  CHECK_INT(1, are_equal(zero, minus, complex64, 1, 0));
  CHECK_INT(1, are_equal(nan, nan, complex64, 1, DLB_EQUAL_NAN));
  CHECK_INT(1, are_equal("\1\0", "\2\0", boolean, 2, 0));
  CHECK_INT(0, are_equal("\1\0", "\1\1", boolean, 2, 0));
  CHECK_INT(1, are_equal("\0\x80", "\0\0", half, 1, 0));
  CHECK_INT(0, are_equal((int64_t[]){INT64_MAX}, (int64_t[]){INT64_MAX - 1}, int64, 1, 0)); /* the same number as a double */
  int64_t many[1000], same[1000];
  for (int i = 0; i < 1000; i++) many[i] = same[i] = i;
  CHECK_INT(1, are_equal(many, same, int64, 1000, 0));
  same[999] = 0;
  CHECK_INT(0, are_equal(many, same, int64, 1000, 0));

  DLManagedTensorVersioned *x = counting(2, (int64_t[]){1, 4}), *y, *z;
  int32_t equal;
  CHECK_OK(dlb_tensor_reshape(&y, x, 2, (int64_t[]){4, 1}, &error)); /* the same elements in the same order */
  CHECK_OK(dlb_tensor_equal(&equal, x, y, 0, &error));
  CHECK_INT(0, equal);
  dlb_tensor_release(x);
  dlb_tensor_release(y);

  x = counting(2, (int64_t[]){3, 4});
  CHECK_OK(dlb_tensor_transpose(&y, x, 0, NULL, &error));
  CHECK_OK(dlb_tensor_equal(&equal, x, y, 0, &error));
  CHECK_INT(0, equal);
  CHECK_OK(dlb_tensor_copy(&z, y, &error));
  CHECK_OK(dlb_tensor_equal(&equal, y, z, 0, &error));
  CHECK_INT(1, equal);
  dlb_tensor_release(z);
  CHECK_OK(dlb_tensor_convert(&z, x, (DLDataType){kDLFloat, 64, 1}, &error));
  CHECK_OK(dlb_tensor_equal(&equal, x, z, 0, &error));
  CHECK_INT(0, equal);
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_tensor_equal(&equal, x, z, 2, &error));
  dlb_tensor_release(z);
  CHECK_OK(dlb_tensor_alloc(&z, (DLDataType){kDLOpaqueHandle, 64, 1}, 0, NULL, &error));
  CHECK_CODE(DLB_ERROR_DTYPE, dlb_tensor_equal(&equal, z, z, 0, &error));
  dlb_tensor_release(x);
  dlb_tensor_release(y);
  dlb_tensor_release(z);
}

static void addresses_and_sizes(void) {
  DLManagedTensorVersioned *x = counting(2, (int64_t[]){3, 4}), *y;
  float *data = x->dl_tensor.data;
  void *at;
  int64_t index[] = {1, -1}, count;
  int32_t contiguous;
  CHECK_OK(dlb_tensor_address(&at, x, 2, index, &error));
  CHECK(at == data + 7);
  CHECK_OK(dlb_tensor_address(&at, x, 1, index, &error));
  CHECK(at == data + 4);
  CHECK_OK(dlb_tensor_flip(&y, x, 0, NULL, &error));
  CHECK_OK(dlb_tensor_address(&at, y, 0, NULL, &error));
  CHECK(at == data + 11);
  CHECK_OK(dlb_tensor_is_contiguous(&contiguous, y, &error));
  CHECK_INT(0, contiguous);
  CHECK_OK(dlb_tensor_is_contiguous(&contiguous, x, &error));
  CHECK_INT(1, contiguous);
  CHECK_OK(dlb_tensor_count(&count, y, &error));
  CHECK_INT(12, count);
  dlb_tensor_release(y);
  index[0] = 3;
  CHECK_TEXT(DLB_ERROR_ARGUMENT, "dlb_tensor_address: index[0] is 3, but dimension 0 has size ", dlb_tensor_address(&at, x, 2, index, &error));
  CHECK(at == NULL);
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_tensor_address(&at, x, -1, index, &error));
  CHECK_CODE(DLB_ERROR_NULL, dlb_tensor_address(&at, x, 1, NULL, &error));

  CHECK_OK(dlb_tensor_share(&y, x, &error));
  CHECK(y != x && y->dl_tensor.data == data && y->flags == 0);
  dlb_tensor_release(x);
  check_elements("[[0 1 2 3] [4 5 6 7] [8 9 10 11]]", y);
  dlb_tensor_release(y);

  CHECK_OK(dlb_tensor_alloc(&x, (DLDataType){kDLInt, 4, 1}, 1, (int64_t[]){4}, &error));
  index[0] = 2;
  CHECK_OK(dlb_tensor_address(&at, x, 1, index, &error));
  CHECK(at == (char *)x->dl_tensor.data + 1);
  index[0] = 1;
  CHECK_CODE(DLB_ERROR_LAYOUT, dlb_tensor_address(&at, x, 1, index, &error));
  dlb_tensor_release(x);
  CHECK_OK(dlb_tensor_alloc(&x, FLOAT32, 1, (int64_t[]){0}, &error));
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_tensor_address(&at, x, 0, NULL, &error));
  dlb_tensor_release(x);
  CHECK_INT(4, dlb_dtype_bits((DLDataType){kDLInt, 4, 1}));
  CHECK_INT(96, dlb_dtype_bits((DLDataType){kDLFloat, 32, 3}));
  CHECK_INT(255 * 65535, dlb_dtype_bits((DLDataType){kDLFloat, 255, 65535}));
}

/* A pool of one block. */
typedef struct {
  char memory[64];
  size_t offset, asked, freed;
  int empty, frees;
} pool;

static void *pool_allocate(void *ctx, size_t size) {
  pool *p = ctx;
  p->asked = size;
  memset(p->memory, 0x5a, sizeof p->memory);
  return p->empty ? NULL : p->memory + p->offset;
}

static void pool_free(void *ctx, void *memory, size_t size) {
  pool *p = ctx;
  CHECK(memory == p->memory + p->offset);
  p->freed = size;
  __atomic_fetch_add(&p->frees, 1, __ATOMIC_RELAXED);
}

static void *nowhere(void *ctx, size_t size) {
  (void)ctx, (void)size;
  return (void *)(uintptr_t)64;
}

static void take_back(void *ctx, void *memory, size_t size) {
  pool *p = ctx;
  CHECK(memory == nowhere(NULL, 0));
  p->freed = size;
  p->frees++;
}

static void *release_in_thread(void *tensor) {
  dlb_tensor_release(tensor);
  return NULL;
}

static void allocators_of_the_program(void) {
  pool p = {.offset = 1};
  dlb_allocator allocator = {pool_allocate, pool_free, &p};
  DLManagedTensorVersioned *t, *view;
  int64_t shape[] = {2, 3};
  CHECK_OK(dlb_tensor_alloc_with(&t, UINT8, 2, shape, &allocator, &error));
  CHECK(t->dl_tensor.data == p.memory + 1 && p.asked == 6 && p.memory[0] == 0x5a && p.memory[7] == 0x5a);
  check_elements("[[0 0 0] [0 0 0]]", t);
  CHECK_OK(dlb_tensor_share(&view, t, &error));
  memset(&allocator, 0, sizeof allocator); /* copied */
  dlb_tensor_release(t);
  CHECK_INT(0, p.frees);
  pthread_t thread;
  CHECK_INT(0, pthread_create(&thread, NULL, release_in_thread, view));
  CHECK_INT(0, pthread_join(thread, NULL));
  CHECK(p.frees == 1 && p.freed == 6);

  allocator = (dlb_allocator){pool_allocate, pool_free, &p};
  p.asked = 0;
  CHECK_OK(dlb_tensor_alloc_with(&t, FLOAT32, 1, (int64_t[]){0}, &allocator, &error));
  dlb_tensor_release(t);
  CHECK_CODE(DLB_ERROR_LAYOUT, dlb_tensor_alloc_with(&t, FLOAT32, 1, (int64_t[]){-1}, &allocator, &error));
  CHECK(p.asked == 0 && p.frees == 1);
  /* an address that no memory has: it is not written to, and given back */
  CHECK_CODE(DLB_ERROR_OVERFLOW, dlb_tensor_alloc_with(&t, FLOAT32, 2, shape, &(dlb_allocator){nowhere, take_back, &p}, &error));
  CHECK(t == NULL && p.freed == 24 && p.frees == 2);
  p.empty = 1, p.frees = 1;
  CHECK_CODE(DLB_ERROR_MEMORY, dlb_tensor_alloc_with(&t, FLOAT32, 2, shape, &allocator, &error));
  CHECK(t == NULL && p.asked == 24 && p.frees == 1);
  allocator.free = NULL;
  CHECK_CODE(DLB_ERROR_NULL, dlb_tensor_alloc_with(&t, FLOAT32, 2, shape, &allocator, &error));
  allocator.allocate = NULL;
  CHECK_CODE(DLB_ERROR_NULL, dlb_tensor_alloc_with(&t, FLOAT32, 2, shape, &allocator, &error));
  CHECK_CODE(DLB_ERROR_NULL, dlb_tensor_alloc_with(&t, FLOAT32, 2, shape, NULL, &error));
}

int main(int argc, char **argv) {
  CHECK_INT(2, argc);
  views_are_those_of_go(argv[1]);
  every_view_shares_the_memory();
  only_copies_have_the_flag();
  views_keep_the_flags_of_go();
  views_of_device_memory_move_byte_offset();
  the_last_of_all_views_gives_the_memory_back();
  sources_are_released_first();
  errors_take_nothing();
  import_makes_a_tensor_of_ours();
  threads_make_views_of_one_tensor();
  a_forked_child_makes_views();
  copy_into_writes_to_a_part();
  copy_into_takes_every_layout_of_small_numbers();
  convert_scaled_scales_and_refuses();
  copy_into_refuses();
  fill_loses_no_digit();
  equal_compares_values();
  addresses_and_sizes();
  allocators_of_the_program();
  check_nothing_is_left("views");
  return 0;
}
