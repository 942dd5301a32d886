/* A program of its time: it is compiled with dlbridge.h in this folder, the header of the recorded version, and runs with the
 * library of today. It uses every kind of object and structure, and recorded.h, which is generated, refers to every function.
 * It changes only when the recorded header does. */
#include <dlbridge.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "recorded.h"

#define CHECK(condition)                                                   \
  do {                                                                     \
    if (!(condition)) {                                                    \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                             \
    }                                                                      \
  } while (0)
#define CHECK_OK(call)                                                               \
  do {                                                                               \
    dlb_error error;                                                                 \
    if ((call) != DLB_OK) {                                                          \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, error.message); \
      exit(1);                                                                       \
    }                                                                                \
  } while (0)

static const DLDataType FLOAT32 = {kDLFloat, 32, 1};
static int released;

static void count(void *ctx) { ++*(int *)ctx; }

static DLManagedTensorVersioned *make_tensor(void) {
  const int64_t shape[] = {2, 3};
  DLManagedTensorVersioned *t;
  CHECK_OK(dlb_tensor_alloc(&t, FLOAT32, 2, shape, &error));
  for (int i = 0; i < 6; i++) ((float *)t->dl_tensor.data)[i] = (float)i;
  return t;
}

static void tensors(void) {
  static float memory[6] = {1, 2, 3, 4, 5, 6};
  int64_t shape[] = {3, 2}, strides[] = {1, 3}, size;
  DLTensor view = {memory, {kDLCPU, 0}, 2, FLOAT32, shape, strides, 0};
  DLManagedTensorVersioned *t, *copy;
  DLManagedTensor *legacy;
  CHECK_OK(dlb_tensor_lend(&t, &view, DLPACK_FLAG_BITMASK_READ_ONLY, count, &released, &error));
  CHECK(t->dl_tensor.data == memory);
  CHECK_OK(dlb_tensor_validate(t, &error));
  CHECK_OK(dlb_tensor_nbytes(&size, t, &error));
  CHECK(size == 24);
  CHECK_OK(dlb_tensor_copy(&copy, t, &error));
  CHECK(((float *)copy->dl_tensor.data)[1] == 4);
  CHECK(dlb_tensor_to_legacy(&legacy, t, NULL) == DLB_ERROR_READONLY && legacy == NULL);
  dlb_tensor_release(t);
  CHECK(released == 1);
  CHECK_OK(dlb_tensor_to_legacy(&legacy, copy, &error));
  CHECK_OK(dlb_tensor_from_legacy(&t, legacy, 0, &error));
  dlb_tensor_release(t);
}

static void messages(void) {
  const dlb_message_tensor in[] = {{make_tensor(), {"{\"a\":1}", 7}, {0}}, {make_tensor(), {NULL, 0}, {0}}};
  const dlb_message_fields fields = {{1, {0}, 2, 3, 4}, {NULL, 0}, {"{\"b\":2}", 7}, {0}};
  void *data = in[0].tensor->dl_tensor.data;
  dlb_message *m, *again, *parts;
  dlb_header header;
  dlb_bytes text;
  dlb_frame packed, frames[4];
  DLManagedTensorVersioned *t;
  CHECK_OK(dlb_message_encode(&m, &fields, in, 2, &error));
  CHECK(dlb_message_frame_count(m) == 4 && dlb_message_part_count(m) == 2 && dlb_message_tensor_count(m) == 2);
  CHECK(dlb_message_tensor_part(m, 1) == 1 && !dlb_message_copied(m, 0));
  CHECK_OK(dlb_message_header(&header, m, &error));
  CHECK(header.level == 1 && memcmp(header.form, "TENS", 4) == 0 && header.origin == 2 && header.granule == 3 && header.seqno == 4);
  CHECK_OK(dlb_message_metadata(&text, m, &error));
  CHECK(text.size == 7 && memcmp(text.data, "{\"b\":2}", 7) == 0);
  CHECK_OK(dlb_message_tensor_metadata(&text, m, 0, &error));
  CHECK(text.size == 7);
  CHECK_OK(dlb_message_part(&t, m, 0, &error));
  CHECK(t->dl_tensor.data == data && t->dl_tensor.shape[0] == 24);
  dlb_tensor_release(t);
  CHECK_OK(dlb_message_encode_packed(&packed, m, &error));
  for (size_t i = 0; i < 4; i++) CHECK_OK(dlb_message_frame(&frames[i], m, i, &error));
  dlb_message_free(m);
  CHECK_OK(dlb_message_decode(&m, frames, 4, 0, &error));
  CHECK_OK(dlb_message_label(&text, m, &error));
  CHECK(text.size > 0);
  CHECK_OK(dlb_message_encode_parts(&parts, &header, text, NULL, 0, &error));
  dlb_message_free(parts);
  CHECK_OK(dlb_message_decode_packed(&again, &packed, 0, &error));
  CHECK_OK(dlb_message_tensor_at(&t, m, 0, &error));
  CHECK(t->dl_tensor.data == data);
  dlb_message_free(m);
  dlb_message_free(again);
  dlb_tensor_release(t);
}

static void values(void) {
  static const char number[] = "\x01\x02\x02\x03" "012345678901234567890123", rules[] = "{\"shape\":[2,3],\"allowedTypes\":[\"f32\"]}";
  static const char strings[] = "\x08\x07\x12\x04\x12\x02\x08\x02\x42\x05hello\x42\x08, world!";
  static char room[256];
  const dlb_frame first = {number, 28, NULL, NULL, 0, {0}}, second = {strings, sizeof strings - 1, NULL, NULL, 0, {0}};
  dlb_value v[2];
  size_t size;
  CHECK_OK(dlb_decthings_decode_batch(v, 2, &(size_t){0}, &first, 0, DLB_DECTHINGS_DOC, &error));
  CHECK(v[0].tensor != NULL && v[0].size == 28 && v[1].tensor == NULL);
  dlb_tensor_release(v[0].tensor);
  CHECK_OK(dlb_decthings_decode(v, &first, DLB_DECTHINGS_DOC, &error));
  CHECK_OK(dlb_decthings_check((dlb_bytes){rules, sizeof rules - 1}, v, &error));
  CHECK_OK(dlb_decthings_encode(&size, room, sizeof room, v, DLB_DECTHINGS_DOC, &error));
  CHECK(size == 28 && memcmp(room, number, 28) == 0);
  dlb_tensor_release(v[0].tensor);
  CHECK_OK(dlb_tensorflow_decode(v, &second, 0, &error));
  CHECK(v[0].elements->ndim == 1 && v[0].elements->count == 2 && v[0].elements->values[0].size == 5);
  CHECK_OK(dlb_tensorflow_encode(&size, room, sizeof room, v, 0, &error));
  CHECK(size == second.size && memcmp(room, strings, size) == 0);
  CHECK(dlb_tensorflow_encode(&size, room, 3, v, 0, NULL) == DLB_ERROR_ROOM && size == second.size);
  dlb_elements_free(v[0].elements);
}

int main(void) {
  dlb_counters counters;
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) CHECK(functions[i] != NULL);
  CHECK(strcmp(dlb_error_name(DLB_ERROR_ROOM), "room") == 0);
  tensors();
  messages();
  values();
  memset(&counters, 0xff, sizeof counters);
  dlb_counters_read(&counters, sizeof counters);
  CHECK(counters.exports == 0 && counters.imports == 0 && counters.messages == 0 && counters.elements == 0);
  puts(dlb_version());
  return 0;
}
