/* Fills in and reads every structure that a program allocates, with canaries after each structure and each array. The
 * program is compiled with one header and runs with a library that was compiled with another one: in one of the two the
 * structures have a new field, `grown`. GROWN is defined if it is the program's.
 *
 * structures KNOWS: 1 if the library has the field too, 0 if it is older than the program. */
#include "formats.h"

#include <unistd.h>

enum { CANARY = 0xa5 };

/* Allocates `count` structures, filled with garbage, and canaries. */
#define GUARDED(type, count)     \
  struct {                       \
    type is[count];              \
    unsigned char canaries[128]; \
  }
#define SET(guarded) memset(&(guarded), CANARY, sizeof(guarded))
#define CLEAR(guarded) (SET(guarded), memset((guarded).is, 0, sizeof(guarded).is))
#define CHECK_CANARIES(guarded) \
  for (size_t at = 0; at < sizeof(guarded).canaries; at++) CHECK_INT(CANARY, (guarded).canaries[at])

#ifdef GROWN
#define CHECK_GROWN(structure) CHECK_INT(0, (structure).grown)
static int knows;

/* A field that the library does not know is refused if the program uses it, and the error names its place. */
#define CHECK_USED(structure, where, call)                           \
  do {                                                               \
    (structure).grown = 7;                                           \
    dlb_error error = {0};                                           \
    int32_t code = (call);                                           \
    (structure).grown = 0;                                           \
    CHECK_INT(DLB_ERROR_ARGUMENT, code);                             \
    if (strstr(error.message, where ".reserved[0] = 0x7") == NULL) { \
      fprintf(stderr, "%s: %s\n", #call, error.message);             \
      exit(1);                                                       \
    }                                                                \
  } while (0)
#else
#define CHECK_GROWN(structure) (void)0
#endif

static int is(dlb_bytes bytes, const char *text) {
  return bytes.size == strlen(text) && memcmp(bytes.data, text, bytes.size) == 0;
}

static float data[3][6];
static int64_t shapes[3][2] = {{2, 3}, {3, 2}, {1, 6}};
static int deletes[3];
static DLManagedTensorVersioned made[3];
static const char *const metadata[3] = {"{\"name\":\"a\"}", "{\"name\":\"bb\"}", "{\"name\":\"ccc\"}"};

/* dlb_message_fields, dlb_message_tensor */
static dlb_message *encode(void) {
  GUARDED(dlb_message_fields, 1) fields;
  GUARDED(dlb_message_tensor, 3) tensors;
  CLEAR(fields);
  CLEAR(tensors);
  fields.is[0].header.level = 3;
  fields.is[0].label = (dlb_bytes){"{\"more\":1}", 10};
  fields.is[0].metadata = (dlb_bytes){"{\"run\":8}", 9};
  for (int i = 0; i < 3; i++) {
    deletes[i] = 0;
    made[i] = made_by_producer(data[i], shapes[i], &deletes[i]);
    tensors.is[i].tensor = &made[i];
    tensors.is[i].metadata = (dlb_bytes){metadata[i], strlen(metadata[i])};
  }
  dlb_message *m = NULL;
#ifdef GROWN
  if (!knows) {
    CHECK_USED(fields.is[0], "fields", dlb_message_encode(&m, fields.is, tensors.is, 3, &error));
    CHECK_USED(tensors.is[1], "tensors[1]", dlb_message_encode(&m, fields.is, tensors.is, 3, &error));
    CHECK(m == NULL && deletes[0] + deletes[1] + deletes[2] == 0);
  }
#endif
  CHECK_OK(dlb_message_encode(&m, fields.is, tensors.is, 3, &error));
  CHECK_CANARIES(fields);
  CHECK_CANARIES(tensors);
  return m;
}

static void check_message(const dlb_message *m) {
  GUARDED(dlb_header, 1) header;
  GUARDED(dlb_bytes, 1) bytes;
  SET(header);
  SET(bytes);
  CHECK_OK(dlb_message_header(header.is, m, &error));
  CHECK_INT(3, header.is[0].level);
  CHECK_CANARIES(header);
  CHECK_OK(dlb_message_metadata(bytes.is, m, &error));
  CHECK(is(bytes.is[0], "{\"run\":8}"));
  CHECK_INT(3, dlb_message_tensor_count(m));
  for (size_t i = 0; i < 3; i++) {
    DLManagedTensorVersioned *tensor;
    CHECK_OK(dlb_message_tensor_at(&tensor, m, i, &error));
    CHECK_INT(shapes[i][0], tensor->dl_tensor.shape[0]);
    CHECK_INT(shapes[i][1], tensor->dl_tensor.shape[1]);
    CHECK(memcmp(tensor->dl_tensor.data, data[i], sizeof data[i]) == 0);
    dlb_tensor_release(tensor);
    CHECK_OK(dlb_message_tensor_metadata(bytes.is, m, i, &error));
    CHECK(is(bytes.is[0], metadata[i]));
  }
  CHECK_CANARIES(bytes);
}

/* dlb_frame, one and many, in and out */
static void frames(void) {
  dlb_message *m = encode(), *again = NULL;
  check_message(m);
  GUARDED(dlb_frame, 1) out;
  GUARDED(dlb_frame, 5) in;
  CLEAR(in);
  for (size_t i = 0; i < 5; i++) {
    SET(out);
    CHECK_OK(dlb_message_frame(out.is, m, i, &error));
    CHECK_CANARIES(out);
    CHECK_GROWN(out.is[0]);
    if (i >= 2) CHECK(out.is[0].data == data[i - 2]);
    in.is[i] = out.is[0];
  }
  SET(out);
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_message_frame(out.is, m, 5, &error));
  CHECK_CANARIES(out);
  GUARDED(dlb_frame, 1) packed;
  SET(packed);
  CHECK_OK(dlb_message_encode_packed(packed.is, m, &error));
  CHECK_CANARIES(packed);
  CHECK_GROWN(packed.is[0]);
  dlb_message_free(m);
#ifdef GROWN
  if (!knows) {
    CHECK_USED(in.is[2], "frames[2]", dlb_message_decode(&again, in.is, 5, 0, &error));
    CHECK_USED(packed.is[0], "packed[0]", dlb_message_decode_packed(&again, packed.is, 0, &error));
    CHECK_USED(packed.is[0], "packed[0]", dlb_message_decode_next(&again, &(size_t){0}, packed.is, 0, 0, &error));
    const dlb_header header = {0};
    CHECK_USED(in.is[3], "parts[1]", dlb_message_encode_parts(&again, &header, (dlb_bytes){0}, in.is + 2, 3, &error));
    CHECK(again == NULL);
  }
#endif
  CHECK_OK(dlb_message_decode_packed(&again, packed.is, 0, &error));
  CHECK_CANARIES(packed);
  check_message(again);
  dlb_message_free(again);
  CHECK_OK(dlb_message_decode(&again, in.is, 5, 0, &error));
  CHECK_CANARIES(in);
  check_message(again);
  for (size_t i = 0; i < 3; i++) { /* the parts, unchanged */
    SET(out);
    CHECK_OK(dlb_message_frame(out.is, again, 2 + i, &error));
    CHECK(out.is[0].data == data[i]);
    in.is[i] = out.is[0];
  }
  dlb_message_free(again);
  const dlb_header header = {0, {'F', 'L', 'O', 'W'}, 0, 0, 0};
  CHECK_OK(dlb_message_encode_parts(&again, &header, (dlb_bytes){"label", 5}, in.is, 3, &error));
  CHECK_CANARIES(in);
  for (size_t i = 0; i < 3; i++) {
    DLManagedTensorVersioned *part;
    CHECK_OK(dlb_message_part(&part, again, i, &error));
    CHECK(part->dl_tensor.data == data[i]);
    dlb_tensor_release(part);
    CHECK_INT(0, deletes[i]);
  }
  dlb_message_free(again);
  for (int i = 0; i < 3; i++) CHECK_INT(1, deletes[i]);
  check_nothing_is_left(__func__);
}

