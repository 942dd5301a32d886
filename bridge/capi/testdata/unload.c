/* A program that loads and unloads a plugin, which is a library that contains libdlbridge_tensor. Arguments: the plugin, which is this file
 * with the macro PLUGIN; "offer" for a plugin whose thread answers those who fetch. */
#include "check.h"

#include <dirent.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#ifdef PLUGIN
/* Asks whether this memory is shared. */
int ask(void *memory) {
  int64_t shape[] = {16};
  const DLTensor view = {.data = memory, .device = {kDLCPU, 0}, .ndim = 1, .dtype = UINT8, .shape = shape};
  DLManagedTensorVersioned x = {.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION}, .dl_tensor = view};
  int32_t shared = 1;
  CHECK_OK(dlb_shm_is_shared(&shared, &x, &error));
  return shared;
}

/* Offers a segment. */
void offer(void) {
  const int64_t shape[] = {16};
  DLManagedTensorVersioned *x;
  dlb_shm_handle h;
  CHECK_OK(dlb_shm_alloc(&x, UINT8, 1, shape, &error));
  CHECK_OK(dlb_shm_offer(&h, x, 60000, 0, &error));
  dlb_tensor_release(x);
}

/* Receives what is no message. */
void receive(int socket) {
  DLManagedTensorVersioned *x;
  size_t count;
  CHECK_CODE(DLB_ERROR_FORMAT, dlb_shm_recv(&count, &x, 1, socket, 0, 60000, &error));
}
#else
static int descriptors(void) {
  DIR *dir = opendir("/proc/self/fd");
  int count = 0;
  CHECK(dir != NULL);
  while (readdir(dir) != NULL) count++;
  closedir(dir);
  return count;
}

/* Sends a byte with the last descriptor of a TCP socket, whose close waits for a second until the other side has read everything. */
static void send_lingering(int to) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof address;
  const int listener = socket(AF_INET, SOCK_STREAM, 0), conn = socket(AF_INET, SOCK_STREAM, 0);
  CHECK_INT(0, bind(listener, (struct sockaddr *)&address, size));
  CHECK_INT(0, listen(listener, 1));
  CHECK_INT(0, getsockname(listener, (struct sockaddr *)&address, &size));
  CHECK_INT(0, connect(conn, (struct sockaddr *)&address, size));
  CHECK(accept(listener, NULL, NULL) >= 0);
  char zeros[4096] = {0}, room[CMSG_SPACE(sizeof conn)] __attribute__((aligned(8))) = {0};
  while (send(conn, zeros, sizeof zeros, MSG_DONTWAIT) > 0) continue;
  CHECK_INT(0, setsockopt(conn, SOL_SOCKET, SO_LINGER, &(struct linger){1, 1}, sizeof(struct linger)));
  struct iovec part = {zeros, 1};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
  struct cmsghdr *c = (struct cmsghdr *)room;
  *c = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof conn)};
  memcpy(CMSG_DATA(c), &conn, sizeof conn);
  CHECK_INT(1, sendmsg(to, &message, 0));
  close(conn);
  close(listener);
}

/* The thread of the plugin closes its socket without a descriptor to spare, while dlclose holds the lock of the loader. */
static int offer_and_unload(const char *name) {
  void *plugin = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  void (*offer)(void) = NULL;
  CHECK(plugin != NULL);
  *(void **)&offer = dlsym(plugin, "offer");
  offer();
  CHECK_INT(0, setrlimit(RLIMIT_NOFILE, &(struct rlimit){3, 3}));
  CHECK_INT(0, dlclose(plugin));
  return 0;
}

int main(int argc, char **argv) {
  if (argc == 3) return offer_and_unload(argv[1]);
  CHECK_INT(2, argc);
  void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *plugin = NULL;
  const int before = descriptors();
  for (int i = 0; i < 4; i++) {
    plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    CHECK(plugin != NULL);
    int (*ask)(void *) = NULL;
    *(void **)&ask = dlsym(plugin, "ask");
    CHECK_INT(0, ask(memory));
    if (i == 3) break;
    CHECK_INT(0, dlclose(plugin));
    CHECK(dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) == NULL); /* it is not there any more */
    CHECK_INT(before, descriptors());
  }
  void (*receive)(int) = NULL;
  *(void **)&receive = dlsym(plugin, "receive");
  int pair[2];
  CHECK_INT(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
  send_lingering(pair[0]);
  receive(pair[1]);
  CHECK_INT(0, dlclose(plugin));
  usleep(1500000); /* a thread of the plugin returns from close meanwhile */
  return 0;
}
#endif
