/* A call whose arguments need more memory than there is returns DLB_ERROR_MEMORY, and the process continues. The arguments
 * are in mapped pages of zeros, which take no physical memory. Then the memory of the process is limited to little more
 * than it already has. */
#include "formats.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MANY = 1 << 26, BEYOND = 512 << 20 };

static void *zeros(size_t size) {
  void *memory = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(memory != MAP_FAILED);
  return memory;
}

static void limit_memory(rlim_t beyond) {
  FILE *statm = fopen("/proc/self/statm", "r");
  long pages = 0;
  CHECK(statm != NULL && fscanf(statm, "%ld", &pages) == 1);
  fclose(statm);
  struct rlimit limit = {(rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + beyond, RLIM_INFINITY};
  CHECK_INT(0, setrlimit(RLIMIT_AS, &limit));
}

static DLManagedTensorVersioned *lend(void *data, DLDataType dtype, int64_t *shape, int64_t *strides, int *released) {
  DLTensor view = {.data = data, .device = {kDLCPU, 0}, .ndim = 2, .dtype = dtype, .shape = shape, .strides = strides};
  DLManagedTensorVersioned *tensor = NULL;
  CHECK_OK(dlb_tensor_lend(&tensor, &view, 0, count_release, released, &error));
  return tensor;
}

static DLManagedTensorVersioned one_byte(void) {
  static char byte;
  static int64_t shape[] = {1};
  return (DLManagedTensorVersioned){
      .version = {.major = DLPACK_MAJOR_VERSION},
      .dl_tensor = {.data = &byte, .device = {kDLCPU, 0}, .ndim = 1, .dtype = UINT8, .shape = shape},
  };
}

/* A message of tensors of one byte each, in packed form. */
static dlb_frame encode_many(size_t count) {
  DLManagedTensorVersioned *made = calloc(count, sizeof *made);
  dlb_message_tensor *tensors = calloc(count, sizeof *tensors);
  CHECK(made != NULL && tensors != NULL);
  for (size_t i = 0; i < count; i++) {
    made[i] = one_byte();
    tensors[i].tensor = &made[i];
  }
  dlb_message *message = NULL;
  dlb_frame whole;
  CHECK_OK(dlb_message_encode(&message, NULL, tensors, count, &error));
  CHECK_OK(dlb_message_encode_packed(&whole, message, &error));
  dlb_message_free(message);
  free(tensors);
  free(made);
  return whole;
}

enum { SHARED = 4 << 20 };

/* Tensors with the same metadata, which is in memory once, but would be in the label for each of them. */
static void encode_shared(void) {
  enum { TIMES = 2 * (BEYOND / SHARED) };
  static dlb_message_tensor tensors[TIMES];
  static DLManagedTensorVersioned same[TIMES];
  static char text[SHARED];
  memset(text, 'a', sizeof text);
  memcpy(text, "{\"a\":\"", 6);
  memcpy(text + SHARED - 2, "\"}", 2);
  for (int i = 0; i < TIMES; i++) {
    same[i] = one_byte();
    tensors[i] = (dlb_message_tensor){.tensor = &same[i], .metadata = {text, sizeof text}};
  }
  dlb_message *message = NULL;
  CHECK_CODE(DLB_ERROR_MEMORY, dlb_message_encode(&message, NULL, tensors, TIMES, &error));
  CHECK(message == NULL);
  CHECK_OK(dlb_message_encode(&message, NULL, tensors, 1, &error));
  dlb_message_free(message);
}

int main(void) {
  size_t size = 0;
  int released = 0;
  static const DLDataType int4 = {kDLInt, 4, 1};
  char *memory = zeros((size_t)MANY * sizeof(dlb_frame));
  int64_t tall[] = {MANY, 16}, columns[] = {1, MANY}, wide[] = {16, MANY}, rows[] = {MANY, 1};
  dlb_value transposed = {.tensor = lend(memory, UINT8, tall, columns, &released)};
  dlb_value packed = {.tensor = lend(memory, int4, wide, rows, &released)};
  int64_t few[] = {2, 3}, next[] = {3, 1};
  dlb_value little = {.tensor = lend(memory, UINT8, few, next, &released)};
  static const int64_t many[] = {MANY};
  dlb_elements strings = {.type = {"string", 6}, .ndim = 1, .shape = many, .count = MANY, .values = (dlb_bytes *)memory};
  dlb_elements images = strings;
  images.type = (dlb_bytes){"image", 5};
  images.formats = strings.values;
  dlb_elements nameless = {.type = {memory, (size_t)2 * BEYOND}};
  dlb_bytes rules = {"{\"shape\":[],\"allowedTypes\":[]}", 30};
  dlb_value texts = {.elements = &strings}, media = {.elements = &images}, unknown = {.elements = &nameless};
  dlb_frame frame = {.data = memory, .size = MANY};
  dlb_message *message = NULL;
  dlb_header header = {.level = 1, .form = {'T', 'E', 'N', 'S'}};
  CHECK_OK(dlb_tensorflow_encode(&size, NULL, 0, &little, DLB_TENSORFLOW_FIELDS, &error)); /* starts Go */

  int file = fileno(tmpfile());
  CHECK_INT(0, ftruncate(file, 4096));
  void *cut = mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0);
  CHECK(cut != MAP_FAILED);
  dlb_frame parts[] = {{.data = memory, .size = BEYOND / 4}, {.data = cut, .size = 4096}}, whole;
  dlb_message *faulty = NULL;
  CHECK_OK(dlb_message_encode_parts(&faulty, &header, (dlb_bytes){"", 0}, parts, 2, &error));
  CHECK_INT(0, ftruncate(file, 0));

  dlb_frame many_tensors = encode_many(500000);

  limit_memory(BEYOND);
  for (int i = 0; i < 8; i++) CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_message_encode_packed(&whole, faulty, &error)); /* an error leaves no memory behind */
  dlb_message_free(faulty);
  CHECK_CODE(DLB_ERROR_MEMORY, dlb_tensorflow_encode(&size, NULL, 0, &transposed, DLB_TENSORFLOW_FIELDS, &error));
  CHECK_CODE(DLB_ERROR_MEMORY, dlb_tensorflow_encode(&size, NULL, 0, &packed, 0, &error));
  EACH_FORMAT(f) {
    CHECK_CODE(DLB_ERROR_MEMORY, f->encode(&size, NULL, 0, &texts, 0, &error));
    CHECK_CODE(DLB_ERROR_MEMORY, f->encode(&size, NULL, 0, &media, 0, &error));
    CHECK_CODE(DLB_ERROR_DTYPE, f->encode(&size, NULL, 0, &unknown, 0, &error));
    if (f->check != NULL) CHECK_CODE(DLB_ERROR_DTYPE, f->check(rules, &unknown, &error));
  }
  CHECK_CODE(DLB_ERROR_MEMORY, dlb_message_decode_packed(&message, &frame, 0, &error));
  CHECK_CODE(DLB_ERROR_MEMORY, dlb_message_decode(&message, (dlb_frame *)memory, MANY, 0, &error));
  CHECK_CODE(DLB_ERROR_MEMORY, dlb_message_encode_parts(&message, &header, (dlb_bytes){"", 0}, (dlb_frame *)memory, MANY, &error));
  CHECK(message == NULL);
  encode_shared();
  CHECK_OK(dlb_tensorflow_encode(&size, NULL, 0, &little, DLB_TENSORFLOW_FIELDS, &error));
  CHECK(size > 6);

  limit_memory(BEYOND / 8);
  CHECK_CODE(DLB_ERROR_MEMORY, dlb_message_decode_packed(&message, &many_tensors, 0, &error));
  many_tensors.release(many_tensors.ctx);
  CHECK_INT(0, released);
  dlb_tensor_release(transposed.tensor);
  dlb_tensor_release(packed.tensor);
  dlb_tensor_release(little.tensor);
  CHECK_INT(3, released);
  check_nothing_is_left(__func__);
  return 0;
}
