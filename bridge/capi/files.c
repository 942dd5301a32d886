//go:build linux || darwin

/* Files of tensors. Go opens and writes files, and describes their tensors in C memory. The plain functions here read
 * these descriptions. */
#include "_cgo_export.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- open files ------------------------------------------------------------------------------ */

dlb_file *dlbcapi_file_new(size_t count, size_t dims, size_t text) {
  size_t dims_at = count * sizeof(dlb_file_entry);
  size_t text_at = dims_at + dims * sizeof(int64_t);
  char *room = calloc(1, text_at + text + 1);
  dlb_file *file = room != NULL ? dlbcapi_object_new() : NULL;
  if (file == NULL) {
    free(room);
    return NULL;
  }
  file->count = count;
  file->entries = (dlb_file_entry *)room;
  file->dims = (int64_t *)(room + dims_at);
  file->text = room + text_at;
  return file;
}

void dlbcapi_file_end(dlb_file *file) {
  free(file->metadata);
  free(file->entries);
  dlbcapi_object_free(file);
}

int32_t dlb_file_open(dlb_file **out, const char *path, const dlb_file_options *options, dlb_error *error) {
  static const dlbcapi_file_calls calls = {capiFileTensor, capiFileMetadata, capiFileCheck, capiFileClose};
  static const dlb_file_options none;
  int32_t code = CAPI_CLEAR(__func__, out, error);
  if (code == DLB_OK && path == NULL) code = dlbcapi_null(__func__, "path", error);
  if (options == NULL) options = &none;
  if (code == DLB_OK) code = dlbcapi_check_bits(__func__, "options.flags", options->flags, DLB_FILE_SET | DLB_FILE_WRITABLE, error);
  if (code == DLB_OK) code = CAPI_CHECK_RESERVED(__func__, "options", options, error);
  if (code == DLB_OK) code = dlbcapi_check_forked(__func__, error);
  if (code != DLB_OK) return code;
  dlb_file *file = NULL;
  code = capiFileOpen(__func__, &file, path, options->flags, options->as, error);
  if (code != DLB_OK) return code;
  file->calls = &calls;
  dlbcapi_object_publish(file, CAPI_FILE);
  *out = file;
  return DLB_OK;
}

static int known(const dlb_file *file) { return dlbcapi_object_kind(file) == CAPI_FILE; }

void dlb_file_close(dlb_file *file) {
  if (!dlbcapi_object_end(file, CAPI_FILE)) return;
  if (!dlbcore_forked()) file->calls->close(file->handle);
  dlbcapi_file_end(file);
}

static int32_t check_file(const char *op, const dlb_file *file, dlb_error *error) {
  if (file == NULL) return dlbcapi_null(op, "file", error);
  if (known(file)) return DLB_OK;
  return dlbcapi_fail(error, DLB_ERROR_ARGUMENT, "%s: there is no file at %p, or it was closed", op, (const void *)file);
}

/* Begins a function that reads a file: clears *out, and checks the file. */
#define BEGIN(out, file, error) begin(__func__, out, sizeof *(out), file, error)
static int32_t begin(const char *op, void *out, size_t size, const dlb_file *file, dlb_error *error) {
  int32_t code = dlbcapi_clear(op, out, size, error);
  return code == DLB_OK ? check_file(op, file, error) : code;
}

static int32_t check_index(const char *op, size_t index, const dlb_file *file, dlb_error *error) {
  if (index < file->count) return DLB_OK;
  return dlbcapi_fail(error, DLB_ERROR_ARGUMENT, "%s: index = %zu, but the file has %zu tensor%s", op, index, file->count,
                      file->count == 1 ? "" : "s");
}

int32_t dlb_file_format(dlb_bytes *out, const dlb_file *file, dlb_error *error) {
  int32_t code = BEGIN(out, file, error);
  if (code != DLB_OK) return code;
  *out = file->format;
  return dlbcapi_ok(error);
}

size_t dlb_file_count(const dlb_file *file) { return known(file) ? file->count : 0; }

int32_t dlb_file_at(dlb_file_entry *out, const dlb_file *file, size_t index, dlb_error *error) {
  int32_t code = BEGIN(out, file, error);
  if (code == DLB_OK) code = check_index(__func__, index, file, error);
  if (code != DLB_OK) return code;
  *out = file->entries[index];
  return dlbcapi_ok(error);
}

int32_t dlb_file_find(size_t *out, const dlb_file *file, const char *name, dlb_error *error) {
  int32_t code = BEGIN(out, file, error);
  if (code == DLB_OK && name == NULL) code = dlbcapi_null(__func__, "name", error);
  if (code != DLB_OK) return code;
  size_t size = strlen(name);
  for (size_t i = 0; i < file->count; i++) {
    dlb_bytes of = file->entries[i].name;
    if (of.size != size || (size > 0 && memcmp(of.data, name, size) != 0)) continue;
    *out = i;
    return dlbcapi_ok(error);
  }
  return dlbcapi_fail(error, DLB_ERROR_ARGUMENT, "%s: none of the %zu tensors is named \"%.80s\"; dlb_file_at returns their names",
                      __func__, file->count, name);
}

