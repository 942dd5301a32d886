// A small C++ wrapper of the C interface: owners, and exceptions instead of codes.
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

// Calls a function that can fail. Its output is the first argument and its error the last. If it fails, the caller still
// owns all arguments.
template <class Out, class... Parameters, class... Arguments>
Out call(int32_t (*function)(Out *, Parameters...), Arguments... arguments) {
  Out out{};
  dlb_error error;
  if (function(&out, arguments..., &error) != DLB_OK) throw std::runtime_error(error.message);
  return out;
}

// The owner of a frame. It releases the frame, unless moved reports that a message has taken it over.
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

  // Returns a frame of the bytes of a vector, which is deleted when nothing refers to them any more.
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

// Decodes a message, which takes the frames over.
inline Message decode(std::vector<Frame> frames) {
  std::vector<dlb_frame> plain;
  for (const Frame &frame : frames) plain.push_back(*frame);
  Message message(call(dlb_message_decode, plain.data(), plain.size(), 0));
  for (Frame &frame : frames) frame.moved();
  return message;
}

// Encodes a message, which takes the tensors over.
inline Message encode(std::vector<Tensor> tensors) {
  std::vector<dlb_message_tensor> plain(tensors.size());
  for (size_t i = 0; i < tensors.size(); i++) plain[i].tensor = tensors[i].get();
  Message message(call(dlb_message_encode, nullptr, plain.data(), plain.size()));
  for (Tensor &tensor : tensors) tensor.release();
  return message;
}
