/* Reads the files in the testdata of the formats, malformed files, and files that this program writes; and passes wrong arguments. */
#include "check.h"

#include <fcntl.h>
#include <glob.h>
#include <math.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int is(dlb_bytes bytes, const char *text) { return bytes.size == strlen(text) && memcmp(bytes.data, text, bytes.size) == 0; }

static char folder[] = "/tmp/dlbridge-files-XXXXXX", path[64];

/* Tensors lie at their offsets in one mapping, have the elements that reading the file gives, and stay valid when the file is closed. */
static void check_tensors(const char *name) {
  DLManagedTensorVersioned *tensors[400];
  dlb_file *file;
  dlb_file_entry entry;
  dlb_bytes metadata, again;
  CHECK_OK(dlb_file_open(&file, name, NULL, &error));
  size_t count = dlb_file_count(file);
  CHECK(count < 400);
  uintptr_t base = 0;
  for (size_t i = 0; i < count; i++) {
    DLManagedTensorVersioned *copy;
    int32_t equal;
    size_t found;
    CHECK_OK(dlb_file_at(&entry, file, i, &error));
    CHECK(is(entry.path, name) && (entry.status == DLB_OK) == (entry.problem.size == 0));
    char *text = calloc(1, entry.name.size + 1);
    if (entry.name.size > 0) memcpy(text, entry.name.data, entry.name.size);
    if (strlen(text) == entry.name.size) {
      CHECK_OK(dlb_file_find(&found, file, text, &error));
      CHECK_INT(i, found);
    }
    free(text);
    tensors[i] = NULL;
    if (entry.status != DLB_OK) {
      CHECK_CODE(entry.status, dlb_file_tensor_at(&tensors[i], file, i, &error));
      CHECK_CODE(entry.status, dlb_file_copy(&copy, file, i, &error));
      continue;
    }
    CHECK_OK(dlb_file_tensor_at(&tensors[i], file, i, &error));
    const DLTensor *t = &tensors[i]->dl_tensor;
    CHECK(t->dtype.code == entry.dtype.code && t->dtype.bits == entry.dtype.bits && t->dtype.lanes == entry.dtype.lanes);
    CHECK_INT(entry.copied.size > 0 ? DLPACK_FLAG_BITMASK_IS_COPIED : DLPACK_FLAG_BITMASK_READ_ONLY,
              tensors[i]->flags & (DLPACK_FLAG_BITMASK_IS_COPIED | DLPACK_FLAG_BITMASK_READ_ONLY));
    if (entry.copied.size == 0 && entry.size > 0) {
      if (base == 0) base = (uintptr_t)t->data - entry.offset;
      CHECK_INT(base, (uintptr_t)t->data - entry.offset);
      CHECK_INT(0, base % 4096);
    }
    CHECK_OK(dlb_file_copy(&copy, file, i, &error));
    CHECK(copy->flags & DLPACK_FLAG_BITMASK_IS_COPIED && !(copy->flags & DLPACK_FLAG_BITMASK_READ_ONLY));
    if (t->dtype.code != kDLOpaqueHandle) {
      CHECK_OK(dlb_tensor_equal(&equal, tensors[i], copy, DLB_EQUAL_NAN, &error));
      CHECK_INT(1, equal);
    }
    dlb_tensor_release(copy);
    CHECK_OK(dlb_tensor_share(&copy, tensors[i], &error)); /* it is a tensor of this library */
    dlb_tensor_release(copy);
  }
  CHECK_OK(dlb_file_metadata(&metadata, file, &error));
  CHECK_OK(dlb_file_metadata(&again, file, &error));
  CHECK(metadata.data == again.data && metadata.size >= 2 && metadata.data[0] == '{' && metadata.data[metadata.size - 1] == '}');
  CHECK_OK(dlb_file_verify(file, &error));
  dlb_file_close(file);
  for (size_t i = 0; i < count; i++) {
    DLManagedTensorVersioned *copy;
    if (tensors[i] == NULL) continue;
    CHECK_OK(dlb_tensor_copy(&copy, tensors[i], &error)); /* reads all elements */
    dlb_tensor_release(copy);
    dlb_tensor_release(tensors[i]);
  }
}

