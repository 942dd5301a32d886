/* Tensors in memory at different places: each function that takes a tensor returns the same result as for memory of malloc,
 * and accesses no other byte. Guarded memory begins or ends next to a page that faults. */
#include "formats.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST = 1 << 18 };

typedef enum { ALLOCATED, ODD, STATIC, STACK, END, BEGINNING, READ_ONLY_END, READ_ONLY_BEGINNING, PLACES } place;

static char statics[MOST];
static size_t page;

/* A copy of bytes between two pages that fault, at the end or the beginning of the pages in between. */
static char *map(const char *bytes, size_t size, int at_end, int read_only) {
  size_t pages = (size + page - 1) / page * page;
  char *all = mmap(NULL, pages + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(all != MAP_FAILED);
  char *memory = all + page + (at_end ? pages - size : 0);
  if (size == 0) return memory;
  CHECK_INT(0, mprotect(all + page, pages, PROT_READ | PROT_WRITE));
  memcpy(memory, bytes, size);
  if (read_only) CHECK_INT(0, mprotect(all + page, pages, PROT_READ));
  return memory;
}

static void unmap(char *memory, size_t size, int at_end) {
  size_t pages = (size + page - 1) / page * page;
  char *all = memory - (at_end ? pages - size : 0) - page;
  CHECK_INT(0, munmap(all, pages + 2 * page));
}

/* The expected results: the functions return them for a tensor in memory of malloc. */
enum { ENCODED = 16, CHECKED = ENCODED + FORMAT_COUNT, OUTCOMES = CHECKED + FORMAT_COUNT };
typedef struct outcome {
  size_t size[OUTCOMES];
  char *bytes[OUTCOMES];
} outcome;

static void note(outcome *expected, int which, const void *bytes, size_t size, int first) {
  if (first) {
    expected->size[which] = size;
    expected->bytes[which] = malloc(size + 1);
    memcpy(expected->bytes[which], bytes, size);
  }
  CHECK_INT(expected->size[which], size);
  CHECK(memcmp(expected->bytes[which], bytes, size) == 0);
}

static void nothing(void *ctx) { (void)ctx; }

static void encode_value(DLManagedTensorVersioned *tensor, outcome *expected, int first) {
  static const dlb_bytes rules = BYTES("{\"shape\":[-1],\"allowedTypes\":[\"u8\"]}");
  dlb_value value = {.tensor = tensor};
  EACH_FORMAT(f) {
    if (f->check != NULL) {
      int32_t code = f->check(rules, &value, NULL);
      note(expected, CHECKED + (int)(f - all_formats), &code, sizeof code, first);
    }
    size_t size = 0, written = 0;
    CHECK_OK(f->encode(&size, NULL, 0, &value, 0, &error));
    /* The message is at the end of its memory, first as the output and then as the input. */
    char *blank = calloc(1, size);
    char *room = map(blank, size, 1, 0);
    CHECK_OK(f->encode(&written, room, size, &value, 0, &error));
    CHECK_INT(size, written);
    note(expected, ENCODED + (int)(f - all_formats), room, size, first);
    dlb_frame frame = {.data = room, .size = size, .release = nothing};
    dlb_value back;
    CHECK_OK(f->decode(&back, &frame, 0, &error));
    CHECK_INT(size, back.size);
    DLManagedTensorVersioned *copy;
    CHECK_OK(dlb_tensor_copy(&copy, back.tensor, &error));
    note(expected, 0, copy->dl_tensor.data, expected->size[0], 0);
    dlb_tensor_release(copy);
    dlb_tensor_release(back.tensor);
    unmap(room, size, 1);
    free(blank);
  }
}

/* Notes a copy of a tensor, and releases the tensor. */
static void note_elements(outcome *expected, int which, DLManagedTensorVersioned *tensor, int first) {
  DLManagedTensorVersioned *copy;
  int64_t size;
  CHECK_OK(dlb_tensor_copy(&copy, tensor, &error));
  CHECK_OK(dlb_tensor_nbytes(&size, copy, &error));
  note(expected, which, copy->dl_tensor.data, (size_t)size, first);
  dlb_tensor_release(copy);
  dlb_tensor_release(tensor);
}

/* Compares a tensor and writes to it, if it is writable and no two indexes lead to one element, and restores it. */
static void written(DLManagedTensorVersioned *tensor, outcome *expected, int first) {
  const DLDataType float64 = {kDLFloat, 64, 1};
  const double five = 5;
  DLManagedTensorVersioned *copy, *other;
  int64_t count, n = 1;
  int32_t contiguous, equal;
  void *address;
  dlb_error error;
  CHECK_OK(dlb_tensor_count(&count, tensor, &error));
  for (int32_t d = 0; d < tensor->dl_tensor.ndim; d++) n *= tensor->dl_tensor.shape[d];
  CHECK_INT(n, count);
  CHECK_OK(dlb_tensor_is_contiguous(&contiguous, tensor, &error));
  note(expected, 14, &contiguous, sizeof contiguous, first);
  CHECK_OK(dlb_tensor_copy(&copy, tensor, &error));
  CHECK_OK(dlb_tensor_equal(&equal, tensor, copy, DLB_EQUAL_NAN, &error));
  CHECK_INT(1, equal);
  CHECK_OK(dlb_tensor_share(&other, tensor, &error));
  CHECK_OK(dlb_tensor_equal(&equal, tensor, other, DLB_EQUAL_NAN, &error));
  CHECK_INT(1, equal);
  CHECK_OK(dlb_tensor_address(&address, tensor, 0, NULL, &error));
  CHECK(address == other->dl_tensor.data);
  dlb_tensor_release(other);
  int32_t code = dlb_tensor_fill(tensor, float64, &five, &error);
  if (tensor->flags & DLPACK_FLAG_BITMASK_READ_ONLY) {
    CHECK_INT(DLB_ERROR_READONLY, code);
  } else if (code == DLB_OK) {
    CHECK_OK(dlb_tensor_copy(&other, tensor, &error));
    note_elements(expected, 15, other, first);
    CHECK_OK(dlb_tensor_copy(&other, copy, &error));
    code = dlb_tensor_convert_scaled(other, tensor, 0, 1, &five, 0, NULL, &error);
    CHECK_INT(code, dlb_tensor_convert_scaled(tensor, copy, 0, 1, &five, 0, NULL, &error));
    dlb_tensor_release(other);
    CHECK_INT(tensor->dl_tensor.dtype.code == kDLComplex ? DLB_ERROR_DTYPE : DLB_OK, code);
    CHECK_OK(dlb_tensor_copy_into(tensor, copy, &error));
    CHECK_OK(dlb_tensor_equal(&equal, tensor, copy, 0, &error));
    CHECK_INT(1, equal);
  } else {
    CHECK_INT(DLB_ERROR_LAYOUT, code);
    CHECK_INT(DLB_ERROR_LAYOUT, dlb_tensor_copy_into(tensor, copy, &error));
  }
  dlb_tensor_release(copy);
}

static void views(DLManagedTensorVersioned *tensor, outcome *expected, int first) {
  static const dlb_index backwards[] = {DLB_STEP(-1)};
  static const int64_t none = 0, any = -1;
  static const int32_t axis = 0;
  const DLDataType float64 = {kDLFloat, 64, 1};
  const DLTensor *t = &tensor->dl_tensor;
  DLManagedTensorVersioned *view, *other;
  dlb_error error;
  CHECK_OK(dlb_tensor_slice(&view, tensor, 1, backwards, &error));
  note_elements(expected, 4, view, first);
  if (t->shape[0] > 0) {
    CHECK_OK(dlb_tensor_index(&view, tensor, 1, &none, &error));
    note_elements(expected, 5, view, first);
  }
  CHECK_OK(dlb_tensor_transpose(&view, tensor, 0, NULL, &error));
  note_elements(expected, 6, view, first);
  CHECK_OK(dlb_tensor_flip(&view, tensor, 0, NULL, &error));
  note_elements(expected, 7, view, first);
  CHECK_OK(dlb_tensor_expand(&other, tensor, 1, &axis, &error));
  CHECK_OK(dlb_tensor_squeeze(&view, other, 1, &axis, &error));
  dlb_tensor_release(other);
  note_elements(expected, 8, view, first);
  int64_t shape[4] = {2};
  memcpy(shape + 1, t->shape, (size_t)t->ndim * sizeof *shape);
  CHECK_OK(dlb_tensor_broadcast_to(&view, tensor, t->ndim + 1, shape, &error));
  note_elements(expected, 9, view, first);
  CHECK_OK(dlb_tensor_contiguous(&other, tensor, &error));
  if (dlb_tensor_reshape(&view, other, 1, &any, &error) == DLB_OK) note_elements(expected, 10, view, first);
  note_elements(expected, 11, other, first);
  if (dlb_tensor_convert(&view, tensor, float64, &error) == DLB_OK) note_elements(expected, 12, view, first);
  else CHECK_INT(DLB_ERROR_DTYPE, error.code);
  written(tensor, expected, first);
  char text[1 << 15];
  size_t size;
  CHECK_OK(dlb_tensor_format(&size, text, sizeof text, tensor, &error));
  const char *elements = strstr(text, " on cpu") + strlen(" on cpu"), *mark = ", read-only";
  if (strncmp(elements, mark, strlen(mark)) == 0) elements += strlen(mark);
  note(expected, 13, elements, strlen(elements), first);
}

/* Hands a copy in shared memory over, and compares the tensor that arrives. */
static void share(DLManagedTensorVersioned *tensor, outcome *expected) {
  DLManagedTensorVersioned *copy, *received, *second, *fetched;
  dlb_shm_handle handle;
  int32_t shared;
  size_t count;
  int ends[2];
  DLTensor row_major = tensor->dl_tensor;
  row_major.strides = NULL;
  CHECK_INT(0, socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
  CHECK_OK(dlb_shm_is_shared(&shared, tensor, &error));
  CHECK_INT(0, shared);
  CHECK_OK(dlb_shm_copy(&copy, tensor, &error));
  CHECK_OK(dlb_shm_send(ends[0], &copy, 1, 60000, 0, &error));
  CHECK_OK(dlb_shm_recv(&count, &received, 1, ends[1], 0, 60000, &error));
  CHECK_INT(1, count);
  CHECK_OK(dlb_shm_readonly(&second, received, &error));
  CHECK_OK(dlb_shm_offer(&handle, copy, 60000, 0, &error));
  CHECK_OK(dlb_shm_fetch(&fetched, &handle, &row_major, 0, 0, 60000, &error));
  note_elements(expected, 0, copy, 0);
  note_elements(expected, 0, received, 0);
  note_elements(expected, 0, second, 0);
  note_elements(expected, 0, fetched, 0);
  close(ends[0]);
  close(ends[1]);
}

/* Writes a tensor to a file, and compares the contents. */
static void store(DLManagedTensorVersioned *tensor, outcome *expected) {
  char path[] = "/tmp/dlbridge-placement-XXXXXX";
  int fd = mkstemp(path);
  const dlb_file_tensor one = {.tensor = tensor};
  DLManagedTensorVersioned *stored;
  dlb_file *file;
  CHECK(fd >= 0);
  close(fd);
  CHECK_OK(dlb_file_write(path, &one, 1, &(dlb_file_fields){.format = "npy"}, &error));
  CHECK_OK(dlb_file_open(&file, path, NULL, &error));
  CHECK_OK(dlb_file_tensor_at(&stored, file, 0, &error));
  dlb_file_close(file);
  CHECK_INT(0, unlink(path));
  note_elements(expected, 0, stored, 0);
}

static void run(char *memory, DLTensor view, uint64_t flags, outcome *expected, int first) {
  view.data = memory;
  int64_t nbytes;
  DLManagedTensorVersioned *tensor, *copy;
  CHECK_OK(dlb_tensor_lend(&tensor, &view, flags, nothing, NULL, &error));
  CHECK_OK(dlb_tensor_validate(tensor, &error));
  CHECK_OK(dlb_tensor_nbytes(&nbytes, tensor, &error));
  CHECK_OK(dlb_tensor_copy(&copy, tensor, &error));
  note(expected, 0, copy->dl_tensor.data, (size_t)nbytes, first);
  dlb_tensor_release(copy);
  CHECK_OK(dlb_tensor_import(&tensor, tensor, &error));
  views(tensor, expected, first);
  share(tensor, expected);
  store(tensor, expected);
  encode_value(tensor, expected, first);
  if (flags == 0) {
    DLManagedTensor *legacy;
    CHECK_OK(dlb_tensor_to_legacy(&legacy, tensor, &error));
    CHECK_OK(dlb_tensor_from_legacy(&tensor, legacy, 0, &error));
    if (nbytes > 0) CHECK(tensor->dl_tensor.data == memory + view.byte_offset);
  }
  dlb_message *message;
  dlb_message_tensor part = {.tensor = tensor};
  CHECK_OK(dlb_message_encode(&message, NULL, &part, 1, &error));
  dlb_frame frame;
  CHECK_OK(dlb_message_frame(&frame, message, 2, &error));
  note(expected, 1, frame.data, frame.size, first);
  frame.release(frame.ctx);
  dlb_message_free(message);
}

/* Memory of this many bytes at a place, for the duration of a call. */
static void placed(place where, const char *bytes, size_t size, DLTensor view, outcome *expected) {
  char on_stack[1 << 16];
  char *memory = NULL;
  switch (where) {
    case ALLOCATED:
    case ODD:
      memory = malloc(size + 1);
      memcpy(memory + (where == ODD), bytes, size);
      run(memory + (where == ODD), view, 0, expected, where == ALLOCATED);
      free(memory);
      return;
    case STATIC:
      memcpy(statics, bytes, size);
      run(statics, view, 0, expected, 0);
      return;
    case STACK:
      if (size > sizeof on_stack) return;
      memcpy(on_stack, bytes, size);
      run(on_stack, view, 0, expected, 0);
      return;
    default: {
      int at_end = where == END || where == READ_ONLY_END, read_only = where >= READ_ONLY_END;
      memory = map(bytes, size, at_end, read_only);
      run(memory, view, read_only ? DLPACK_FLAG_BITMASK_READ_ONLY : 0, expected, 0);
      unmap(memory, size, at_end);
    }
  }
}

/* Strides are in elements, from the lowest address. The list ends with a rank of 0. */
static const struct {
  int32_t ndim;
  int64_t shape[3], strides[3];
} forms[] = {
    {1, {131}, {1}},        {1, {128}, {2}},        {1, {128}, {3}},          {1, {64}, {4}},
    {1, {128}, {-1}},       {1, {64}, {-2}},        {1, {64}, {-3}},          {1, {37}, {5}},
    {2, {3, 97}, {1, 3}},   {2, {4, 64}, {1, 4}},   {2, {97, 3}, {1, 97}},    {2, {64, 4}, {1, 64}},
    {2, {67, 35}, {1, 67}}, {2, {64, 64}, {1, 64}}, {2, {130, 144}, {1, 130}}, {2, {5, 6}, {9, 1}},
    {2, {5, 9}, {0, 1}},    {2, {5, 6}, {-9, -1}},  {3, {5, 6, 7}, {1, 35, 5}},
    {2, {1, 1}, {99, -99}},
};

int main(void) {
  static const uint8_t bits[] = {8, 16, 32, 64};
  static char bytes[MOST];
  page = (size_t)sysconf(_SC_PAGESIZE);
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)((i * 7 + i / 251) & 63);
  for (size_t b = 0; b < sizeof bits; b++) {
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
      int64_t low = 0, high = 1, item = bits[b] / 8;
      for (int32_t d = 0; d < forms[f].ndim; d++) {
        int64_t reach = (forms[f].shape[d] - 1) * forms[f].strides[d];
        if (reach < 0) low += reach;
        else high += reach;
      }
      DLTensor view = {.device = {kDLCPU, 0},
                       .ndim = forms[f].ndim,
                       .dtype = {kDLUInt, bits[b], 1},
                       .shape = (int64_t *)forms[f].shape,
                       .strides = (int64_t *)forms[f].strides,
                       .byte_offset = (uint64_t)(-low * item)};
      outcome expected;
      memset(&expected, 0, sizeof expected);
      for (place where = ALLOCATED; where < PLACES; where++) {
        placed(where, bytes, (size_t)((high - low) * item), view, &expected);
      }
      for (int i = 0; i < OUTCOMES; i++) free(expected.bytes[i]);
    }
  }
  check_nothing_is_left("place");
  return 0;
}
