// Small<T, N>: a sequence that keeps its first N elements inside itself. Ops have few inputs and outputs, and a heap
// block for each list of them would cost more than the arithmetic of a small op.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <utility>

namespace mixtape {

template <class T, int N>
class Small {
 public:
  Small() = default;
  Small(std::initializer_list<T> items) {
    for (const T& item : items) push_back(item);
  }
  explicit Small(int count, const T& value = T()) {
    for (int i = 0; i < count; ++i) push_back(value);
  }
  Small(const Small& other) {
    for (const T& item : other) push_back(item);
  }
  Small(Small&& other) noexcept { take(other); }
  Small& operator=(Small other) noexcept {
    clear();
    take(other);
    return *this;
  }
  ~Small() { clear(); }

  void push_back(T item) {
    if (size_ == capacity_) grow();
    std::construct_at(data_ + size_, std::move(item));
    ++size_;
  }
  void clear() {
    std::destroy_n(data_, size_);
    if (data_ != inline_data()) std::allocator<T>().deallocate(data_, static_cast<size_t>(capacity_));
    data_ = inline_data();
    capacity_ = N;
    size_ = 0;
  }

  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](int i) { return data_[i]; }
  const T& operator[](int i) const { return data_[i]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }

 private:
  T* inline_data() { return reinterpret_cast<T*>(room_); }
  void grow() {
    const int bigger = capacity_ * 2;
    T* fresh = std::allocator<T>().allocate(static_cast<size_t>(bigger));
    std::uninitialized_move_n(data_, size_, fresh);
    const int count = size_;
    clear();
    data_ = fresh;
    capacity_ = bigger;
    size_ = count;
  }
  void take(Small& other) {  // *this is empty and inline
    if (other.data_ != other.inline_data()) {
      data_ = std::exchange(other.data_, other.inline_data());
      capacity_ = std::exchange(other.capacity_, N);
      size_ = std::exchange(other.size_, 0);
      return;
    }
    std::uninitialized_move_n(other.data_, other.size_, data_);
    size_ = other.size_;
    other.clear();
  }

  int size_ = 0;
  int capacity_ = N;
  T* data_ = inline_data();
  alignas(T) std::byte room_[sizeof(T) * N];
};

}  // namespace mixtape