static void recorded_files(void) {
  static const char *const patterns[] = {"../safetensors/testdata/*.safetensors", "../gguf/testdata/*.gguf", "../npy/testdata/*.np[yz]"};
  for (size_t k = 0; k < sizeof patterns / sizeof *patterns; k++) {
    glob_t found;
    CHECK_INT(0, glob(patterns[k], 0, NULL, &found));
    size_t read = 0;
    for (size_t i = 0; i < found.gl_pathc; i++) {
      dlb_file *file;
      int32_t code = dlb_file_open(&file, found.gl_pathv[i], NULL, NULL);
      if (code == DLB_ERROR_DTYPE) continue; /* such as texts */
      if (strstr(found.gl_pathv[i], "/big.gguf") != NULL) { /* big-endian */
        CHECK_INT(DLB_ERROR_FORMAT, code);
        continue;
      }
      CHECK_INT(DLB_OK, code);
      dlb_file_close(file);
      check_tensors(found.gl_pathv[i]);
      check_nothing_is_left(found.gl_pathv[i]);
      read++;
    }
    CHECK(read >= 5);
    globfree(&found);
  }
}

static int32_t count_calls(void *ctx, uint64_t written, uint64_t total) {
  CHECK(written <= total);
  return ++*(int *)ctx > 1000;
}

static int32_t stop(void *ctx, uint64_t written, uint64_t total) { return (void)ctx, (void)written, (void)total, 7; }

static DLManagedTensorVersioned *numbers(void) {
  static const int64_t shape[] = {2, 3};
  DLManagedTensorVersioned *x;
  CHECK_OK(dlb_tensor_alloc(&x, FLOAT32, 2, shape, &error));
  for (int i = 0; i < 6; i++) ((float *)x->dl_tensor.data)[i] = (float)i;
  return x;
}

