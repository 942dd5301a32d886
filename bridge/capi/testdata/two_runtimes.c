/* Two Go libraries in one process exchange tensors, on four threads and on many short-lived ones, while both garbage
 * collectors run. The arguments are the libraries, how to open them, and the number of rounds. */
#include "check.h"

#include <dlfcn.h>
#include <pthread.h>

static struct peer {
  void (*start)(void);
  DLManagedTensorVersioned *(*make)(int kind, float value, int64_t n);
  DLManagedTensorVersioned *(*pass)(DLManagedTensorVersioned *managed, int half);
  int64_t (*take)(DLManagedTensorVersioned *managed, float value);
  int64_t (*live)(void);
} peers[2];

static void *find(void *library, const char *name) {
  void *symbol = dlsym(library, name);
  CHECK(symbol != NULL);
  return symbol;
}

static void open_peer(struct peer *p, const char *path, int mode) {
  void *library = dlopen(path, RTLD_NOW | mode);
  if (library == NULL) fprintf(stderr, "%s\n", dlerror());
  CHECK(library != NULL);
  *(void **)&p->start = find(library, "peer_start");
  *(void **)&p->make = find(library, "peer_make");
  *(void **)&p->pass = find(library, "peer_pass");
  *(void **)&p->take = find(library, "peer_take");
  *(void **)&p->live = find(library, "peer_live");
}

static float value_of(int64_t round) { return (float)(1 + round % 1000); }

/* A consumer without Go, on a separate thread. */
static void *read_and_delete(void *arg) {
  DLManagedTensorVersioned *m = arg;
  const float *data = m->dl_tensor.data;
  for (int64_t i = 1; i < m->dl_tensor.shape[0]; i++) CHECK(data[i] == data[0]);
  m->deleter(m);
  return NULL;
}

static void exchange(int64_t round, const struct peer *a, const struct peer *b) {
  float value = value_of(round);
  int64_t n = 2 * (1 + round % 300);
  int kind = round % 3 == 0;
  DLManagedTensorVersioned *m = a->make(kind, value, n);
  CHECK(m != NULL);
  switch (round % 4) {
    case 0: /* there */
      CHECK_INT(n, b->take(m, value));
      break;
    case 1: /* there and back, and both hold the memory */
      m = b->pass(m, 0);
      CHECK(m != NULL);
      CHECK_INT(n, a->take(m, value));
      break;
    case 2: /* there, back and there again, half of it */
      m = a->pass(b->pass(m, 1), 0);
      CHECK(m != NULL);
      CHECK_INT(n / 2, b->take(m, value));
      break;
    default: { /* there, and to a thread that neither knows */
      m = b->pass(m, 0);
      CHECK(m != NULL);
      CHECK(m->dl_tensor.shape[0] == n && *(float *)m->dl_tensor.data == value);
      if (round % 64 != 3) {
        read_and_delete(m);
        break;
      }
      pthread_t thread;
      CHECK_INT(0, pthread_create(&thread, NULL, read_and_delete, m));
      CHECK_INT(0, pthread_join(thread, NULL));
    }
  }
}

static int64_t rounds;

static void *exchanges(void *arg) {
  int me = *(int *)arg;
  for (int64_t i = 0; i < rounds; i++) exchange(4 * i + i / 7 + me, &peers[(me + i) % 2], &peers[(me + i + 1) % 2]);
  return NULL;
}

int main(int argc, char **argv) {
  CHECK_INT(5, argc);
  int mode = strcmp(argv[3], "global") == 0 ? RTLD_GLOBAL : RTLD_LOCAL;
  rounds = strtoll(argv[4], NULL, 10);
  open_peer(&peers[0], argv[1], mode);
  open_peer(&peers[1], argv[2], mode);
  CHECK(peers[0].make != peers[1].make);
  peers[0].start();
  peers[1].start();
  pthread_t threads[4];
  int numbers[4];
  for (int i = 0; i < 4; i++) {
    numbers[i] = i;
    CHECK_INT(0, pthread_create(&threads[i], NULL, exchanges, &numbers[i]));
  }
  for (int i = 0; i < 4; i++) CHECK_INT(0, pthread_join(threads[i], NULL));
  CHECK_INT(0, peers[0].live());
  CHECK_INT(0, peers[1].live());
  return 0;
}
