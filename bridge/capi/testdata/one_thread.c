/* A program with libdlbridge_tensor alone has one thread from start to end, and no Go. */
#include "check.h"

#include <dirent.h>

static void check_one_thread(void) {
  DIR *tasks = opendir("/proc/self/task");
  CHECK(tasks != NULL);
  int threads = 0;
  for (struct dirent *entry; (entry = readdir(tasks)) != NULL;) threads += entry->d_name[0] != '.';
  closedir(tasks);
  CHECK_INT(1, threads);
}

static void check_no_go(void) {
  FILE *maps = fopen("/proc/self/maps", "r");
  CHECK(maps != NULL);
  char line[4096];
  while (fgets(line, sizeof line, maps) != NULL) CHECK(strstr(line, "/libdlbridge.so") == NULL);
  fclose(maps);
}

static void release(void *ctx) { ++*(int *)ctx; }

int main(void) {
  check_one_thread();
  atexit(check_one_thread);
  float elements[6] = {1, 2, 3, 4, 5, 6};
  int64_t shape[] = {2, 3};
  int released = 0;
  DLTensor view = {.data = elements, .device = {kDLCPU, 0}, .ndim = 2, .dtype = {kDLFloat, 32, 1}, .shape = shape};
  DLManagedTensorVersioned *lent, *copy;
  CHECK_OK(dlb_tensor_lend(&lent, &view, 0, release, &released, &error));
  CHECK(lent->dl_tensor.data == elements);
  CHECK_OK(dlb_tensor_copy(&copy, lent, &error));
  dlb_counters now;
  dlb_counters_read(&now, sizeof now);
  CHECK_INT(2, now.exports);
  CHECK_INT(1, now.imports);
  dlb_tensor_release(lent);
  CHECK_INT(1, released);
  dlb_tensor_release(copy);
  check_nothing_is_left("one_thread");
  check_one_thread();
  check_no_go();
  return 0;
}
