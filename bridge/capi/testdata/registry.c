/* One thread makes and frees messages and elements. Another thread frees the same address again and again, at which one of
 * these objects is now and then. Such an object may end early, but not before it is complete. */
#include "formats.h"

#include <pthread.h>
#include <time.h>

static int stop;
static char bytes[8];

static dlb_message *make_message(void) {
  static const dlb_header header = {.form = {'F', 'L', 'O', 'W'}};
  dlb_frame parts[] = {{.data = bytes, .size = 4}, {.data = bytes, .size = 8}};
  dlb_message *message = NULL;
  dlb_error why;
  if (dlb_message_encode_parts(&message, &header, (dlb_bytes){"label", 5}, parts, 2, &why) != DLB_OK) abort();
  return message;
}

static dlb_elements *make_elements(void) {
  dlb_frame frame = {.data = all_formats->strings.data, .size = all_formats->strings.size};
  dlb_value value;
  dlb_error why;
  if (all_formats->decode(&value, &frame, 0, &why) != DLB_OK) abort();
  return value.elements;
}

static void *make(void *unused) {
  (void)unused;
  while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
    dlb_message_free(make_message());
    dlb_elements_free(make_elements());
  }
  return NULL;
}

int main(void) {
  dlb_message *message = make_message();
  dlb_elements *elements = make_elements();
  dlb_message_free(message);
  dlb_elements_free(elements);
  pthread_t maker;
  CHECK_INT(0, pthread_create(&maker, NULL, make, NULL));
  for (time_t end = time(NULL) + 3; time(NULL) < end;) {
    for (int i = 0; i < 1000; i++) {
      dlb_message_free(message);
      dlb_elements_free(elements);
      dlb_message_free((dlb_message *)elements); /* either kind may have this address */
      dlb_elements_free((dlb_elements *)message);
    }
  }
  __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
  CHECK_INT(0, pthread_join(maker, NULL));
  check_nothing_is_left(__func__);
  return 0;
}