static void writing(void) {
  static const int32_t axes[] = {1, 0};
  DLManagedTensorVersioned *x = numbers(), *turned, *y;
  dlb_file *file;
  dlb_bytes text;
  int calls = 0;
  CHECK_OK(dlb_tensor_transpose(&turned, x, 2, axes, &error));
  const dlb_file_tensor tensors[] = {{.tensor = x, .name = "x"}, {.tensor = turned, .name = "turned"}};
  dlb_file_fields fields = {.format = "safetensors", .align = 64, .metadata = {"{\"a\":\"b\"}", 9}, .progress = count_calls, .ctx = &calls};
  CHECK_OK(dlb_file_write(path, tensors, 2, &fields, &error));
  CHECK(calls > 0);
  check_tensors(path);
  CHECK_OK(dlb_file_open(&file, path, NULL, &error));
  CHECK_OK(dlb_file_format(&text, file, &error));
  CHECK(is(text, "safetensors"));
  CHECK_OK(dlb_file_metadata(&text, file, &error));
  CHECK(is(text, "{\"a\":\"b\"}"));
  fields.progress = stop;
  CHECK_TEXT(DLB_ERROR_FUNCTION, "dlb_file_write: ", dlb_file_write(path, tensors, 2, &fields, &error));
  fields.progress = NULL;
  fields.metadata.size = 8;
  CHECK_TEXT(DLB_ERROR_ARGUMENT, "fields.metadata: ", dlb_file_write(path, tensors, 2, &fields, &error));
  static const char *const no_text[] = {"{\"a\":\"\\ud800\"}", "{\"a\":\"\xed\xa0\x80\"}"}; /* half a surrogate pair */
  for (int i = 0; i < 2; i++) {
    fields.metadata = (dlb_bytes){no_text[i], strlen(no_text[i])};
    CHECK_TEXT(DLB_ERROR_ARGUMENT, "fields.metadata: ", dlb_file_write(path, tensors, 2, &fields, &error));
  }
  fields = (dlb_file_fields){.format = "gguf"};
  CHECK_TEXT(DLB_ERROR_ARGUMENT, "fields->format chooses one", dlb_file_write(path, tensors, 2, &fields, &error));
  fields.format = "npy";
  CHECK_TEXT(DLB_ERROR_ARGUMENT, "an npy file has one", dlb_file_write(path, tensors, 2, &fields, &error));
  CHECK_TEXT(DLB_ERROR_NULL, "tensors[1].tensor", dlb_file_write(path, (dlb_file_tensor[]){tensors[0], {0}}, 2, &fields, &error));
  CHECK_OK(dlb_file_verify(file, &error));

  /* An npy file takes the name; the old one stays as it is. Writing to a tensor changes the new one. */
  CHECK_OK(dlb_file_write(path, tensors, 1, &fields, &error));
  CHECK_OK(dlb_file_tensor_at(&y, file, 0, &error));
  CHECK_INT(5, ((float *)y->dl_tensor.data)[5]);
  dlb_tensor_release(y);
  dlb_file_close(file);
  const dlb_file_options writable = {.flags = DLB_FILE_WRITABLE}, set = {.flags = DLB_FILE_SET | DLB_FILE_WRITABLE};
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_file_open(&file, path, &set, &error));
  CHECK_OK(dlb_file_open(&file, path, &writable, &error));
  CHECK_OK(dlb_file_tensor_at(&y, file, 0, &error));
  ((float *)y->dl_tensor.data)[5] = 42;
  CHECK_OK(dlb_file_sync(file, &error));
  dlb_tensor_release(y);
  CHECK_OK(dlb_file_copy(&y, file, 0, &error));
  CHECK_INT(42, ((float *)y->dl_tensor.data)[5]);
  dlb_tensor_release(y);

  /* If the file becomes shorter, reading it is an error. */
  CHECK_INT(0, truncate(path, 100));
  CHECK_CODE(DLB_ERROR_SYSTEM, dlb_file_verify(file, &error));
  CHECK_CODE(DLB_ERROR_SYSTEM, dlb_file_copy(&y, file, 0, &error));
  dlb_file_close(file);
  dlb_tensor_release(turned);
  dlb_tensor_release(x);
  check_nothing_is_left(__func__);
}

/* Writes a field of metadata of GGUF, whose name has one letter. */
static void write_field(FILE *out, char name, uint32_t type, const void *value, size_t size) {
  static const uint64_t one = 1;
  CHECK(fwrite(&one, sizeof one, 1, out) == 1 && fwrite(&name, 1, 1, out) == 1);
  CHECK(fwrite(&type, sizeof type, 1, out) == 1 && fwrite(value, size, 1, out) == 1);
}

/* Numbers of metadata are the shortest that read back as the same value of the type in the file. NaN, infinite numbers and bytes that are
 * not UTF-8 are written as dlbridge.h says. */
static void values_of_metadata(void) {
  enum { float32 = 6, string = 8, float64 = 12 };
  static const struct {
    char magic[4];
    uint32_t version;
    uint64_t tensors, fields;
  } header = {"GGUF", 3, 0, 7};
  static const struct {
    uint64_t size;
    char text[8];
  } not_utf8 = {8, "\xc3\xb6\x80\xff\xed\xa0\x80z"};
  const float narrow = 0.1f, nan32 = NAN, infinite32 = INFINITY;
  const double wide = 0.1f, nan64 = -NAN, infinite64 = -INFINITY;
  FILE *out = fopen(path, "wb");
  dlb_file *file;
  dlb_bytes text;
  CHECK(out != NULL);
  CHECK(fwrite(&header, sizeof header, 1, out) == 1);
  write_field(out, 'a', float32, &narrow, sizeof narrow);
  write_field(out, 'b', float64, &wide, sizeof wide);
  write_field(out, 'c', float32, &nan32, sizeof nan32);
  write_field(out, 'd', float64, &nan64, sizeof nan64);
  write_field(out, 'e', float32, &infinite32, sizeof infinite32);
  write_field(out, 'f', float64, &infinite64, sizeof infinite64);
  write_field(out, 'g', string, &not_utf8, sizeof not_utf8);
  CHECK_INT(0, fclose(out));
  CHECK_OK(dlb_file_open(&file, path, NULL, &error));
  CHECK_OK(dlb_file_metadata(&text, file, &error));
  CHECK(is(text, "{\"a\":0.1,\"b\":0.10000000149011612,\"c\":NaN,\"d\":NaN,\"e\":Infinity,\"f\":-Infinity,"
                 "\"g\":\"\xc3\xb6\\udc80\\udcff\\udced\\udca0\\udc80z\"}"));
  dlb_file_close(file);
  check_nothing_is_left(__func__);
}