/* Encodes a value, which must be the bytes again, and ends it. */
static void end_value(const test_format *f, dlb_value *value, dlb_bytes bytes) {
  char out[64];
  size_t size;
  CHECK_INT(bytes.size, value->size);
  CHECK_GROWN(*value);
  CHECK_OK(f->encode(&size, out, sizeof out, value, 0, &error));
  CHECK_INT(bytes.size, size);
  CHECK(memcmp(bytes.data, out, size) == 0);
  dlb_tensor_release(value->tensor);
  dlb_elements_free(value->elements);
}

/* Many dlb_value */
static void streams(const test_format *f) {
  static _Alignas(64) char stream[128];
  const dlb_bytes all[] = {f->tensor, f->strings, f->copied};
  GUARDED(dlb_frame, 1) frame;
  CLEAR(frame);
  frame.is[0].data = stream;
  for (int i = 0; i < 3; i++) {
    memcpy(stream + frame.is[0].size, all[i].data, all[i].size);
    frame.is[0].size += all[i].size;
  }
  GUARDED(dlb_value, 4) many;
#ifdef GROWN
  if (!knows) {
    SET(many);
    CHECK_USED(frame.is[0], "frame[0]", f->decode_batch(many.is, 1, &(size_t){0}, frame.is, 0, 0, &error));
    CHECK_CANARIES(many);
  }
#endif
  SET(many);
  CHECK_OK(f->decode_batch(many.is, 4, &(size_t){0}, frame.is, 0, 0, &error));
  CHECK_CANARIES(many);
  CHECK_CANARIES(frame);
  CHECK_INT(0, many.is[3].size);
  for (int i = 0; i < 4; i++) {
    CHECK_INT(i == 0 || i == 2, many.is[i].tensor != NULL);
    CHECK_INT(i == 1, many.is[i].elements != NULL);
  }
  CHECK_GROWN(*many.is[1].elements);
  CHECK_GROWN(many.is[3]);
  for (int i = 0; i < 3; i++) end_value(f, &many.is[i], all[i]);
  CHECK_CANARIES(many);
}

