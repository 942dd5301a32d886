//go:build !dlbridge_shared

/* The names of data types and devices. They are the same as in Go: TestTextInCIsThatOfGo compares them. All of it is
 * plain C. */
#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* ---- buffers --------------------------------------------------------------------------------- */

void dlbcapi_write(dlbcapi_text *t, const char *format, ...) {
  size_t left = t->size < t->room ? t->room - t->size : 0;
  va_list args;
  va_start(args, format);
  int size = vsnprintf(left > 0 ? t->data + t->size : NULL, left, format, args);
  va_end(args);
  if (size > 0) t->size += (size_t)size;
}

int32_t dlbcapi_text_check(const char *op, size_t *out, const char *data, size_t room, dlb_error *error) {
  int32_t code = CAPI_CLEAR(op, out, error);
  return code == DLB_OK ? dlbcapi_check_bytes(op, "data", data, room, error) : code;
}

int32_t dlbcapi_text_out(const char *op, size_t *out, char *data, size_t room, void (*write)(dlbcapi_text *t, const void *thing),
                         const void *thing, dlb_error *error) {
  dlbcapi_text counted = {NULL, 0, 0}, text = {data, room, 0};
  write(&counted, thing);
  *out = counted.size + 1; /* the NUL */
  if (data == NULL) return dlbcapi_ok(error);
  if (room < *out)
    return dlbcapi_fail(error, DLB_ERROR_ROOM, "%s: room is %zu bytes, but the text needs %zu", op, room, *out);
  write(&text, thing);
  return dlbcapi_ok(error);
}

/* ---- data types ------------------------------------------------------------------------------ */

void dlbcapi_write_dtype(dlbcapi_text *t, DLDataType dtype) {
  if (!dlbcore_known_dtype(dtype)) {
    dlbcapi_write(t, "(code %d, bits %d, lanes %d)", dtype.code, dtype.bits, dtype.lanes);
    return;
  }
  const dlbcore_kind *kind = dlbcore_kind_of(dtype.code);
  dlbcapi_write(t, "%s", kind->name);
  if (kind->sized) dlbcapi_write(t, "%d", dtype.bits);
  if (dtype.lanes > 1) dlbcapi_write(t, "x%d", dtype.lanes);
}

static void write_dtype(dlbcapi_text *t, const void *dtype) { dlbcapi_write_dtype(t, *(const DLDataType *)dtype); }

int32_t dlb_dtype_format(size_t *out, char *data, size_t room, DLDataType dtype, dlb_error *error) {
  int32_t code = dlbcapi_text_check(__func__, out, data, room, error);
  return code == DLB_OK ? dlbcapi_text_out(__func__, out, data, room, write_dtype, &dtype, error) : code;
}

/* Reads a number from 1 to `most` without a sign or leading zeros that ends at `end`. Returns 0 for anything else. */
static long number(const char *text, const char *end, long most) {
  long n = 0;
  if (text == end || *text == '0') return 0;
  for (; text < end; text++) {
    if (*text < '0' || *text > '9') return 0;
    n = 10 * n + (*text - '0');
    if (n > most) return 0;
  }
  return n;
}

/* Sets *out to the type with one lane of this name, and reports whether it exists. Otherwise *out is undefined. */
static int find_name(DLDataType *out, const char *text, const char *end) {
  const dlbcore_kind *kind;
  for (uint8_t code = 0; (kind = dlbcore_kind_of(code)) != NULL; code++) {
    size_t size = strlen(kind->name);
    if ((size_t)(end - text) < size || memcmp(text, kind->name, size) != 0) continue;
    uint8_t bits = kind->sized ? (uint8_t)number(text + size, end, 128) : kind->widths[0];
    if (code == kDLOpaqueHandle && text + size == end) bits = 64;
    else if (!kind->sized && text + size != end) continue;
    *out = (DLDataType){code, bits, 1};
    if (dlbcore_known_dtype(*out)) return 1;
  }
  return 0;
}

/* NumPy's names: type strings and letters, which a byte order may precede, and names of C types, whose sizes are those
 * of 64-bit Linux on every machine. The comment of dlb_dtype_parse in dlbridge.h lists them too. */