/* Opens a malformed file: the error has the code with the given name, and a text. */
static void refused(const char *code, const char *text, const char *name) {
  dlb_file *file = (dlb_file *)&file;
  dlb_error error;
  int32_t got = dlb_file_open(&file, name, NULL, &error);
  if (file != NULL || strcmp(code, dlb_error_name(got)) != 0 || strstr(error.message, text) == NULL) {
    fprintf(stderr, "%s gives %s (%s), want %s with \"%s\"\n", name, dlb_error_name(got), error.message, code, text);
    exit(1);
  }
  check_nothing_is_left(name);
}

/* The index of the first byte that no tensor has. */
static off_t end_of_elements(void) {
  dlb_file *file;
  uint64_t end = 0;
  CHECK_OK(dlb_file_open(&file, path, NULL, &error));
  for (size_t i = 0; i < dlb_file_count(file); i++) {
    dlb_file_entry entry;
    CHECK_OK(dlb_file_at(&entry, file, i, &error));
    if (entry.offset + entry.size > end) end = entry.offset + entry.size;
  }
  dlb_file_close(file);
  return (off_t)end;
}

static void copy_file(const char *to, const char *from) {
  static char bytes[1 << 14];
  FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
  CHECK(in != NULL && out != NULL);
  size_t size = fread(bytes, 1, sizeof bytes, in);
  CHECK(size > 0 && size < sizeof bytes && fwrite(bytes, 1, size, out) == size);
  CHECK(fclose(in) == 0 && fclose(out) == 0);
}

/* Every beginning of a file is refused. */
static void cut_files(void) {
  DLManagedTensorVersioned *x = numbers();
  static const char *const formats[] = {"safetensors", "npy", "npz", "gguf"};
  for (size_t k = 0; k < 4; k++) {
    dlb_file *file;
    struct stat info;
    if (k == 3) copy_file(path, "../gguf/testdata/aligned8.gguf");
    else CHECK_OK(dlb_file_write(path, &(dlb_file_tensor){.tensor = x, .name = "x"}, 1, &(dlb_file_fields){.format = formats[k]}, &error));
    check_tensors(path);
    CHECK_INT(0, stat(path, &info));
    if (k == 3) info.st_size = end_of_elements(); /* gguf pads the last tensor too */
    for (off_t size = info.st_size - 1; size >= 0; size--) {
      CHECK_INT(0, truncate(path, size));
      int32_t code = dlb_file_open(&file, path, NULL, NULL);
      CHECK(file == NULL && (code == DLB_ERROR_FORMAT || (code == DLB_ERROR_ARGUMENT && size <= 10)));
    }
  }
  dlb_tensor_release(x);
  check_nothing_is_left(__func__);
}