/* One dlb_value, in and out, and dlb_elements */
static void values(const test_format *f) {
  GUARDED(dlb_frame, 1) frame;
  GUARDED(dlb_value, 1) one;
  const dlb_bytes all[] = {f->tensor, f->strings};
  for (int i = 0; i < 2; i++) {
    CLEAR(frame);
    frame.is[0].data = all[i].data;
    frame.is[0].size = all[i].size;
    SET(one);
    CHECK_OK(f->decode(one.is, frame.is, 0, &error));
    CHECK_CANARIES(one);
    CHECK_CANARIES(frame);
    if (i == 1) CHECK(is(one.is[0].elements->values[1], ", world!"));
    if (i == 1) CHECK_GROWN(*one.is[0].elements);
    end_value(f, &one.is[0], all[i]);
  }
  frame.is[0].size--;
  SET(one);
  CHECK_CODE(DLB_ERROR_FORMAT, f->decode(one.is, frame.is, 0, &error));
  CHECK_CANARIES(one);

  GUARDED(dlb_elements, 1) elements;
  static const int64_t two[] = {2};
  static const dlb_bytes text[] = {{"hello", 5}, {", world!", 8}};
  CLEAR(elements);
  CLEAR(one);
  elements.is[0].type = (dlb_bytes){"string", 6};
  elements.is[0].ndim = 1;
  elements.is[0].shape = two;
  elements.is[0].count = 2;
  elements.is[0].values = text;
  one.is[0].elements = elements.is;
  const dlb_bytes rules = {"{\"shape\":[2],\"allowedTypes\":[\"string\"]}", 39};
  char out[64];
  size_t size;
  if (f->check != NULL) CHECK_OK(f->check(rules, one.is, &error));
  CHECK_OK(f->encode(&size, out, sizeof out, one.is, 0, &error));
  CHECK(size == f->strings.size && memcmp(out, f->strings.data, size) == 0);
#ifdef GROWN
  if (!knows) {
    GUARDED(dlb_value, 1) no;
    SET(no);
    CHECK_USED(one.is[0], "value", f->encode(&size, out, sizeof out, one.is, 0, &error));
    CHECK_USED(elements.is[0], "elements", f->encode(&size, out, sizeof out, one.is, 0, &error));
    CHECK_USED(frame.is[0], "frame[0]", f->decode(no.is, frame.is, 0, &error));
    if (f->check != NULL) {
      CHECK_USED(one.is[0], "value", f->check(rules, one.is, &error));
      CHECK_USED(elements.is[0], "elements", f->check(rules, one.is, &error));
    }
    CHECK_CANARIES(no);
  }
#endif
  CHECK_CANARIES(one);
  CHECK_CANARIES(elements);
  check_nothing_is_left(__func__);
}