static const struct {
  char name[12];
  int takes_order;
  DLDataType dtype;
} numpy_names[] = {
    {"?", 1, {kDLBool, 8, 1}}, {"b1", 1, {kDLBool, 8, 1}},
    {"i1", 1, {kDLInt, 8, 1}}, {"b", 1, {kDLInt, 8, 1}}, {"byte", 0, {kDLInt, 8, 1}},
    {"i2", 1, {kDLInt, 16, 1}}, {"h", 1, {kDLInt, 16, 1}}, {"short", 0, {kDLInt, 16, 1}},
    {"i4", 1, {kDLInt, 32, 1}}, {"i", 1, {kDLInt, 32, 1}}, {"intc", 0, {kDLInt, 32, 1}},
    {"i8", 1, {kDLInt, 64, 1}}, {"l", 1, {kDLInt, 64, 1}}, {"q", 1, {kDLInt, 64, 1}}, {"int", 0, {kDLInt, 64, 1}},
    {"long", 0, {kDLInt, 64, 1}}, {"longlong", 0, {kDLInt, 64, 1}}, {"intp", 0, {kDLInt, 64, 1}},
    {"u1", 1, {kDLUInt, 8, 1}}, {"B", 1, {kDLUInt, 8, 1}}, {"ubyte", 0, {kDLUInt, 8, 1}},
    {"u2", 1, {kDLUInt, 16, 1}}, {"H", 1, {kDLUInt, 16, 1}}, {"ushort", 0, {kDLUInt, 16, 1}},
    {"u4", 1, {kDLUInt, 32, 1}}, {"I", 1, {kDLUInt, 32, 1}}, {"uintc", 0, {kDLUInt, 32, 1}},
    {"u8", 1, {kDLUInt, 64, 1}}, {"L", 1, {kDLUInt, 64, 1}}, {"Q", 1, {kDLUInt, 64, 1}}, {"uint", 0, {kDLUInt, 64, 1}},
    {"ulong", 0, {kDLUInt, 64, 1}}, {"ulonglong", 0, {kDLUInt, 64, 1}}, {"uintp", 0, {kDLUInt, 64, 1}},
    {"f2", 1, {kDLFloat, 16, 1}}, {"e", 1, {kDLFloat, 16, 1}}, {"half", 0, {kDLFloat, 16, 1}},
    {"f4", 1, {kDLFloat, 32, 1}}, {"f", 1, {kDLFloat, 32, 1}}, {"single", 0, {kDLFloat, 32, 1}},
    {"f8", 1, {kDLFloat, 64, 1}}, {"d", 1, {kDLFloat, 64, 1}}, {"double", 0, {kDLFloat, 64, 1}},
    {"float", 0, {kDLFloat, 64, 1}},
    {"c8", 1, {kDLComplex, 64, 1}}, {"F", 1, {kDLComplex, 64, 1}}, {"csingle", 0, {kDLComplex, 64, 1}},
    {"c16", 1, {kDLComplex, 128, 1}}, {"D", 1, {kDLComplex, 128, 1}}, {"cdouble", 0, {kDLComplex, 128, 1}},
    {"complex", 0, {kDLComplex, 128, 1}},
};

static int find_numpy(DLDataType *out, const char *text) {
  int ordered = *text != '\0' && strchr("<>=|", *text) != NULL;
  for (size_t i = 0; i < COUNT(numpy_names); i++) {
    if (strcmp(text + ordered, numpy_names[i].name) != 0 || (ordered && !numpy_names[i].takes_order)) continue;
    *out = numpy_names[i].dtype;
    return 1;
  }
  return 0;
}

/* Sets *out to the type with several lanes of this name: "float32x4", or "float32_x4" as PyTorch writes it. Reports
 * whether it exists. Otherwise *out is undefined. */
static int find_lanes(DLDataType *out, const char *text) {
  const char *x = strrchr(text, 'x');
  long lanes = x == NULL ? 0 : number(x + 1, x + strlen(x), UINT16_MAX);
  if (lanes < 2 || x == text) return 0;
  const char *end = x[-1] == '_' ? x - 1 : x;
  if (!find_name(out, text, end)) return 0;
  out->lanes = (uint16_t)lanes;
  return 1;
}

static int is_little_endian(void) {
  const uint16_t one = 1;
  return *(const unsigned char *)&one == 1;
}

int32_t dlb_dtype_bits(DLDataType dtype) { return (int32_t)dtype.bits * dtype.lanes; }

