/* A program with libdlbridge_tensor.so, and a plugin with libdlbridge_tensor.a: this file, compiled with the macro PLUGIN. The program
 * opens the plugin, uses it, and closes it. Arguments: the plugin, and its use, by the name of a function below. */
#include "check.h"

#include <dlfcn.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#ifdef PLUGIN
/* Makes a tensor. */
DLManagedTensorVersioned *make(void) {
  const int64_t shape[] = {16};
  DLManagedTensorVersioned *x;
  CHECK_OK(dlb_tensor_alloc(&x, UINT8, 1, shape, &error));
  return x;
}

/* Counts the tensors of the plugin. */
int64_t count(void) {
  dlb_counters now;
  dlb_counters_read(&now, sizeof now);
  return now.exports;
}

/* Receives what is no message. */
void receive(int socket) {
  DLManagedTensorVersioned *x;
  size_t count;
  CHECK_CODE(DLB_ERROR_FORMAT, dlb_shm_recv(&count, &x, 1, socket, 0, 60000, &error));
}
#else
/* Returns a function of the plugin. */
static void (*function(void *plugin, const char *name))(void) {
  void (*found)(void) = NULL;
  *(void **)&found = dlsym(plugin, name);
  CHECK(found != NULL);
  return found;
}

/* The plugin has a library of its own, although the one of this program came first. Its deleter is called after the plugin was closed. */
static void tensor(void *plugin) {
  dlb_counters now;
  DLManagedTensorVersioned *x = ((DLManagedTensorVersioned *(*)(void))function(plugin, "make"))();
  int64_t (*count)(void) = (int64_t (*)(void))function(plugin, "count");
  dlb_counters_read(&now, sizeof now);
  CHECK_INT(0, now.exports);
  CHECK_INT(1, count());
  CHECK(dlsym(plugin, "dlb_tensor_alloc") == NULL);
  CHECK_INT(0, dlclose(plugin));
  memset(x->dl_tensor.data, 1, 16);
  x->deleter(x);
  CHECK_INT(0, count());
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

/* A thread of the plugin returns from close after the plugin was closed. */
static void receive(void *plugin) {
  int pair[2];
  CHECK_INT(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
  send_lingering(pair[0]);
  ((void (*)(int))function(plugin, "receive"))(pair[1]);
  CHECK_INT(0, dlclose(plugin));
  usleep(1500000);
}

int main(int argc, char **argv) {
  CHECK_INT(3, argc);
  void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
  CHECK(plugin != NULL);
  CHECK_INT(0, unlink(argv[1])); /* it is not found by its path */
  if (strcmp(argv[2], "tensor") == 0) tensor(plugin);
  else receive(plugin);
  return 0;
}
#endif