/* dlb_file_tensor, dlb_file_fields, dlb_file_options, dlb_file_entry */
static void files(void) {
  GUARDED(dlb_file_tensor, 2) tensors;
  GUARDED(dlb_file_fields, 1) fields;
  GUARDED(dlb_file_options, 1) options;
  GUARDED(dlb_file_entry, 1) entry;
  static const char *const names[] = {"a", "bb"};
  char path[] = "/tmp/dlbridge-growth-XXXXXX";
  int fd = mkstemp(path);
  CHECK(fd >= 0);
  close(fd);
  CLEAR(tensors);
  CLEAR(fields);
  CLEAR(options);
  for (int i = 0; i < 2; i++) {
    made[i] = made_by_producer(data[i], shapes[i], &deletes[i]);
    tensors.is[i].tensor = &made[i];
    tensors.is[i].name = names[i];
  }
  fields.is[0].format = "safetensors";
  fields.is[0].align = 64;
  dlb_file *file = NULL;
#ifdef GROWN
  if (!knows) {
    CHECK_USED(fields.is[0], "fields", dlb_file_write(path, tensors.is, 2, fields.is, &error));
    CHECK_USED(tensors.is[1], "tensors[1]", dlb_file_write(path, tensors.is, 2, fields.is, &error));
    CHECK_USED(options.is[0], "options", dlb_file_open(&file, path, options.is, &error));
    CHECK(file == NULL);
  }
#endif
  CHECK_OK(dlb_file_write(path, tensors.is, 2, fields.is, &error));
  CHECK_CANARIES(tensors);
  CHECK_CANARIES(fields);
  CHECK_OK(dlb_file_open(&file, path, options.is, &error));
  CHECK_CANARIES(options);
  CHECK_INT(2, dlb_file_count(file));
  for (size_t i = 0; i < 2; i++) {
    SET(entry);
    CHECK_OK(dlb_file_at(entry.is, file, i, &error));
    CHECK_CANARIES(entry);
    CHECK_GROWN(entry.is[0]);
    CHECK(is(entry.is[0].name, names[i]) && entry.is[0].problem.size == 0);
    CHECK_INT(2, entry.is[0].ndim);
    CHECK(memcmp(entry.is[0].shape, shapes[i], sizeof shapes[i]) == 0);
  }
  dlb_file_close(file);
  CHECK_INT(0, unlink(path));
  check_nothing_is_left(__func__);
}

/* dlb_counters, dlb_error */
static void counters(void) {
  GUARDED(dlb_counters, 1) now;
  dlb_message *m = encode();
  SET(now);
  dlb_counters_read(now.is, sizeof now.is[0]);
  CHECK_CANARIES(now);
  CHECK_INT(3, now.is[0].imports);
  CHECK_INT(1, now.is[0].messages);
  CHECK_INT(0, now.is[0].double_deletes);
  CHECK_INT(0, now.is[0].elements);
  CHECK_INT(0, now.is[0].pinned_bytes);
  CHECK_GROWN(now.is[0]);
  dlb_message_free(m);
  GUARDED(dlb_error, 1) error;
  SET(error);
  CHECK_INT(DLB_ERROR_NULL, dlb_message_encode(NULL, NULL, NULL, 0, error.is));
  CHECK_INT(DLB_ERROR_NULL, error.is[0].code);
  CHECK_CANARIES(error);
  check_nothing_is_left(__func__);
}

int main(int argc, char **argv) {
  CHECK_INT(2, argc);
#ifdef GROWN
  knows = atoi(argv[1]);
#else
  (void)argv;
#endif
  for (int i = 0; i < 18; i++) data[i / 6][i % 6] = (float)i;
  frames();
  EACH_FORMAT(f) {
    values(f);
    if (f->decode_batch != NULL) streams(f);
  }
  files();
  counters();
  return 0;
}
