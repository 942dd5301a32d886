/* naive.h: libtorch's import, as C. */
#ifndef EXAMPLES_LIBTORCH_ATEN_NAIVE_H_
#define EXAMPLES_LIBTORCH_ATEN_NAIVE_H_

struct DLManagedTensorVersioned;

#ifdef __cplusplus
extern "C" {
#endif

void *naive_take(struct DLManagedTensorVersioned *managed); /* NULL where libtorch refuses */
void naive_free(void *tensor);

#ifdef __cplusplus
}
#endif

#endif