static void wrong_arguments(void) {
  dlb_file *file, *closed;
  dlb_file_entry entry;
  CHECK_TEXT(DLB_ERROR_SYSTEM, "dlb_file_open: ", dlb_file_open(&file, "/none/none", NULL, &error));
  CHECK_TEXT(DLB_ERROR_ARGUMENT, "directory", dlb_file_open(&file, folder, NULL, &error));
  CHECK_TEXT(DLB_ERROR_ARGUMENT, "device", dlb_file_open(&file, "/dev/null", NULL, &error));
  CHECK_TEXT(DLB_ERROR_ARGUMENT, "DLB_FILE_SET opens", dlb_file_open(&file, "../gguf/testdata/manifest.json", NULL, &error));
  CHECK_TEXT(DLB_ERROR_ARGUMENT, "options.flags", dlb_file_open(&file, path, &(dlb_file_options){.flags = 4}, &error));
  CHECK_OK(dlb_file_open(&file, "../gguf/testdata/shapes.gguf", NULL, &error));
  CHECK_TEXT(DLB_ERROR_ARGUMENT, "index = 99", dlb_file_at(&entry, file, 99, &error));
  CHECK_TEXT(DLB_ERROR_ARGUMENT, "is named \"none\"", dlb_file_find(&(size_t){0}, file, "none", &error));
  pid_t child = fork();
  if (child == 0) {
    DLManagedTensorVersioned *t;
    CHECK_CODE(DLB_ERROR_FORKED, dlb_file_tensor_at(&t, file, 0, &error));
    CHECK_CODE(DLB_ERROR_FORKED, dlb_file_open(&closed, path, NULL, &error));
    CHECK_OK(dlb_file_at(&entry, file, 0, &error));
    dlb_file_close(file);
    _exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  dlb_file_close(closed = file);
  dlb_file_close(closed);
  CHECK_INT(0, dlb_file_count(closed));
  CHECK_TEXT(DLB_ERROR_ARGUMENT, "or it was closed", dlb_file_at(&entry, closed, 0, &error));
  check_nothing_is_left(__func__);
}

/* Checks how many mappings the process has of files with a name. Only Linux lists the mappings. */
static void check_mappings(int want, const char *name) {
#ifdef __linux__
  static char line[4096];
  int count = 0;
  FILE *maps = fopen("/proc/self/maps", "r");
  CHECK(maps != NULL);
  while (fgets(line, sizeof line, maps) != NULL) count += strstr(line, name) != NULL;
  CHECK_INT(0, fclose(maps));
  CHECK_INT(want, count);
#else
  (void)want, (void)name;
#endif
}

/* Leaves no descriptor and no mapping: there is room for only 100 more descriptors. */
static void many_openings(void) {
  struct rlimit limit, few;
  int next = open("/dev/null", O_RDONLY);
  CHECK(next >= 0 && close(next) == 0);
  CHECK_INT(0, getrlimit(RLIMIT_NOFILE, &limit));
  few = (struct rlimit){(rlim_t)next + 100, limit.rlim_max};
  CHECK_INT(0, setrlimit(RLIMIT_NOFILE, &few));
  for (int i = 0; i < 10000; i++) {
    DLManagedTensorVersioned *t;
    dlb_file *file;
    CHECK_OK(dlb_file_open(&file, "../npy/testdata/float32-2x3.npy", NULL, &error));
    CHECK_OK(dlb_file_tensor_at(&t, file, 0, &error));
    dlb_file_close(file);
    if (i == 0) check_mappings(1, "float32-2x3.npy");
    dlb_tensor_release(t);
  }
  check_mappings(0, "float32-2x3.npy");
  CHECK_INT(0, setrlimit(RLIMIT_NOFILE, &limit)); /* sanitizers open files when the process ends */
  check_nothing_is_left(__func__);
}

/* Arguments are the names of the codes, the texts and the paths of malformed files. */
int main(int argc, char **argv) {
  for (int i = 1; i + 2 < argc; i += 3) refused(argv[i], argv[i + 1], argv[i + 2]);
  if (argc > 1) return 0;
  CHECK(mkdtemp(folder) != NULL);
  snprintf(path, sizeof path, "%s/file", folder);
  recorded_files();
  writing();
  values_of_metadata();
  cut_files();
  wrong_arguments();
  many_openings();
  unlink(path);
  rmdir(folder);
  return 0;
}
