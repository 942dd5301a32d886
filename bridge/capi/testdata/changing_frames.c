/* Another thread changes the bytes of frames while they are decoded. Each call must return a message or value, or an error
 * other than DLB_ERROR_INTERNAL. */
#include "formats.h"

#include <pthread.h>

static volatile unsigned char *place; /* the byte to change; NULL ends the thread */
static unsigned char values[2];

static void *change(void *nothing) {
  for (unsigned i = 0;; i++) {
    volatile unsigned char *byte = __atomic_load_n(&place, __ATOMIC_ACQUIRE);
    if (byte == NULL) return nothing;
    *byte = values[i / 64 % 2];
  }
}

static void check_code(int32_t code, const dlb_error *error) {
  CHECK_INT(code, error->code);
  if (code == DLB_ERROR_INTERNAL || place == NULL) fputs(error->message, stderr);
  CHECK(code != DLB_ERROR_INTERNAL);
}

static int32_t unpack(const dlb_frame *frames, uint64_t options) {
  dlb_error error;
  dlb_message *message;
  int32_t code = dlb_message_decode_packed(&message, frames, options, &error);
  check_code(code, &error);
  CHECK((code == DLB_OK) == (message != NULL));
  if (code == DLB_OK) dlb_message_free(message);
  return code;
}

static int32_t unpack_all(const dlb_frame *frames) { return unpack(frames, 0); }

static int32_t unpack_message(const dlb_frame *frames) { return unpack(frames, DLB_DECODE_MESSAGE_ONLY); }

static int32_t decode(const dlb_frame *frames, size_t count) {
  dlb_error error;
  dlb_message *message;
  int32_t code = dlb_message_decode(&message, frames, count, 0, &error);
  check_code(code, &error);
  if (code == DLB_OK) dlb_message_free(message);
  return code;
}

static int32_t decode_two(const dlb_frame *frames) { return decode(frames, 2); }

static int32_t decode_three(const dlb_frame *frames) { return decode(frames, 3); }

static void end_value(dlb_value *value) {
  dlb_tensor_release(value->tensor);
  dlb_elements_free(value->elements);
}

static const test_format *format;
static uint64_t options;

static int32_t decode_value(const dlb_frame *frames) {
  dlb_error error;
  dlb_value value;
  int32_t code = format->decode(&value, frames, options, &error);
  check_code(code, &error);
  if (code == DLB_OK) end_value(&value);
  return code;
}

static void run(const char *name, int32_t (*call)(const dlb_frame *), const dlb_frame *frames, size_t at, unsigned char a,
                unsigned char b) {
  pthread_t thread;
  values[0] = a;
  values[1] = b;
  CHECK_INT(a, ((const unsigned char *)frames[0].data)[at]);
  CHECK_INT(DLB_OK, call(frames));
  place = (unsigned char *)frames[0].data + at;
  CHECK_INT(0, pthread_create(&thread, NULL, change, NULL));
  for (int i = 0; i < 30000; i++) call(frames);
  __atomic_store_n(&place, NULL, __ATOMIC_RELEASE);
  CHECK_INT(0, pthread_join(thread, NULL));
  ((unsigned char *)frames[0].data)[at] = a;
  check_nothing_is_left(name);
}

int main(void) {
  static char packed[128];
  int size = snprintf(packed, sizeof packed, "-ZIO0TENS{\"TENS\":{\"tensors\":[],\"metadata\":{}}}"), at = size;
  packed[0] = (char)(size - 1);
  packed[at] = 24;
  const dlb_frame whole = {.data = packed, .size = (size_t)size + 25};
  run("the size of a packed frame", unpack_message, &whole, at, 24, 200);
  run("the size of a packed frame", unpack_all, &whole, at, 24, 200);
  run("the number of packed frames", unpack_message, &whole, at, 24, 3);

  static char text[1024];
  size = snprintf(text, sizeof text, "ZIO0TENS{\"TENS\":{\"tensors\":[],\"metadata\":{}},\"");
  for (int i = 0; i < 100; i++) {
    if (i == 50) at = size;
    size += snprintf(text + size, sizeof text - size, "\\u0041");
  }
  size += snprintf(text + size, sizeof text - size, "\":1}");
  static char header[24];
  const dlb_frame frames[] = {{.data = text, .size = size}, {.data = header, .size = sizeof header}};
  run("an escape in a label", decode_two, frames, at, '\\', 'a');
  run("a digit of an escape in a label", decode_two, frames, at + 2, '0', 'Z');

  size = snprintf(text, sizeof text,
                  "ZIO0TENS{\"TENS\":{\"tensors\":[{\"shape\":[],\"word\":2,\"dtype\":\"V\",\"part\":0,\"dlpack\":[4,16,1");
  at = size;
  size += snprintf(text + size, sizeof text - size, "]}],\"metadata\":{}}}");
  static char part[2];
  const dlb_frame three[] = {{.data = text, .size = size}, {.data = header, .size = sizeof header}, {.data = part, .size = 2}};
  run("the end of the attribute dlpack", decode_three, three, at, ']', '"');

  for (format = all_formats; format < all_formats + FORMAT_COUNT; format++) {
    for (size_t i = 0; i < 2 && format->changes[i].what != NULL; i++) {
      dlb_frame value = {.data = memcpy(text, format->changes[i].data.data, format->changes[i].data.size),
                         .size = format->changes[i].data.size};
      options = format->changes[i].options;
      run(format->changes[i].what, decode_value, &value, format->changes[i].at, format->changes[i].from, format->changes[i].to);
    }
  }
  return 0;
}