static int32_t tensor_at(const char *op, DLManagedTensorVersioned **out, const dlb_file *file, size_t index, int copy, dlb_error *error) {
  int32_t code = begin(op, out, sizeof *out, file, error);
  if (code == DLB_OK) code = check_index(op, index, file, error);
  if (code == DLB_OK) code = dlbcapi_check_forked(op, error);
  if (code != DLB_OK) return code;
  code = file->calls->tensor(op, file->handle, index, copy, out, error);
  if (code == DLB_OK && dlbcapi_ledger_on()) dlbcapi_ledger_enter_tensor(*out, file->entries[index].size);
  return code;
}

int32_t dlb_file_tensor_at(DLManagedTensorVersioned **out, const dlb_file *file, size_t index, dlb_error *error) {
  return tensor_at(__func__, out, file, index, 0, error);
}

int32_t dlb_file_copy(DLManagedTensorVersioned **out, const dlb_file *file, size_t index, dlb_error *error) {
  return tensor_at(__func__, out, file, index, 1, error);
}

/* Two threads may make the metadata at the same time. The first text stays, because *out may refer to it. */
int32_t dlb_file_metadata(dlb_bytes *out, const dlb_file *file, dlb_error *error) {
  int32_t code = BEGIN(out, file, error);
  if (code != DLB_OK) return code;
  dlb_bytes **place = &((dlb_file *)file)->metadata, *made = NULL, *now = __atomic_load_n(place, __ATOMIC_ACQUIRE);
  if (now == NULL) {
    code = dlbcapi_check_forked(__func__, error);
    if (code == DLB_OK) code = file->calls->metadata(__func__, file->handle, &made, error);
    if (code != DLB_OK) return code;
    if (__atomic_compare_exchange_n(place, &now, made, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) now = made;
    else free(made);
  }
  *out = *now;
  return dlbcapi_ok(error);
}

static int32_t check_disk(const char *op, const dlb_file *file, int sync, dlb_error *error) {
  int32_t code = check_file(op, file, error);
  if (code == DLB_OK) code = dlbcapi_check_forked(op, error);
  return code == DLB_OK ? file->calls->check(op, file->handle, sync, error) : code;
}

int32_t dlb_file_verify(const dlb_file *file, dlb_error *error) { return check_disk(__func__, file, 0, error); }

int32_t dlb_file_sync(const dlb_file *file, dlb_error *error) { return check_disk(__func__, file, 1, error); }

/* ---- writing --------------------------------------------------------------------------------- */

int32_t dlbcapi_file_progress(const dlb_file_fields *fields, uint64_t written, uint64_t total) {
  return fields->progress(fields->ctx, written, total);
}

/* Checks the tensors, and copies their descriptions without deleters, so that Go does not release what it imports. */
static int32_t describe(const char *op, DLManagedTensorVersioned *views, const dlb_file_tensor *tensors, size_t count, dlb_error *error) {
  for (size_t i = 0; i < count; i++) {
    char name[48], managed[64];
    snprintf(name, sizeof name, "tensors[%zu]", i);
    snprintf(managed, sizeof managed, "%s.tensor", name);
    int32_t code = dlbcapi_check(op, managed, tensors[i].tensor, NULL, error);
    if (code == DLB_OK) code = CAPI_CHECK_RESERVED(op, name, &tensors[i], error);
    if (code != DLB_OK) return code;
    views[i] = *tensors[i].tensor;
    views[i].deleter = NULL;
  }
  return DLB_OK;
}

int32_t dlb_file_write(const char *path, const dlb_file_tensor *tensors, size_t count, const dlb_file_fields *fields, dlb_error *error) {
  static const dlb_file_fields none;
  if (path == NULL) return dlbcapi_null(__func__, "path", error);
  if (fields == NULL) fields = &none;
  if (count > 0 && tensors == NULL) return dlbcapi_null(__func__, "tensors", error);
  if (count > PTRDIFF_MAX / sizeof(DLManagedTensorVersioned))
    return dlbcapi_fail(error, DLB_ERROR_ARGUMENT, "%s: count = %zu, more than memory can hold", __func__, count);
  int32_t code = dlbcapi_check_bytes(__func__, "fields.metadata.data", fields->metadata.data, fields->metadata.size, error);
  if (code == DLB_OK) code = CAPI_CHECK_RESERVED(__func__, "fields", fields, error);
  if (code == DLB_OK) code = dlbcapi_check_forked(__func__, error);
  if (code != DLB_OK) return code;
  DLManagedTensorVersioned *views = malloc((count + 1) * sizeof *views);
  if (views == NULL) return dlbcapi_memory(__func__, error);
  code = describe(__func__, views, tensors, count, error);
  if (code == DLB_OK)
    code = capiFileWrite(__func__, path, (dlb_file_tensor *)tensors, views, count, (dlb_file_fields *)fields, error);
  free(views);
  return code;
}
