// The C interface with owners and exceptions, for this example and the next: as much of a C++ wrapper as is needed.
#pragma once
#include <dlbridge.h>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

struct Release {
  void operator()(DLManagedTensorVersioned *tensor) const { dlb_tensor_release(tensor); }
  void operator()(dlb_message *message) const { dlb_message_free(message); }
};
using Tensor = std::unique_ptr<DLManagedTensorVersioned, Release>;
using Message = std::unique_ptr<dlb_message, Release>;

// Every function has its output first and its error last, and nothing has moved when it fails.
template <class Out, class... Parameters, class... Arguments>
Out call(int32_t (*function)(Out *, Parameters...), Arguments... arguments) {
  Out out{};
  dlb_error error;
  if (function(&out, arguments..., &error) != DLB_OK) throw std::runtime_error(error.message);
  return out;
}

// Bytes that were taken from a message or are to be given to one. They are released once, by us or by it.
class Frame {
 public:
  explicit Frame(const dlb_frame &frame) : frame_(frame) {}
  Frame(Frame &&other) noexcept : frame_(std::exchange(other.frame_, {})) {}
  Frame &operator=(Frame &&other) noexcept { return std::swap(frame_, other.frame_), *this; }
  ~Frame() {
    if (frame_.release != nullptr) frame_.release(frame_.ctx);
  }
  const dlb_frame *operator->() const { return &frame_; }
  const dlb_frame &operator*() const { return frame_; }
  void moved() { frame_ = {}; }

  // The bytes of a vector, which lives until nothing views them.
  static Frame of(std::vector<char> bytes) {
    auto owner = new std::vector<char>(std::move(bytes));
    auto release = [](void *ctx) { delete static_cast<std::vector<char> *>(ctx); };
    dlb_frame frame = {};
    frame.data = owner->data();
    frame.size = owner->size();
    frame.release = release;
    frame.ctx = owner;
    frame.flags = DLB_FRAME_WRITABLE;
    return Frame(frame);
  }

  static Frame read(const char *path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error(std::string("cannot read ") + path);
    return of({std::istreambuf_iterator<char>(file), {}});
  }

 private:
  dlb_frame frame_;
};

// On success the message owns the frames.
inline Message decode(std::vector<Frame> frames) {
  std::vector<dlb_frame> plain;
  for (const Frame &frame : frames) plain.push_back(*frame);
  Message message(call(dlb_message_decode, plain.data(), plain.size(), 0));
  for (Frame &frame : frames) frame.moved();
  return message;
}

// And the tensors.
inline Message encode(std::vector<Tensor> tensors) {
  std::vector<dlb_message_tensor> plain(tensors.size());
  for (size_t i = 0; i < tensors.size(); i++) plain[i].tensor = tensors[i].get();
  Message message(call(dlb_message_encode, nullptr, plain.data(), plain.size()));
  for (Tensor &tensor : tensors) tensor.release();
  return message;
}
