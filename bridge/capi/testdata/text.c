/* Answers questions about texts, one a line, for TestTextInCIsThatOfGo:
 *
 *   parse_dtype TEXT          "CODE BITS LANES" or "error CODE"
 *   format_dtype CODE BITS LANES
 *   parse_device TEXT         "TYPE ID" or "error CODE"
 *   format_device TYPE ID
 *   format CODE BITS LANES FLAGS DEVICE START NDIM SHAPE... STRIDES... HEX     START is the byte of element (0, ..., 0)
 *   convert CODE BITS ...     the same, converted to this type first
 *
 * The program runs in a locale with a decimal comma if there is one. */
#include "check.h"

#include <locale.h>

static dlb_error error;
static char text[1 << 16];

/* Prints the text that CALL writes into exactly the room that it needs. */
#define PRINT(CALL)                                     \
  do {                                                  \
    size_t need, size;                                  \
    char *data = NULL;                                  \
    size_t room = 0;                                    \
    CHECK_OK(CALL(&need));                              \
    CHECK((data = malloc(need)) != NULL);               \
    memset(data, 0x5a, need);                           \
    room = need - 1;                                    \
    CHECK_CODE(room > 0 ? DLB_ERROR_ROOM : DLB_OK, CALL(&size)); \
    CHECK(size == need && (need == 1 || data[0] == 0x5a)); \
    room = need;                                        \
    CHECK_OK(CALL(&size));                              \
    CHECK(size == need && strlen(data) == need - 1);    \
    puts(data);                                         \
    free(data);                                         \
  } while (0)

static int64_t number(char **p) { return strtoll(*p, p, 10); }

static DLDataType read_dtype(char **p) {
  DLDataType dtype;
  dtype.code = (uint8_t)number(p);
  dtype.bits = (uint8_t)number(p);
  dtype.lanes = (uint16_t)number(p);
  return dtype;
}

static void tensor(char *p, int converted) {
  static int64_t shape[256], strides[256];
  static unsigned char bytes[1 << 15];
  DLDataType to = {0, 0, 0};
  if (converted) to = read_dtype(&p);
  DLTensor view = {.shape = shape, .strides = strides};
  view.dtype = read_dtype(&p);
  uint64_t flags = (uint64_t)number(&p);
  view.device.device_type = (DLDeviceType)number(&p);
  int64_t start = number(&p);
  view.ndim = (int32_t)number(&p);
  for (int32_t d = 0; d < view.ndim; d++) shape[d] = number(&p);
  for (int32_t d = 0; d < view.ndim; d++) strides[d] = number(&p);
  while (*p == ' ') p++;
  size_t size = 0;
  for (; p[0] != '\0' && p[1] != '\0'; p += 2, size++) {
    unsigned byte;
    CHECK_INT(1, sscanf(p, "%2x", &byte));
    bytes[size] = (unsigned char)byte;
  }
  view.data = bytes + start;
  DLManagedTensorVersioned *t, *other;
  CHECK_OK(dlb_tensor_lend(&t, &view, flags, NULL, NULL, &error));
  if (converted) {
    CHECK_OK(dlb_tensor_convert(&other, t, to, &error));
    dlb_tensor_release(t);
    t = other;
  }
#define FORMAT(out) dlb_tensor_format(out, data, room, t, &error)
  PRINT(FORMAT);
  dlb_tensor_release(t);
}

static void answer(char *line) {
  char *rest = strchr(line, ' ');
  CHECK(rest != NULL);
  *rest++ = '\0';
  DLDataType dtype;
  DLDevice device;
  int32_t code;
  if (strcmp(line, "parse_dtype") == 0) {
    code = dlb_dtype_parse(&dtype, rest, &error);
    if (code != DLB_OK) printf("error %s\n", dlb_error_name(code));
    else printf("%d %d %d\n", dtype.code, dtype.bits, dtype.lanes);
  } else if (strcmp(line, "refuse_dtype") == 0) {
    static const char before[] = "dlb_tensor_alloc: tensor: ";
    DLManagedTensorVersioned *none;
    dtype = read_dtype(&rest);
    CHECK_INT(DLB_ERROR_DTYPE, dlb_tensor_alloc(&none, dtype, 0, NULL, &error));
    CHECK(strncmp(before, error.message, strlen(before)) == 0);
    puts(error.message + strlen(before));
  } else if (strcmp(line, "format_dtype") == 0) {
    dtype = read_dtype(&rest);
#define DTYPE(out) dlb_dtype_format(out, data, room, dtype, &error)
    PRINT(DTYPE);
  } else if (strcmp(line, "parse_device") == 0) {
    code = dlb_device_parse(&device, rest, &error);
    if (code != DLB_OK) printf("error %s\n", dlb_error_name(code));
    else printf("%d %d\n", (int)device.device_type, (int)device.device_id);
  } else if (strcmp(line, "format_device") == 0) {
    device.device_type = (DLDeviceType)number(&rest);
    device.device_id = (int32_t)number(&rest);
#define DEVICE(out) dlb_device_format(out, data, room, device, &error)
    PRINT(DEVICE);
  } else {
    CHECK(strcmp(line, "format") == 0 || strcmp(line, "convert") == 0);
    tensor(rest, line[0] == 'c');
  }
}

int main(void) {
  static const char *const locales[] = {"de_DE.UTF-8", "de_DE", "fr_FR.UTF-8", "C.UTF-8"};
  for (size_t i = 0; i < 4 && setlocale(LC_ALL, locales[i]) == NULL; i++) continue;
  while (fgets(text, sizeof text, stdin) != NULL) {
    text[strcspn(text, "\n")] = '\0';
    answer(text);
  }
  check_nothing_is_left("text");
  return 0;
}