int32_t dlb_dtype_parse(DLDataType *out, const char *text, dlb_error *error) {
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code != DLB_OK) return code;
  if (text == NULL) return dlbcapi_null(__func__, "text", error);
  if (find_name(out, text, text + strlen(text))) return dlbcapi_ok(error);
  if (find_numpy(out, text)) {
    char other = is_little_endian() ? '>' : '<';
    if (out->bits * out->lanes == 8 || *text != other) return dlbcapi_ok(error);
    memset(out, 0, sizeof *out);
    return dlbcapi_fail(error, DLB_ERROR_DTYPE,
                        "%s: data type \"%.40s\": DLPack has elements in the byte order of this machine only; swap the bytes first",
                        __func__, text);
  }
  if (find_lanes(out, text)) return dlbcapi_ok(error);
  memset(out, 0, sizeof *out);
  return dlbcapi_fail(error, DLB_ERROR_DTYPE, "%s: data type \"%.40s\" is not like \"float32\" or \"<f4\"", __func__, text);
}

/* ---- devices --------------------------------------------------------------------------------- */

/* The types 19 to 21 are newer than dlpack.h, which has the names of a released DLPack. */
static const char *const devices[] = {
    [kDLCPU] = "cpu", [kDLCUDA] = "cuda", [kDLCUDAHost] = "cuda_host", [kDLOpenCL] = "opencl", [kDLVulkan] = "vulkan",
    [kDLMetal] = "metal", [kDLVPI] = "vpi", [kDLROCM] = "rocm", [kDLROCMHost] = "rocm_host", [kDLExtDev] = "ext_dev",
    [kDLCUDAManaged] = "cuda_managed", [kDLOneAPI] = "oneapi", [kDLWebGPU] = "webgpu", [kDLHexagon] = "hexagon",
    [kDLMAIA] = "maia", [kDLTrn] = "trn", [19] = "tpu", [20] = "tpu_host", [21] = "ascend",
};

void dlbcapi_write_device(dlbcapi_text *t, DLDevice device) {
  int type = (int)device.device_type;
  if (type == kDLCPU && device.device_id == 0) dlbcapi_write(t, "cpu");
  else if (type >= 0 && (size_t)type < COUNT(devices) && devices[type] != NULL)
    dlbcapi_write(t, "%s:%d", devices[type], (int)device.device_id);
  else dlbcapi_write(t, "%d:%d", type, (int)device.device_id);
}

static void write_device(dlbcapi_text *t, const void *device) { dlbcapi_write_device(t, *(const DLDevice *)device); }

int32_t dlb_device_format(size_t *out, char *data, size_t room, DLDevice device, dlb_error *error) {
  int32_t code = dlbcapi_text_check(__func__, out, data, room, error);
  return code == DLB_OK ? dlbcapi_text_out(__func__, out, data, room, write_device, &device, error) : code;
}

/* Reads a decimal number without a plus sign or leading zeros, and reports whether the text is such a number. */
static int read_int32(int32_t *out, const char *text, const char *end) {
  int negative = text < end && *text == '-';
  long n = number(text + negative, end, negative ? 2147483648L : INT32_MAX);
  if (n == 0 && (negative || end - text != 1 || *text != '0')) return 0;
  *out = (int32_t)(negative ? -n : n);
  return 1;
}

static int read_device_type(int32_t *out, const char *text, const char *end) {
  for (size_t type = 0; type < COUNT(devices); type++) {
    if (devices[type] == NULL || strlen(devices[type]) != (size_t)(end - text)) continue;
    if (memcmp(text, devices[type], (size_t)(end - text)) != 0) continue;
    *out = (int32_t)type;
    return 1;
  }
  return read_int32(out, text, end);
}

int32_t dlb_device_parse(DLDevice *out, const char *text, dlb_error *error) {
  int32_t code = CAPI_CLEAR(__func__, out, error), type, id = 0;
  if (code != DLB_OK) return code;
  if (text == NULL) return dlbcapi_null(__func__, "text", error);
  const char *end = text + strlen(text), *colon = strchr(text, ':');
  if (!read_device_type(&type, text, colon == NULL ? end : colon) || (colon != NULL && !read_int32(&id, colon + 1, end)))
    return dlbcapi_fail(error, DLB_ERROR_DEVICE, "%s: device \"%.40s\" is not like \"cpu\" or \"cuda:0\"", __func__, text);
  *out = (DLDevice){(DLDeviceType)type, id};
  return dlbcapi_ok(error);
}

int32_t dlbcapi_check_readable(const char *op, const DLTensor *tensor, dlb_error *error) {
  if (dlbcore_host_readable(tensor->device.device_type)) return DLB_OK;
  char device[32];
  dlbcapi_text t = {.data = device, .room = sizeof device};
  dlbcapi_write_device(&t, tensor->device);
  return dlbcapi_fail(error, DLB_ERROR_DEVICE, "%s: memory on %s cannot be read; its producer can copy it to the CPU", op, device);
}
